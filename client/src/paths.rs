//! The paths that the configuration of an API server names.

/// The path of the admission webhook.
pub const ADMIT: &str = "/admit";

/// The path of the audit webhook.
pub const AUDIT: &str = "/audit";
