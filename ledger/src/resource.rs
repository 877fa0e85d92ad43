//! Resource names and resource lists.
