//! The Memcached controller: runs memcached with a given number of Pods and reports their
//! endpoints.
//!
//! The modules in the order in which a reconcile uses them:
//!
//! ```text
//! reconcile       the controller: permissions, settings, reconcile loop
//! api             the API types and their validation
//! autoscalers     the number of Pods: from the spec, or from an autoscaler of the Deployment
//! build           pure: the desired child objects
//! children        creates, updates, and deletes the child objects
//! pods            the Pods of a Memcached, from the cache
//! status          pure: the status and its conditions
//! error, reasons  errors, and the reasons in conditions and Events
//! condition_types types of the conditions
//! ```
//!
//! Where to find a behavior:
//!
//! | | |
//! |---|---|
//! | the command line of memcached | `build/command` |
//! | memory and CPU | `build/resources` |
//! | probes, graceful shutdown, security context, image pull policy | `build/container` |
//! | spread over nodes, Pod security context | `build/pod` |
//! | rolling updates | `build/deployment`, and for drained nodes `build/budget` |
//! | DNS names, `status.endpoints` | `build/service` |
//! | metrics: the exporter and its Service | `build/exporter` |
//! | network access to the Pods | `api/network`, `build/network` |
//! | name conflicts, objects of a deleted Memcached, denied writes | `children`, `error` |

mod api;
mod autoscalers;
mod build;
mod children;
pub mod condition_types;
mod error;
mod pods;
pub mod reasons;
mod reconcile;
mod status;

pub use api::{Memcached, MemcachedSpec, MemcachedStatus, Metrics, NetworkAccess};
pub use build::{
    APP, APP_LABEL, CACHE_LABEL, CONTAINER, PORT_LABEL,
    exporter::{EXPORTER, METRICS_PORT},
};
pub use error::Error;
pub use reconcile::{EXPORTER_IMAGE, FINALIZER, IMAGE, MemcachedController};
