//! End-to-end tests: a running manager, seen through the Kubernetes API only. See `tests/main`.
