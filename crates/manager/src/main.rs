//! The manager's entry point.

fn main() {}
