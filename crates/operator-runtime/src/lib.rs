//! Runtime of a controller process: connection, leader election, supervision, graceful shutdown,
//! webhooks, certificates, metrics, logs, and probes.
//!
//! `operator-core` is the library for controllers. This crate runs them.

pub mod certificates;
pub mod cleanup;
pub mod connect;
pub mod crds;
pub mod election;
pub mod exit;
pub mod https;
pub mod logs;
pub mod metrics;
pub mod probes;
mod server;
pub mod signals;
pub mod supervisor;
pub mod telemetry;
pub mod webhook;
