//! The API server as a program: `cargo run -p quota-testkit --bin fake-api -- 127.0.0.1:8001`

use std::net::SocketAddr;

use quota_testkit::fake_api::{server, world::World};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address: SocketAddr = address.as_deref().unwrap_or("127.0.0.1:8001").parse()?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    server::serve(listener, World::new()).await?;
    Ok(())
}
