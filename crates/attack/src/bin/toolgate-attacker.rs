//! A process of its own that a test races against or kills.
fn main() {}
