//! What a process of controllers needs: supervision, graceful stop, logs and probes.
