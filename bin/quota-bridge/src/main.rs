//! Publishes the objects of a Kubernetes API to NATS.

use quota_service::exit::Exit;

/// Many small, short-lived values are allocated on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    quota_bridge::run::main()
}
