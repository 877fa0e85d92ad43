//! ResourceQuota: hard limits, scopes, validation.
