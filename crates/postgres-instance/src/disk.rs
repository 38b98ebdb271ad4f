//! Observes the space of the volume.

use std::{fs, path::Path, time::Duration};

use postgres_model::{
    instance::Moment,
    space::{BallastIntent, Space},
};
use tracing::warn;

use crate::ballast::BallastFile;

/// How long a copy is not tried again that did not fit. The primary can have shrunk since.
const COPY_RETRY: Duration = Duration::from_mins(10);
/// How long a file system may take to free the space of files that were removed.
const REMOVAL: Duration = Duration::from_secs(1);
/// Most temporary files of queries that are counted.
const MAX_FILES: usize = 10_000;

/// The space of a volume.
pub(crate) struct Disk {
    ballast: BallastFile,
    space: Space,
    /// When the temporary files were counted.
    temporary_at: Moment,
    /// Bytes that the copy has which runs, or which ran last.
    copy: u64,
    /// Bytes that were too few for a copy, and when.
    too_few: Option<(u64, Moment)>,
    /// Whether the file system does not tell its space.
    is_failing: bool,
}

impl Disk {
    pub(crate) fn new(volume: &Path) -> Self {
        Self {
            ballast: BallastFile::new(volume),
            space: Space::default(),
            temporary_at: Moment::ZERO,
            copy: 0,
            too_few: None,
            is_failing: false,
        }
    }

    /// Looks at the volume and at the temporary files of a data directory. A file system that fails
    /// has the space that it had before.
    pub(crate) fn observe(&mut self, volume: &Path, data: &Path, now: Moment) -> Space {
        // In this order, files that are removed meanwhile count twice, and not never.
        self.note_temporary(temporary_bytes(data), now);
        self.look(volume);
        self.space.ballast = self.ballast.state(self.space.total);
        self.too_few = self.too_few.filter(|(_, since)| now.saturating_sub(*since) < COPY_RETRY);
        self.space.too_few_for_copy = self.too_few.map(|(bytes, _)| bytes);
        self.space
    }

    /// Notes the size of the temporary files. What was there a moment ago still counts.
    fn note_temporary(&mut self, bytes: u64, now: Moment) {
        let is_over = now.saturating_sub(self.temporary_at) >= REMOVAL;
        if bytes >= self.space.temporary || is_over {
            (self.space.temporary, self.temporary_at) = (bytes, now);
        }
    }

    fn look(&mut self, volume: &Path) {
        match rustix::fs::statvfs(volume) {
            Ok(stat) => {
                self.is_failing = false;
                self.space.total = stat.f_blocks.saturating_mul(stat.f_frsize);
                self.space.free = stat.f_bavail.saturating_mul(stat.f_frsize);
            }
            Err(error) if !std::mem::replace(&mut self.is_failing, true) => {
                warn!(%error, volume = %volume.display(), "cannot read the free space of the volume");
            }
            Err(_) => {}
        }
    }

    /// Returns the space at the last look.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Does with the ballast what the plan says.
    pub(crate) async fn apply(&mut self, intent: BallastIntent) {
        self.ballast.apply(intent, self.space.total).await;
    }

    /// Notes the space that a copy has.
    pub(crate) fn begin_copy(&mut self) {
        self.copy = self.space.for_copy();
    }

    /// Notes that the copy did not fit.
    pub(crate) fn copy_did_not_fit(&mut self, now: Moment) {
        self.too_few = Some((self.copy, now));
    }
}

/// Returns the bytes in the temporary files of queries: files in one folder, and folders with files
/// that several processes share.
fn temporary_bytes(data: &Path) -> u64 {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().take(MAX_FILES);
    let bytes = |entry: fs::DirEntry| entry.metadata().map_or(0, |file| file.len());
    let of_entry = |entry: fs::DirEntry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder { entries(&entry.path()).map(bytes).sum() } else { bytes(entry) }
    };
    entries(&data.join("base/pgsql_tmp")).map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_of_queries_are_counted() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(temporary_bytes(data.path()), 0);
        let shared = data.path().join("base/pgsql_tmp/pgsql_tmp7.0.fileset");
        fs::create_dir_all(&shared).unwrap();
        fs::write(shared.join("0.0"), "12345").unwrap();
        fs::write(data.path().join("base/pgsql_tmp/pgsql_tmp8.0"), "123").unwrap();
        let shared = fs::metadata(shared).unwrap();
        assert!(shared.is_dir());
        assert_eq!(temporary_bytes(data.path()), 8);
    }

    #[test]
    fn temporary_files_that_were_removed_count_for_a_moment() {
        let mut disk = Disk::new(Path::new("/"));
        for (millis, bytes, expected) in
            [(0, 7, 7), (500, 9, 9), (900, 0, 9), (1499, 3, 9), (1500, 3, 3), (1501, 0, 3), (2500, 0, 0)]
        {
            disk.note_temporary(bytes, Duration::from_millis(millis));
            assert_eq!(disk.space.temporary, expected, "after {millis} ms");
        }
    }

    #[test]
    fn copy_that_did_not_fit_is_forgotten_after_a_while() {
        let volume = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(volume.path());
        let at = |disk: &mut Disk, seconds| {
            let space = disk.observe(volume.path(), volume.path(), Duration::from_secs(seconds));
            assert!(space.total > space.free && space.free > 0);
            space.too_few_for_copy
        };
        assert_eq!(at(&mut disk, 1), None);
        disk.begin_copy();
        disk.copy_did_not_fit(Duration::from_secs(2));
        assert!(at(&mut disk, 600).is_some_and(|bytes| bytes == disk.copy));
        assert_eq!(at(&mut disk, 602), None);
    }
}
