//! Manifests: what a base backup is, and of which parts it consists.

use jiff::Timestamp;
use postgres_model::{
    archive::BackupId,
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::TimelineId,
    version::Version,
    wal_file::{SegmentSize, WalSegment},
};
use serde::{Deserialize, Serialize};

use super::{BackupData, json};
use crate::checksum::Checksum;

/// Newest version of a manifest: that of an incremental backup. A release that knows only the first one cannot
/// restore such a backup.
pub(super) const VERSION: u64 = 2;
/// Version of the manifest of a full backup.
const FULL_VERSION: u64 = 1;
/// Most bytes of a manifest.
pub(super) const MAX_MANIFEST: u64 = 16 << 20;
/// Most parts of a backup. With 32 MiB each, 3 TiB of compressed data.
pub(super) const MAX_PARTS: usize = 100_000;

/// Most bytes of a part.
pub(super) const MAX_PART: u64 = 1 << 30;
/// Most bytes of a list of files in the store.
const MAX_FILE_LIST: u64 = 64 << 20;
/// Longest name or UID: that of a DNS subdomain.
const MAX_NAME: usize = 253;

/// Cluster that made a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterReference {
    /// Name of the PostgresCluster.
    pub name: String,
    /// UID of the PostgresCluster.
    pub uid: String,
}

/// Base backup, without its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// Identifier.
    #[serde(with = "json::text")]
    pub id: BackupId,
    /// Backup that it is based on, and whose data a recovery needs too. `None`: it is a full one.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json::optional_text")]
    pub based_on: Option<BackupId>,
    /// System identifier of the data.
    #[serde(rename = "systemID")]
    pub system: SystemIdentifier,
    /// Version of the server.
    #[serde(with = "json::text")]
    pub server_version: Version,
    /// Timeline on which the backup began.
    pub timeline: TimelineId,
    /// Position from which a recovery replays WAL.
    #[serde(rename = "beginLSN")]
    pub begin_lsn: Lsn,
    /// Position up to which a recovery must replay WAL before the data is consistent.
    #[serde(rename = "endLSN")]
    pub end_lsn: Lsn,
    /// Segment that contains `begin_lsn`.
    #[serde(rename = "beginWAL", with = "json::segment")]
    pub begin_wal: WalSegment,
    /// Segment that contains the byte before `end_lsn`. Its timeline is the one on which the backup
    /// ended.
    #[serde(rename = "endWAL", with = "json::segment")]
    pub end_wal: WalSegment,
    /// Size of the segments, in bytes.
    #[serde(rename = "walSegmentBytes", with = "json::segment_size")]
    pub segment_size: SegmentSize,
    /// When the backup began, by the clock of the member.
    pub started_at: Timestamp,
    /// When the backup ended, by the clock of the member. A recovery can reach every later moment.
    pub stopped_at: Timestamp,
    /// Bytes of the tar stream.
    pub raw_bytes: u64,
    /// Bytes of all parts.
    pub stored_bytes: u64,
    /// Member of the cluster that made the backup.
    pub member: String,
    /// Cluster that made the backup.
    pub cluster: ClusterReference,
}

/// Part of the data of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Bytes in the store.
    pub bytes: u64,
    /// Checksum of these bytes.
    pub sha256: Checksum,
}

/// Content of `manifest.json`, which makes a backup complete.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The backup.
    pub backup: Backup,
    /// Its parts, from number 0 on.
    pub parts: Vec<Part>,
    /// The list of its files. Without one, no incremental backup can be based on it.
    #[serde(default)]
    pub file_list: Option<Part>,
}

/// The manifest as it is stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    version: u64,
    backup: &'a Backup,
    parts: &'a [Part],
    #[serde(skip_serializing_if = "Option::is_none")]
    file_list: Option<Part>,
}

/// The part of a manifest that all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// Why a manifest cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ManifestError {
    /// A later release wrote it.
    Version(u64),
    /// It is malformed, or contradicts itself.
    Content(String),
}

