//! An API server without a cluster: enough of Kubernetes' API for `quota-bridge`, and for `curl`.
//!
//! `cargo run -p quota-bridge --example fake-api -- 127.0.0.1:8001`

mod server;
mod world;

use std::net::SocketAddr;

use world::World;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address: SocketAddr = address.as_deref().unwrap_or("127.0.0.1:8001").parse()?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    server::serve(listener, World::new()).await?;
    Ok(())
}
