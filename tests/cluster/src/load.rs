//! Loads images into a cluster with real nodes.

use std::path::Path;

use anyhow::{Result, ensure};
use images::Store;

use crate::Cluster;

/// Directory of loaded images in the directory of a cluster.
pub(crate) const IMAGES: &str = "images";

impl Cluster {
    /// Makes the images of an OCI archive available to the real nodes, and returns their names. An
    /// archive of `cargo xtask image` or `docker save` works. It does not matter which process owns
    /// the cluster.
    ///
    /// # Errors
    /// Returns an error if the archive is not complete, if an image in it has no name, or if the
    /// cluster has no real nodes.
    pub fn load_image(&self, archive: &Path) -> Result<Vec<String>> {
        let record = self.record();
        ensure!(
            record.real_nodes > 0,
            "cannot load {} into the cluster {}: it has no real nodes; start it with --real-nodes",
            archive.display(),
            record.name
        );
        Store::new(record.dir.join(IMAGES)).load_archive(archive)
    }
}
