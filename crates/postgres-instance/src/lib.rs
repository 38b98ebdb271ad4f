//! The instance manager of a PostgresCluster: the first process of the container that runs PostgreSQL.
//!
//! The instance observes PostgreSQL, its volume, the PostgresCluster, and the Lease. Then
//! `postgres_model::instance::plan`, a pure function, says what to do next, and the instance does it.
//!
//! ```text
//!   PostgresCluster ──watch──▶ ┌───────────┐ ◀──seal── operator
//!   Lease ◀──acquire, renew──▶ │ main loop │ ──status─▶ operator
//!   volume ◀──instance.json──▶ └─────┬─────┘
//!                                 start, stop, reload, promote
//!                                    ▼
//!            fence thread ──kill──▶ PostgreSQL
//! ```
//!
//! # Guarantees
//! - Those of `postgres_model::instance`, which decides.
//! - PostgreSQL runs read-write only before the moment that the fence thread holds, and the thread
//!   needs neither the network nor the main loop.
//! - A data directory becomes that of the volume only when it is whole.
//! - The position that a sealed member reports was asked for after its receiver had ended.
//! - One process uses a volume at any time.
//! - PostgreSQL does not run on a full volume, as `postgres_model::space` defines it.

mod archive;
mod ballast;
pub mod clock;
pub mod cluster;
mod configuration;
mod control_data;
mod declared;
mod disk;
mod durable;
pub mod election;
mod fence;
mod instance;
mod metrics;
mod parameters;
mod probe;
mod processes;
mod programs;
mod recovery;
mod recovery_target;
mod roles;
mod run;
mod server;
mod server_task;
mod session;
mod settings;
mod slots;
pub mod status_api;
mod tasks;
mod upgrade;
mod volume;
mod wal_commands;
mod wal_sizes;

pub use settings::Settings;
