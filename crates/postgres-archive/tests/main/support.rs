//! Archives on the shared server, and files to archive.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use postgres_archive::{
    Archive, Backup, BackupData, BackupWriter, ClusterReference, Credentials, Manifest, ObjectStore,
    ObjectStoreSettings,
};
use postgres_model::{
    archive::BackupId,
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::TimelineId,
    wal_file::{SegmentSize, WalFileName, WalSegment},
};

use crate::server::{BUCKET, KEY_ID, SECRET, Server};

pub(crate) const SYSTEM: SystemIdentifier = SystemIdentifier(7_400_000_000_000_000_001);
pub(crate) const LINEAGE: &str = "db-2c1f1c4e";
/// Smallest segments, so that tests are fast.
pub(crate) const SEGMENT: u64 = 1 << 20;

/// Returns a prefix that no other test of this process has.
pub(crate) fn unique_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the settings of a prefix on a server.
pub(crate) fn settings(address: SocketAddr, prefix: &str) -> ObjectStoreSettings {
    let mut settings =
        ObjectStoreSettings::new(format!("s3://{BUCKET}/{prefix}"), Credentials::new(KEY_ID, SECRET));
    settings.endpoint = Some(format!("http://{address}"));
    settings.request_timeout = Duration::from_secs(30);
    settings.deadline = Duration::from_mins(1);
    settings
}

/// Returns the archive of the test database with other settings.
pub(crate) fn archive_with(settings: &ObjectStoreSettings) -> Archive {
    Archive::new(ObjectStore::new(settings).unwrap(), LINEAGE.parse().unwrap(), SYSTEM)
}

/// An archive on the shared server, and a folder for files.
pub(crate) struct Place {
    pub(crate) archive: Archive,
    pub(crate) prefix: String,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::on(Server::shared().address())
    }

    /// Returns an archive on a server, which can be a proxy.
    pub(crate) fn on(address: SocketAddr) -> Self {
        let prefix = unique_prefix();
        let archive = archive_with(&settings(address, &prefix));
        Self { archive, prefix, folder: tempfile::tempdir().unwrap() }
    }

    /// Returns the file in which the shared server stores an object of the archive.
    pub(crate) fn stored(&self, object: &str) -> PathBuf {
        Server::shared().file(&format!("{}/{LINEAGE}/{SYSTEM}/{object}", self.prefix))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a file of `pg_wal` and archives it.
    pub(crate) async fn archive_file(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        self.archive.archive_wal(name.parse().unwrap(), &path).await.unwrap();
    }

    /// Archives segments of a timeline.
    pub(crate) async fn archive_segments(&self, timeline: u32, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.archive_file(&segment(timeline, number).to_string(), &content(timeline, number)).await;
        }
    }

    /// Writes the data of a backup in parts of 16 KiB, and completes it.
    pub(crate) async fn back_up(&self, backup: Backup, tar: &[u8]) -> Manifest {
        let data = self.write(&backup.id, tar).await;
        let manifest = Manifest::new(backup, data);
        self.archive.complete_backup(&manifest).await.unwrap();
        manifest
    }

    pub(crate) async fn write(&self, id: &BackupId, tar: &[u8]) -> BackupData {
        BackupWriter::new(self.archive.clone(), id.clone()).part_bytes(16 << 10).write(tar).await.unwrap()
    }
}

pub(crate) fn timeline(number: u32) -> TimelineId {
    TimelineId::new(number).unwrap()
}

pub(crate) fn size() -> SegmentSize {
    SegmentSize::from_bytes(SEGMENT).unwrap()
}

/// Returns a segment by its number.
pub(crate) fn segment(number_of_timeline: u32, number: u64) -> WalSegment {
    WalSegment::at(timeline(number_of_timeline), Lsn(number * SEGMENT), size())
}

pub(crate) fn name(text: &str) -> WalFileName {
    text.parse().unwrap()
}

/// Returns a segment with the header that PostgreSQL writes, and pages that compress by half.
pub(crate) fn content(timeline: u32, number: u64) -> Vec<u8> {
    segment_of(SEGMENT, timeline, number)
}

/// Returns a segment of any size.
pub(crate) fn segment_of(bytes: u64, timeline: u32, number: u64) -> Vec<u8> {
    let mut content = vec![0x16, 0xD1, 6, 0];
    content.extend(timeline.to_le_bytes());
    content.extend((number * bytes).to_le_bytes());
    content.extend([0; 8]);
    content.extend(SYSTEM.0.to_le_bytes());
    content.extend(u32::try_from(bytes).unwrap().to_le_bytes());
    content.extend(8192_u32.to_le_bytes());
    content.extend(random(usize::try_from(bytes).unwrap() - content.len(), number));
    content
}

/// Returns bytes of which half are random, in runs as in pages of a database.
pub(crate) fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut content = Vec::with_capacity(bytes + 128);
    while content.len() < bytes {
        content.extend(std::iter::repeat_with(|| random.u8(..)).take(64));
        content.extend([u8::try_from(content.len() / 1024 % 256).unwrap(); 64]);
    }
    content.truncate(bytes);
    content
}

/// Returns a backup from the start of one segment to the start of the next, at a second of a day.
pub(crate) fn backup(timeline: u32, number: u64, second: i64) -> Backup {
    let stopped_at = Timestamp::from_second(1_800_000_000 + second).unwrap();
    let timeline = self::timeline(timeline);
    let segment = segment(timeline.get(), number);
    Backup {
        based_on: None,
        id: BackupId::new(&stopped_at.strftime("%Y%m%dT%H%M%SZ").to_string(), timeline).unwrap(),
        system: SYSTEM,
        server_version: "17.6".parse().unwrap(),
        timeline,
        begin_lsn: Lsn(number * SEGMENT + 40),
        end_lsn: Lsn(number * SEGMENT + 80),
        begin_wal: segment,
        end_wal: segment,
        segment_size: size(),
        started_at: stopped_at,
        stopped_at,
        raw_bytes: 0,
        stored_bytes: 0,
        member: "db-1".to_owned(),
        cluster: ClusterReference { name: "db".to_owned(), uid: "2c1f1c4e".to_owned() },
    }
}

/// Returns the names of the files in a folder.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}
