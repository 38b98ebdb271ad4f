//! What a process of controllers needs: a connection, supervision, a graceful stop, logs and probes.
//!
//! The controllers themselves are `operator-core`'s; this crate runs them.

pub mod connect;
pub mod crds;
pub mod logs;
pub mod probes;
pub mod signals;
pub mod supervisor;
