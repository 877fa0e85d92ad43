//! Kubernetes quantities, exact.
