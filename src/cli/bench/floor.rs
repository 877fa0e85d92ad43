//! The floor as a process of its own, as a daemon is one.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
};

use tokio::net::TcpListener;

use super::super::{
    failure::{Failure, Outcome},
    output::written,
};

/// A running floor; it ends with this.
pub(super) struct Floor {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Floor {
    /// Starts it on a free port.
    pub(super) fn start() -> Outcome<Self> {
        let failed = |error: io::Error| Failure::general(format!("the floor: {error}"));
        let mut child = Command::new(env::current_exe().map_err(failed)?)
            .arg("serve-floor")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(failed)?;
        }
        let address = line.trim().parse();
        let address = address.map_err(|_| Failure::general("the floor did not start"))?;
        Ok(Self { child, address })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Serves the floor until standard input ends; the first line of output is the address.
pub(crate) fn serve(listen: SocketAddr) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let listener = runtime
        .block_on(TcpListener::bind(listen))
        .map_err(|error| Failure::general(format!("{listen}: {error}")))?;
    let mut out = io::stdout().lock();
    written(writeln!(out, "{}", listener.local_addr()?).and_then(|()| out.flush()))?;
    let (end, ended) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    runtime.block_on(async {
        tokio::select! {
            served = crate::api::floor::serve(listener) => served.map(|never| match never {}),
            _ = ended => Ok(()),
        }
    })?;
    Ok(())
}
