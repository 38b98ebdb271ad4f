//! Plays the kubelet for members of a PostgresCluster, for which the real controller decides. Each
//! Pod is the instance manager with a real PostgreSQL, in a PID namespace of its own, with a folder
//! as its volume and a loopback address as its Pod's.

mod api_proxy;
mod database;
mod http;
mod kubelet;
mod member;
mod object_store;
pub mod programs;
mod volume;

pub use api_proxy::ApiProxy;
pub use database::Database;
pub use kubelet::Kubelet;
pub use member::{Member, give_to_postgres, run_as_postgres};
pub use object_store::{ObjectStore, Written};
pub use programs::{distributed_version, folder as program_folder, major_version};
pub use volume::Volume;
