//! The peer of a connection.

use std::{net::SocketAddr, sync::Arc};

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The names of its verified certificate; empty without one.
    pub names: Arc<[String]>,
}
