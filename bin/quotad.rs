//! The quota ledger daemon.

use quotad::exit::Exit;

fn main() -> Exit {
    quotad::run::main()
}
