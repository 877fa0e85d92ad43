//! quotad
fn main() {}
