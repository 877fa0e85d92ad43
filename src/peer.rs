//! Who is at the other end of a connection.

use std::{net::SocketAddr, sync::Arc};

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The names of its verified certificate that count; none without one.
    pub names: Arc<[String]>,
}
