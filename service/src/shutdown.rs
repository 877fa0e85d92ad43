//! Signals: the first SIGTERM or SIGINT drains, the second ends at once, SIGHUP reloads.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::program;

/// The effects of signals.
#[derive(Clone, Debug)]
pub struct Signals {
    /// Cancelled when the daemon shall stop. Other tasks cancel it as well, when they cannot continue.
    pub stop: CancellationToken,
    /// Changes when files (certificates, tokens) are to be read again.
    pub reload: watch::Receiver<u64>,
}

/// Listens for signals from now on, as long as the runtime lives.
///
/// # Errors
/// The operating system refuses a handler.
pub fn listen() -> io::Result<Signals> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let hang_up = signal(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let (requests, reload) = watch::channel(0);
    tokio::spawn(stop_on(terminate, interrupt, stop.clone()));
    tokio::spawn(reload_on(hang_up, requests));
    Ok(Signals { stop, reload })
}

async fn stop_on(mut terminate: Signal, mut interrupt: Signal, stop: CancellationToken) {
    let number = next(&mut terminate, &mut interrupt).await;
    tracing::info!(signal = number, "stopping");
    program::stopping();
    stop.cancel();
    let number = next(&mut terminate, &mut interrupt).await;
    tracing::warn!(signal = number, "stopped by a second signal, requests are cut off");
    // The exit status that shells report for a death by this signal.
    std::process::exit(128 + number);
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> i32 {
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
    }
}

async fn reload_on(mut hang_up: Signal, requests: watch::Sender<u64>) {
    while hang_up.recv().await.is_some() {
        tracing::info!("reading certificates and tokens again");
        requests.send_modify(|times| *times += 1);
    }
}