impl Manifest {
    /// Returns the manifest of a backup whose data is written. Its numbers of bytes are those of the
    /// data.
    pub fn new(mut backup: Backup, data: BackupData) -> Self {
        (backup.raw_bytes, backup.stored_bytes) = (data.raw_bytes, data.stored_bytes);
        Self { backup, parts: data.parts, file_list: None }
    }

    fn version(&self) -> u64 {
        if self.backup.based_on.is_some() { VERSION } else { FULL_VERSION }
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, String> {
        let Self { backup, parts, file_list } = self;
        let stored = Stored { version: self.version(), backup, parts, file_list: *file_list };
        let json = serde_json::to_vec(&stored).map_err(|error| error.to_string())?;
        let is_small = u64::try_from(json.len()).is_ok_and(|bytes| bytes <= MAX_MANIFEST);
        if is_small { Ok(json) } else { Err("the manifest is longer than 16 MiB".to_owned()) }
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let content = |error: serde_json::Error| ManifestError::Content(error.to_string());
        // A later version can have other fields, so its number is read alone.
        let versioned: Versioned = serde_json::from_slice(json).map_err(content)?;
        if !(FULL_VERSION..=VERSION).contains(&versioned.version) {
            return Err(ManifestError::Version(versioned.version));
        }
        let manifest: Self = serde_json::from_slice(json).map_err(content)?;
        if manifest.version() != versioned.version {
            return Err(ManifestError::Content("it has the version of another kind of backup".to_owned()));
        }
        manifest.validate().map_err(ManifestError::Content)?;
        Ok(manifest)
    }

    /// Returns what contradicts itself.
    pub(super) fn validate(&self) -> Result<(), String> {
        self.backup.validate()?;
        if self.parts.len() > MAX_PARTS {
            return Err(format!("it has more than {MAX_PARTS} parts"));
        }
        if self.parts.iter().any(|part| part.bytes > MAX_PART) {
            return Err("it has a part of more than 1 GiB".to_owned());
        }
        if self.file_list.is_some_and(|list| list.bytes > MAX_FILE_LIST) {
            return Err("it has a list of files of more than 64 MiB".to_owned());
        }
        let bytes = self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
        if bytes != Some(self.backup.stored_bytes) {
            return Err("its parts do not have the bytes that are stored".to_owned());
        }
        Ok(())
    }
}

impl Backup {
    fn validate(&self) -> Result<(), String> {
        let (begin, end) = (self.begin_lsn, self.end_lsn);
        let begin_wal = WalSegment::at(self.timeline, begin, self.segment_size);
        // The end is the position after the last byte, which can be the start of the next segment.
        let last = Lsn(end.0.saturating_sub(1));
        let end_wal = WalSegment::at(self.end_wal.timeline(), last, self.segment_size);
        let names = [&self.member, &self.cluster.name, &self.cluster.uid];
        let problems = [
            (self.id.timeline() != self.timeline, "its identifier names another timeline"),
            (self.based_on.as_ref() == Some(&self.id), "it is based on itself"),
            (begin == Lsn::INVALID || end < begin, "it ends before it begins"),
            (self.stopped_at < self.started_at, "it stopped before it started"),
            (self.begin_wal != begin_wal, "its first WAL segment does not contain its begin"),
            (self.end_wal != end_wal, "its last WAL segment does not contain its end"),
            (self.end_wal.timeline() < self.timeline, "it ends on an earlier timeline"),
            (names.iter().any(|name| name.len() > MAX_NAME), "a name has more than 253 letters"),
        ];
        let problem = problems.into_iter().find(|(is_problem, _)| *is_problem);
        problem.map_or(Ok(()), |(_, problem)| Err(problem.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::backup;

    fn manifest() -> Manifest {
        let mut backup = backup(2, 0x300_0028, 0x500_0000, 1_800_000_000);
        backup.stored_bytes = 3;
        let part = |bytes| Part { bytes, sha256: Checksum::of(b"") };
        Manifest { backup, parts: vec![part(2), part(1)], file_list: None }
    }

    fn changed(path: &str, value: Value) -> Result<Manifest, ManifestError> {
        let mut json: Value = serde_json::from_slice(&manifest().to_json().unwrap()).unwrap();
        *json.pointer_mut(path).unwrap() = value;
        Manifest::parse(json.to_string().as_bytes())
    }

    #[test]
    fn manifest_has_these_fields() {
        let json = String::from_utf8(manifest().to_json().unwrap()).unwrap();
        let expected = json!({
            "version": 1,
            "backup": {
                "id": "20270115T080000Z-00000002",
                "systemID": "7400000000000000001",
                "serverVersion": "17.6",
                "timeline": 2,
                "beginLSN": "0/3000028",
                "endLSN": "0/5000000",
                "beginWAL": "000000020000000000000003",
                "endWAL": "000000020000000000000004",
                "walSegmentBytes": 16_777_216,
                "startedAt": "2027-01-15T08:00:00Z",
                "stoppedAt": "2027-01-15T08:00:00Z",
                "rawBytes": 0,
                "storedBytes": 3,
                "member": "db-1",
                "cluster": { "name": "db", "uid": "2c1f1c4e" },
            },
            "parts": [
                { "bytes": 2, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
                { "bytes": 1, "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
            ],
        });
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
        assert_eq!(Manifest::parse(json.as_bytes()).unwrap(), manifest());
    }

    #[test]
    fn incremental_backup_has_a_version_that_older_releases_refuse() {
        let mut incremental = manifest();
        incremental.backup.based_on = Some("20270114T080000Z-00000002".parse().unwrap());
        incremental.file_list = Some(Part { bytes: 5, sha256: Checksum::of(b"") });
        let json = incremental.to_json().unwrap();
        let value: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["version"], 2);
        assert_eq!(value["backup"]["basedOn"], "20270114T080000Z-00000002");
        assert_eq!(value["fileList"]["bytes"], 5);
        assert_eq!(Manifest::parse(&json).unwrap(), incremental);
        incremental.backup.based_on = Some(incremental.backup.id.clone());
        let json = incremental.to_json().unwrap();
        assert!(matches!(Manifest::parse(&json), Err(ManifestError::Content(_))));
    }

    #[test]
    fn manifest_of_another_version_is_refused() {
        assert_eq!(changed("/version", json!(3)), Err(ManifestError::Version(3)));
        assert_eq!(changed("/version", json!(0)), Err(ManifestError::Version(0)));
        assert!(matches!(changed("/version", json!(2)), Err(ManifestError::Content(_))));
        assert_eq!(Manifest::parse(br#"{"version":4,"other":[]}"#), Err(ManifestError::Version(4)));
    }

    #[test]
    fn contradictions_are_found() {
        for (path, value) in [
            ("/backup/timeline", json!(3)),
            ("/backup/beginLSN", json!("0/6000000")),
            ("/backup/beginLSN", json!("0/0")),
            ("/backup/beginWAL", json!("000000020000000000000004")),
            ("/backup/endWAL", json!("000000020000000000000005")),
            ("/backup/endWAL", json!("000000010000000000000004")),
            ("/backup/endWAL", json!("00000002.history")),
            ("/backup/walSegmentBytes", json!(3)),
            ("/backup/stoppedAt", json!("2027-01-15T07:59:59Z")),
            ("/backup/storedBytes", json!(4)),
            ("/backup/id", json!("../../x")),
            ("/parts/0/bytes", json!(u64::MAX)),
            ("/parts/0/bytes", json!((1 << 30) + 1)),
            ("/backup/member", json!("a".repeat(254))),
            ("/parts/0/sha256", json!("")),
        ] {
            let result = changed(path, value);
            assert!(matches!(result, Err(ManifestError::Content(_))), "{path}: {result:?}");
        }
    }

    #[test]
    fn backup_can_end_on_a_later_timeline() {
        assert!(changed("/backup/endWAL", json!("000000030000000000000004")).is_ok());
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(json: Vec<u8>) {
            prop_assert!(Manifest::parse(&json).is_err());
        }
    }
}
