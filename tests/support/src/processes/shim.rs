//! Builds `shim.c` and puts it between a daemon and its disk.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tempfile::TempDir;

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process is killed before it.
    Kill,
    /// The process is killed in the middle of it.
    Tear,
    /// It fails, once.
    Once(i32),
    /// A write does half, and what comes next fails.
    Short(i32),
    /// It fails, and all that come after it.
    Always(i32),
    /// It is a sync, the `n`-th one, and fails.
    Sync(i32),
}

pub const EIO: i32 = 5;
pub(crate) const ENOSPC: i32 = 28;

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::Kill,
        Self::Tear,
        Self::Once(EIO),
        Self::Once(ENOSPC),
        Self::Short(ENOSPC),
        Self::Always(EIO),
        Self::Always(ENOSPC),
        Self::Sync(EIO),
        Self::Sync(ENOSPC),
    ];

    /// Whether it ends the process rather than a call.
    pub const fn kills(self) -> bool {
        matches!(self, Self::Kill | Self::Tear)
    }

    fn environment(self) -> Vec<(&'static str, String)> {
        let fail =
            |errno: i32| vec![("FAULT_DO", "fail".to_owned()), ("FAULT_ERRNO", errno.to_string())];
        match self {
            Self::Kill => vec![("FAULT_DO", "kill".to_owned())],
            Self::Tear => vec![("FAULT_DO", "tear".to_owned())],
            Self::Once(errno) => fail(errno),
            Self::Short(errno) => {
                let mut variables = fail(errno);
                variables[0].1 = "short".to_owned();
                variables
            }
            Self::Always(errno) => {
                let mut variables = fail(errno);
                variables.push(("FAULT_STICKY", "1".to_owned()));
                variables
            }
            Self::Sync(errno) => {
                let mut variables = fail(errno);
                variables.push(("FAULT_ONLY", "sync".to_owned()));
                variables
            }
        }
    }
}

/// The library, built once for all tests of this process.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let directory = TempDir::new().unwrap();
        let library = directory.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim.c");
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .output()
            .expect("a C compiler is installed");
        assert!(built.status.success(), "{built:?}");
        (directory, library)
    });
    library
}

/// Lets `command` run with the shim in front of the directory `data`.
pub fn load(command: &mut Command, data: &Path) {
    command.env("LD_PRELOAD", library()).env("FAULT_DIR", data);
}

/// As [`load`], with a fault at the `n`-th call; a line in `said` tells that it fired.
pub fn inject(command: &mut Command, data: &Path, fault: Fault, n: u64, said: &Path) {
    load(command, data);
    command.env("FAULT_AT", n.to_string()).env("FAULT_SAID", said).envs(fault.environment());
}

/// Lets the wall clock of `command` be ahead by the seconds that stand in a file.
pub fn shift_clock(command: &mut Command, seconds: &Path) {
    command.env("LD_PRELOAD", library()).env("FAULT_CLOCK", seconds);
}
