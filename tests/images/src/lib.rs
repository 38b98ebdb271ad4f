//! Builds small OCI images without Docker, and serves them as a read-only registry.
//!
//! ```no_run
//! # async fn example(cache: std::path::PathBuf, listener: tokio::net::TcpListener) -> anyhow::Result<()> {
//! use std::sync::Arc;
//!
//! let store = Arc::new(images::Store::new(cache.join("archives")));
//! for image in [images::catalog::pause()?, images::catalog::memcached()?] {
//!     let layout = image.build(&cache, &|line| eprintln!("{line}"))?;
//!     store.add(&image, &layout)?;
//! }
//! axum::serve(listener, images::registry(store)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`catalog`] describes the images that tests need. An image is built once per machine, and again
//! if its description changes.

mod archive;
mod build;
pub mod catalog;
mod debian;
mod digest;
#[cfg(test)]
mod fixture;
mod image;
mod name;
pub mod oci;
mod program;
mod registry;
mod store;
mod tree;

pub use debian::has_package_lists;
pub use digest::Digest;
pub use image::{Content, Image};
pub use oci::Config;
pub use registry::registry;
pub use store::Store;
