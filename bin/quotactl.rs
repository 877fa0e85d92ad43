//! The command line of Quota Ledger.

fn main() -> std::process::ExitCode {
    quotad::cli::run(std::env::args_os())
}
