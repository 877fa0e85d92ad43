//! The real kubectl, every version to be found, against the Kubernetes-style API.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod apply;
mod cuts;
mod daemon;
mod groups;
mod much;
mod read;
mod resume;
mod server;
mod strict;
mod tenant;
use quota_testkit as support;
mod watch;
mod wire;
mod write;
