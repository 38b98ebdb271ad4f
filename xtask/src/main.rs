//! The developer's commands: `cargo xtask <command>`.

fn main() {}
