//! What a Kubernetes controller needs: informers, reconciling, writing only what changed.
