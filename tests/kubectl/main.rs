//! The real kubectl, every version to be found, against the Kubernetes-style API.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod apply;
mod read;
mod server;
mod watch;
mod wire;
mod write;
