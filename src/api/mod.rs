//! The HTTP API, `/v1`: reservations, quotas, usage, entries.
//!
//! A handler reads the request into plain data, passes a decision to the writer or reads the state, and renders the
//! response. Every refusal leaves as `application/problem+json`.

mod answer;
mod app;
mod backup;
mod batch;
mod body;
mod check;
mod cluster;
mod corrections;
mod denials;
mod drift;
mod entries;
mod events;
mod explain;
mod groups;
mod history;
mod lifecycle;
mod manifest;
mod measure;
mod namespaces;
mod objects;
mod openapi;
mod overview;
mod page;
mod past;
mod quotas;
mod readers;
mod replacing;
mod report;
mod reservations;
mod reserve_request;
mod routes;
mod rules;
mod series;
mod simulate;
mod status;
mod subjects;
mod suggest;
mod usage;
mod watch;
mod workload;

pub use crate::intake::sources::{NoSources, Sources};
pub use app::{App, Parts};
pub use backup::Backups;
#[doc(hidden)]
pub use reserve_request::ReserveRequest;
pub use routes::{document, routes};

pub use crate::caller::{Caller, actor};
use crate::{caller, precondition, problem};
