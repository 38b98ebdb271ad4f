//! Messages of the threads that serve the real nodes.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file for messages. A keeper in the background has no other reader.
#[derive(Clone, Debug)]
pub(super) struct Log(PathBuf);

impl Log {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Appends a line. The directory vanishes when the cluster stops, so a failure is ignored.
    pub(super) fn report(&self, message: &str) {
        let file = File::options().create(true).append(true).open(&self.0);
        let _ = file.and_then(|mut file| writeln!(file, "{message}"));
    }
}
