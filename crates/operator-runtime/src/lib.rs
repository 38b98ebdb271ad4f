//! Runtime of a controller process.
//!
//! `operator-core` is the library to write controllers with, and this crate runs them. It
//! corresponds to the manager of controller-runtime. A binary calls its modules in this order:
//!
//! 1. [`telemetry`] and [`logs`]: log lines, traces, and the log level at run time
//! 2. [`signals`]: a token that SIGTERM and SIGINT cancel
//! 3. [`connect`]: a client for the API server
//! 4. [`webhook`], [`metrics`], and [`probes`]: HTTP servers, over [`https`] with one certificate
//! 5. [`certificates`]: rotation of that certificate, and `caBundle` injection
//! 6. [`crds`]: installation of the CustomResourceDefinitions, if requested
//! 7. [`election`]: one Lease for each controller
//! 8. [`supervisor`]: runs each controller while this process leads it, until the process stops
//! 9. [`cleanup`]: removal of finalizers and webhooks, if the manager's namespace is deleted
//! 10. [`exit`]: the exit code
//!
//! Every replica serves webhooks, metrics, and probes. Only the leader of a controller reconciles.
//!
//! # Shutdown
//! When the token is cancelled, `/readyz` fails, controllers finish the reconciles in progress, and
//! Leases are released. The webhook server continues for a moment, until the API server uses other
//! replicas.

pub mod certificates;
pub mod cleanup;
pub mod connect;
pub mod crds;
pub mod election;
pub mod error_response;
pub mod exit;
pub mod flags;
pub mod https;
pub mod logs;
pub mod metrics;
pub mod probes;
pub mod reload;
pub mod server;
pub mod signals;
pub mod supervisor;
pub mod telemetry;
pub mod webhook;
