//! Tests on real nodes, see `tests/main`. `cargo xtask test --real` runs them.
