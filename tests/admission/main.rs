//! The admission webhook, with what a kube-apiserver 1.36 really sends (`tests/vectors/admissionreview`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod daemon;
mod harness;
mod names;
mod owners;
mod refusals;
mod reviews;
use quota_testkit as support;
mod tenancy;
mod tenants;
mod tls;
mod workloads;
