//! What is stored, as clients see it: in the wire types of `/v1`, and as the manifests of the Kubernetes API. Below both.

pub(crate) mod group;
pub(crate) mod quota;
pub(crate) mod reservation;
