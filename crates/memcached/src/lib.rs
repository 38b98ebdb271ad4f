//! Memcached runs a cache of a given size and says where it is.
//!
//! The way of a reconcile, in the order of the modules:
//!
//! ```text
//! reconcile     the controller: its rights, what it is set to; size, make, observe, tell
//! api           what a person asks for and is told, and what the API server refuses
//! autoscalers   how many pods: the spec, or an autoscaler of the Deployment
//! build         pure: what the objects are to look like
//! children      makes them so, takes away what is no longer asked for, tells what stood in the way
//! observe       the pods that count, from the informer
//! status        pure: what is said about the cache
//! error, reasons  what can go wrong, and the words for it in conditions and Events
//! ```
//!
//! Where a behaviour lives:
//!
//! | | |
//! |---|---|
//! | the command line of memcached | `build/command` |
//! | memory and processor | `build/resources` |
//! | probes, graceful stop, security context, pulling | `build/container` |
//! | spread over nodes, the pods' security context | `build/pod` |
//! | one pod at a time while it changes | `build/deployment`, and for drained nodes `build/budget` |
//! | names for clients, `status.endpoints` | `build/service` |
//! | metrics: the exporter and its Service | `build/exporter` |
//! | who may reach the pods | `api/network`, `build/network` |
//! | a name that is taken, what a namesake left, refusals | `children`, `error` |

mod api;
mod autoscalers;
mod build;
mod children;
mod error;
mod pods;
pub mod reasons;
mod reconcile;
mod status;

pub use api::{
    Block, Memcached, MemcachedSpec, MemcachedStatus, Metrics, Network, Operator, Peer, Requirement, Selector,
};
pub use build::{
    APP, APP_LABEL, CACHE_LABEL, CONTAINER, PORT_LABEL,
    exporter::{EXPORTER, METRICS_PORT},
};
pub use error::Error;
pub use reconcile::{EXPORTER_IMAGE, FINALIZER, IMAGE, MemcachedController};
