//! Instructions of the core's hot paths: what noise cannot touch.
//!
//! Each case runs in a process of its own under callgrind, which counts what happens inside [`measured`] only. The
//! counts are held against `benches/instructions.txt`; they depend on the compiler, so its version stands there too.
//! After a wanted change: `UPDATE_BASELINE=1 make bench-instructions`.

#![allow(missing_docs, reason = "a program")]

mod baseline;
mod cases;

use std::{env, process::ExitCode};

/// As in the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Which case a process runs; set by the process that counts.
const CASE: &str = "INSTRUCTIONS_CASE";

/// What callgrind looks at.
#[inline(never)]
fn measured(case: &mut dyn FnMut()) {
    case();
    // Keeps this from becoming a jump to the case, which callgrind would not see the end of.
    std::hint::black_box(());
}

fn main() -> ExitCode {
    if let Ok(name) = env::var(CASE) {
        cases::run(&name, measured);
        return ExitCode::SUCCESS;
    }
    if !env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    baseline::check()
}
