//! quotactl
fn main() {}
