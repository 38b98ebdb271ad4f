//! Tests of containers and of the manager's image on a cluster with three real nodes.
//!
//! The tests share the cluster. A test that disturbs a node has it for itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod attach;
mod autoscaling;
mod containers;
mod deploy;
mod disruptions;
mod drain;
mod failures;
mod history;
mod manager;
mod memcached;
mod memory;
mod namespaceplus;
mod network_policies;
mod node_selectors;
mod podset;
mod postgres;
mod postgres_cluster;
mod postgres_network;
mod postgres_tools;
mod postgres_upgrade;
mod power_loss;
mod proxy;
mod rollout;
mod support;
mod tenancy;
