//! An API server without a cluster: enough of Kubernetes' API for `quota-bridge`, and for `curl`.
//!
//! Its objects are in memory. Whoever runs it in a process of its own can also have it fail, as real servers do.

pub mod server;
pub mod world;
