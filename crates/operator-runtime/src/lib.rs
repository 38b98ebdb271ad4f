//! What a process of controllers needs: a connection, supervision, a graceful stop, logs and probes.
//!
//! The controllers themselves are `operator-core`'s; this crate runs them.

pub mod certificates;
pub mod connect;
pub mod crds;
pub mod election;
pub mod exit;
pub mod https;
pub mod logs;
pub mod metrics;
pub mod probes;
pub mod release;
mod server;
pub mod signals;
pub mod supervisor;
pub mod telemetry;
pub mod webhook;
