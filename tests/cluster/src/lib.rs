//! Starts a real Kubernetes control plane for development and tests: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler, and kwok for simulated nodes. On request, it also starts
//! [real nodes](real_nodes), which run containers. All components bind to 127.0.0.1. They stop when the process that started them ends, even if it is killed.
//!
//! A test uses the control plane that its process shares, and its own namespace:
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let cluster = cluster::shared().await?;
//! let namespace = cluster.namespace("example").await?;
//! let client = cluster.client().await?;
//! # drop((namespace, client)); Ok(())
//! # }
//! ```
//!
//! A test that changes cluster-scoped state calls [`isolated`]. [`named`] runs a cluster in the
//! background.

mod addresses;
mod attach;
pub mod audit;
pub mod binaries;
mod cgroups;
mod cluster;
mod command;
mod companion;
mod components;
mod container_usage;
mod control_plane;
mod crds;
mod go_build;
mod go_error;
mod identity;
mod kubeconfig;
mod kubectl;
mod kubernetes_module;
mod lifeline;
mod load;
pub mod named;
mod namespace;
mod nodes;
mod options;
mod pki;
mod ports;
mod private_dir;
mod process;
pub mod program;
mod progress;
mod readiness;
pub mod real_nodes;
mod record;
mod release;
mod shared;
mod snapshot;
pub mod state;
pub mod usage;
mod users;
mod versions;
pub mod wait;

pub use attach::attach;
pub use cluster::{Cluster, prepare_real_nodes};
pub use companion::Companion;
pub use components::Component;
pub use container_usage::ContainerUsage;
pub use namespace::TestNamespace;
pub use options::Options;
pub use ports::{Ports, reserve_address};
pub use progress::Progress;
pub use record::Record;
pub use release::{KUBERNETES_VARIABLE, RELEASES, Release};
pub use shared::{CLUSTER_VARIABLE, isolated, shared};
pub use snapshot::Snapshot;
pub use versions::{Versions, cache_key};
