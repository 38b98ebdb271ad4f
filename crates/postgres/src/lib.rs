//! The PostgresCluster controller: runs PostgreSQL with replicas.
//!
//! The manager does not contain this controller yet: its Pods need the instance manager, which does
//! not exist yet. See `docs/decisions/0030-postgres-membership.md`.
//!
//! The modules in the order in which a reconcile uses them:
//!
//! ```text
//! reconcile       the controller: permissions, settings, reconcile loop
//! api             the API types and their validation
//! event_log       a log line for each change of a PostgresCluster
//! version         the version and the image of PostgreSQL
//! build           pure: the desired objects
//! children        creates, updates, and deletes Services, budgets, and permissions
//! membership      pure: the part of the status that decides
//! decide          pure: the next change of the membership, and the next writes
//! members         reads and writes the Pods and volumes of the members
//! events          Events about members
//! status          pure: the reporting part of the status, and its conditions
//! error, reasons  errors, and the reasons in conditions and Events
//! condition_types types of the conditions
//! ```

mod api;
mod build;
mod children;
pub mod condition_types;
mod decide;
mod error;
mod event_log;
mod events;
mod members;
mod membership;
pub mod reasons;
mod reconcile;
mod status;
mod version;

pub use api::{
    AccessMode, BootstrapStatus, InstanceStatus, Members, Phase, PostgresCluster, PostgresClusterSpec,
    PostgresClusterStatus, PrimaryStatus, Retention, RetentionPolicy, Role, ServiceNames, Storage,
};
pub use build::{CLUSTER_LABEL, CLUSTER_UID, MEMBER_LABEL, PORT, ROLE_LABEL};
pub use error::Error;
pub use reconcile::{IMAGES, INSTANCE_IMAGE, PostgresClusterController};
