//! Directories that only their owner can read.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Creates a directory for its owner only. The directory may exist already.
pub(crate) fn private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(path)
        .with_context(|| format!("create the directory {}", path.display()))
}
