//! README's commands, run in one shell from top to bottom as a reader runs them, with the real programs.
//!
//! A block of commands (`sh`) is run as it is; the block without a language behind it is what they print. `sh no-run`
//! marks what needs more than this test has (a cluster, hours). Only addresses are replaced, by free ones, and `cargo` and
//! `nats-server` by scripts that add these addresses and start what was built for the tests.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::{
    support::{
        PATIENCE,
        nats::free_port,
        programs,
        quotad::{REQUEST, agent},
    },
    transcripts::all_fit,
};

/// Pages with commands, and how many blocks of each are not run: `make test` itself, and what needs a Kubernetes cluster,
/// a registry, or a system to install packages on. README's others are run, and those of docs/hook.md in tests/clients; of
/// the other pages all are transcripts, or here.
const NOT_RUN: [(&str, usize); 4] =
    [("README.md", 2), ("docs/tutorial.md", 8), ("docs/bridge.md", 2), ("deploy/README.md", 3)];

/// Ends the output of each block.
const MARK: &str = "--- end of block, failed:";

/// Commands, and what they print.
struct Block {
    line: usize,
    commands: String,
    is_run: bool,
    shown: Option<Vec<String>>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn blocks_of(page: &str) -> Vec<Block> {
    blocks(&fs::read_to_string(root().join(page)).unwrap())
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((line, opening)) = lines.next() {
        let is_run = match opening {
            "```sh" => true,
            "```sh no-run" => false,
            _ => continue,
        };
        let commands = content(&mut lines).join("\n");
        let output = lines.next_if(|(_, line)| *line == "```");
        let shown = output.map(|_| content(&mut lines));
        blocks.push(Block { line, commands, is_run, shown });
    }
    blocks
}

/// The lines up to the end of a block.
fn content<'t>(lines: &mut impl Iterator<Item = (usize, &'t str)>) -> Vec<String> {
    let inside = lines.map(|(_, line)| line.to_owned());
    inside.take_while(|line| line != "```").collect()
}

/// Where everything listens that README starts.
struct Addresses {
    api: String,
    admin: String,
    nats: String,
    kubernetes: String,
}

impl Addresses {
    fn free() -> Self {
        let address = || format!("127.0.0.1:{}", free_port());
        Self { api: address(), admin: address(), nats: address(), kubernetes: address() }
    }

    /// README's text with these instead of its own.
    fn put_into(&self, text: &str, directory: &Path) -> String {
        text.replace("127.0.0.1:8480", &self.api)
            .replace("127.0.0.1:4222", &self.nats)
            .replace("127.0.0.1:8001", &self.kubernetes)
            .replace("/tmp/nats", &directory.join("nats").to_string_lossy())
    }
}

/// Represents `cargo run`, with an address where none can be given otherwise.
const CARGO: &str = r#"#!/usr/bin/env bash
selected=() release=no
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case "$1" in
    --release) release=yes ;;
    -q) ;;
    *) selected+=("$1") ;;
    esac
    shift
done
shift
case "${selected[*]}" in
run) [ $release = yes ] && program=quotad ;;
"run --bin quotactl") exec "$README_PROGRAMS/quotactl" "$@" ;;
"run -p quota-bridge --bin quota-bridge") program=quota-bridge ;;
"run -p quota-testkit --bin fake-api") program=fake-api; set -- "$README_KUBERNETES" ;;
esac
exec "$README_PROGRAMS/${program:?there is no such program: ${selected[*]}}" "$@" >>"$README_LOG" 2>&1
"#;

