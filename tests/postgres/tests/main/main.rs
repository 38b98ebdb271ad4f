//! Members with real PostgreSQL, under the real controller and a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod adoption;
mod application;
mod archive;
mod backups;
mod backups_lifecycle;
mod certificates;
mod controller;
mod deletion;
mod ensemblectl;
mod failures;
mod faults;
mod fencing;
mod full_disk;
mod hibernation;
mod import;
mod incremental_backups;
mod interruptions;
mod ledger;
mod life;
mod logical_slots;
mod major_upgrade;
mod metrics;
mod no_op;
mod parameters;
mod plain_server;
mod recovery;
mod rights;
mod roles_and_databases;
mod secrets;
mod storage;
mod support;
mod switchover;
mod takeover;
mod volumes;
mod walk_through;
