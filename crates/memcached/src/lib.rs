//! Memcached runs a cache of a given size and says where it is.
//!
//! The way of a reconcile, in the order of the modules:
//!
//! ```text
//! api         what a person asks for and is told
//! observe     the pods of a cache, from the informer
//! build       pure: what the Deployment, Service and PodDisruptionBudget are to look like
//! children    makes them so, and tells what stood in the way
//! status      pure: what is said about the cache
//! reconcile   the controller: make, observe, tell
//! ```

mod api;
mod build;
mod children;
mod error;
mod observe;
mod reconcile;
mod status;
pub mod words;

pub use api::{Memcached, MemcachedSpec, MemcachedStatus};
pub use build::{APP, APP_LABEL, CACHE_LABEL, CONTAINER};
pub use error::Error;
pub use reconcile::{FINALIZER, IMAGE, MemcachedController};
