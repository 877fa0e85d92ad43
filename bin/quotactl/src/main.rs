//! The command line of Quota Ledger.

fn main() -> std::process::ExitCode {
    quotactl::run(std::env::args_os())
}
