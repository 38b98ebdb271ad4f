//! Segments that are archived before PostgreSQL asks for them.
//!
//! PostgreSQL asks for one file at a time. While it waits, the next ones are sent as well.

use std::{collections::BTreeMap, fs, path::Path};

use parking_lot::Mutex;
use postgres_archive::{Archive, Put};
use postgres_model::{
    report::ArchiveFailure,
    wal_file::{WalFileName, WalSegment},
};
use tokio::task::JoinHandle;

use super::failure;

/// Most files of `archive_status` that are looked at.
const MAX_FILES: usize = 200_000;

/// Files that are being sent, or were sent and not asked for yet.
#[derive(Default)]
pub(super) struct Ahead {
    tasks: Mutex<BTreeMap<WalFileName, JoinHandle<Result<Put, ArchiveFailure>>>>,
}

impl Ahead {
    /// Forgets all files: another archive is used.
    pub(super) fn clear(&self) {
        self.tasks.lock().clear();
    }

    /// Returns the task that archives a file, and starts it if it does not run yet.
    pub(super) fn take(
        &self,
        archive: &Archive,
        wal: &Path,
        name: WalFileName,
    ) -> JoinHandle<Result<Put, ArchiveFailure>> {
        let known = self.tasks.lock().remove(&name);
        known.unwrap_or_else(|| start(archive, wal, name))
    }

    /// Starts to archive segments that are ready after this one, up to a number of tasks.
    pub(super) fn fill(&self, archive: &Archive, wal: &Path, after: WalSegment, most: usize) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|name, _| *name > WalFileName::Segment(after));
        let missing = most.saturating_sub(tasks.len());
        if missing == 0 {
            return;
        }
        let ready = ready(wal, after).into_iter().map(WalFileName::Segment);
        let new: Vec<_> = ready.filter(|name| !tasks.contains_key(name)).take(missing).collect();
        tasks.extend(new.into_iter().map(|name| (name, start(archive, wal, name))));
    }
}

fn start(archive: &Archive, wal: &Path, name: WalFileName) -> JoinHandle<Result<Put, ArchiveFailure>> {
    let (archive, path) = (archive.clone(), wal.join(name.to_string()));
    tokio::spawn(async move { archive.archive_wal(name, &path).await.map_err(|error| failure::of(&error)) })
}

/// Returns the segments after one that PostgreSQL has marked as ready, in their order.
fn ready(wal: &Path, after: WalSegment) -> Vec<WalSegment> {
    let entries = fs::read_dir(wal.join("archive_status")).into_iter().flatten().flatten().take(MAX_FILES);
    let segment = |entry: fs::DirEntry| {
        let name = entry.file_name();
        match name.to_str()?.strip_suffix(".ready")?.parse().ok()? {
            WalFileName::Segment(segment) => (segment > after).then_some(segment),
            _ => None,
        }
    };
    let mut segments: Vec<_> = entries.filter_map(segment).collect();
    segments.sort_unstable();
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_segments_are_found_in_their_order() {
        let wal = tempfile::tempdir().unwrap();
        let status = wal.path().join("archive_status");
        fs::create_dir(&status).unwrap();
        for name in [
            "000000010000000000000002.ready",
            "000000010000000000000005.ready",
            "000000010000000000000003.ready",
            "000000010000000000000004.done",
            "00000002.history.ready",
            "000000010000000000000006.partial.ready",
            "x.ready",
        ] {
            fs::write(status.join(name), "").unwrap();
        }
        let WalFileName::Segment(after) = "000000010000000000000002".parse().unwrap() else { panic!() };
        let names: Vec<_> = ready(wal.path(), after).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["000000010000000000000003", "000000010000000000000005"]);
        assert!(ready(&wal.path().join("none"), after).is_empty());
    }
}
