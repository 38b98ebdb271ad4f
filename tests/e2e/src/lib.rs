//! End-to-end tests of the manager, see `tests/main`.
