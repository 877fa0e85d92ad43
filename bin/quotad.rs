//! The quota ledger daemon.

use quotad::exit::Exit;

/// Requests make many small, short-lived values on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    quotad::main()
}
