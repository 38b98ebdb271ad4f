//! Starts a real Kubernetes control plane for development and tests.