const NATS_SERVER: &str = r#"#!/usr/bin/env bash
PATH=${PATH#*:} exec nats-server -a 127.0.0.1 -p "${README_NATS#*:}" "$@" >>"$README_LOG" 2>&1
"#;

/// A shell in a directory of its own, with all that it started; killed when dropped.
struct Shell {
    child: Child,
    input: ChildStdin,
    printed: Receiver<String>,
    addresses: Addresses,
    directory: TempDir,
}

impl Shell {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let addresses = Addresses::free();
        std::os::unix::fs::symlink(root().join("tests"), directory.path().join("tests")).unwrap();
        let programs = directory.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for (name, text) in [("cargo", CARGO), ("nats-server", NATS_SERVER)] {
            fs::write(programs.join(name), text).unwrap();
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(programs.join(name), executable).unwrap();
        }
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUOTA")) {
            command.env_remove(name);
        }
        let mut child = command
            .current_dir(directory.path())
            .env("PATH", path)
            .env("README_PROGRAMS", programs::directory())
            .env("README_LOG", directory.path().join("log"))
            .env("README_NATS", &addresses.nats)
            .env("README_KUBERNETES", &addresses.kubernetes)
            .env("QUOTAD_LISTEN", &addresses.api)
            .env("QUOTAD_ADMIN__LISTEN", &addresses.admin)
            .env("QUOTAD_SHUTDOWN__DRAIN", "0s")
            .env("QUOTACTL_SERVER", format!("http://{}", addresses.api))
            .env("QUOTACTL_CONFIG", "/dev/null")
            .env("QUOTA_BRIDGE_ADMIN__LISTEN", "127.0.0.1:0")
            .env("QUOTA_BRIDGE_NATS__URL", format!("nats://{}", addresses.nats))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (send, printed) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut shell =
            Self { input: child.stdin.take().unwrap(), child, printed, addresses, directory };
        shell.send("exec 2>&1; shopt -s expand_aliases; failed=no; trap 'failed=yes' ERR");
        shell
    }

    fn send(&mut self, text: &str) {
        writeln!(self.input, "{text}").unwrap();
    }

    /// The next line that is printed.
    fn line(&self) -> String {
        self.printed.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            panic!("nothing is printed any more ({error}); servers: {}", self.log())
        })
    }

    /// What the servers have logged.
    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Runs commands: what they print, and whether one of them failed.
    fn run(&mut self, commands: &str) -> (Vec<String>, bool) {
        let commands = self.addresses.put_into(commands, self.directory.path());
        self.send(&commands);
        // What ends without a newline gets one.
        self.send(&format!("printf '\\n%s %s\\n' '{MARK}' $failed; failed=no"));
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if let Some(failed) = line.strip_prefix(MARK) {
                if lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                return (lines, failed == " yes");
            }
            lines.push(line);
        }
    }

    /// Runs a block and holds what it prints to what it shows.
    fn check(&mut self, block: &Block) {
        let starts = block.commands.contains("cargo run ") && !block.commands.contains("alias ");
        if starts {
            // Its reader ends what ran before with Ctrl-C.
            self.run("kill $(jobs -p) 2>/dev/null; wait");
        }
        let ends = !["cargo run ", "quotactl watch "]
            .iter()
            .any(|program| last_line(&block.commands).starts_with(program));
        let commands = match ends || block.commands.ends_with('&') {
            true => block.commands.clone(),
            false => format!("{} &", block.commands),
        };
        let is_read = block.commands.lines().count() == 1 && block.commands.contains(" get ");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (mut lines, failed) = self.run(&commands);
            match &block.shown {
                None => assert!(!failed, "{}: {lines:#?}", block.place()),
                Some(shown) => {
                    while !ends && !block.fits(shown, &lines) {
                        lines.push(self.line());
                    }
                    // Events take a moment, so that what is read is read again.
                    if is_read && !block.fits(shown, &lines) && Instant::now() < deadline {
                        continue;
                    }
                    let (shown_text, printed) = (shown.join("\n"), lines.join("\n"));
                    assert!(
                        block.fits(shown, &lines),
                        "{}\nshown:\n{shown_text}\nprinted:\n{printed}\nservers:\n{}",
                        block.place(),
                        self.log()
                    );
                }
            }
            break;
        }
        if starts {
            self.wait_for_servers(block);
        } else if !ends {
            self.run("kill $!; wait $!");
        }
    }

    /// Waits until the daemon grants, and until the API server listens that the block starts.
    fn wait_for_servers(&self, block: &Block) {
        let ready = format!("http://{}/readyz", self.addresses.admin);
        let grants =
            || agent(REQUEST).get(&ready).call().is_ok_and(|answer| answer.status() == 200);
        let listens = || TcpStream::connect(&self.addresses.kubernetes).is_ok();
        let deadline = Instant::now() + PATIENCE;
        while !grants() || block.commands.contains("fake-api") && !listens() {
            assert!(Instant::now() < deadline, "not ready: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Block {
    fn place(&self) -> String {
        format!("README.md:{}: {}", self.line, self.commands)
    }

    fn fits(&self, shown: &[String], lines: &[String]) -> bool {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        all_fit(shown, &lines)
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

#[test]
fn the_readme_can_be_followed() {
    programs::build(&["quotad", "quotactl", "quota-bridge", "fake-api"]);
    let blocks = blocks_of("README.md");
    let run: Vec<_> = blocks.iter().filter(|block| block.is_run).collect();
    let mut shell = Shell::start();
    for block in &run {
        shell.check(block);
    }
    let count = run.len();
    assert!(count >= 6, "{count} blocks are run");
    println!("README.md: {count} blocks are run");
}

#[test]
fn blocks_that_are_not_run_are_counted() {
    let mut found = vec!["README.md".to_owned(), "deploy/README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        found.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    for page in found {
        let blocks = blocks_of(&page);
        let not_run = blocks.iter().filter(|block| !block.is_run).count();
        let expected = NOT_RUN.iter().find(|(name, _)| *name == page);
        assert_eq!(not_run, expected.map_or(0, |(_, count)| *count), "{page}");
        let is_run = ["README.md", "docs/hook.md"].contains(&&*page) || blocks.len() == not_run;
        assert!(
            is_run,
            "{page} has commands that nothing runs: make them a transcript, or mark them"
        );
    }
}
