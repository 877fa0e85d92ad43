//! The journal: durable, hash-chained, append-only.
