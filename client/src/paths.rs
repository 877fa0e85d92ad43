//! Paths that others than the daemon name.

/// Where an API server asks for admission.
pub const ADMIT: &str = "/admit";

/// Where an API server sends audit events.
pub const AUDIT: &str = "/audit";
