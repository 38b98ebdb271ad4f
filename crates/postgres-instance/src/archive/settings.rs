//! Where to archive, and from where to recover, as the PostgresCluster says it.

use postgres_model::system_identifier::SystemIdentifier;
use serde::{Deserialize, Serialize};

use crate::recovery_target::TargetSettings;

/// `spec.backup` of a PostgresCluster, as far as an instance needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupSettings {
    /// The object store.
    pub(crate) object_store: StoreSettings,
    /// How WAL is archived.
    #[serde(default)]
    pub(crate) wal: WalSettings,
    /// How long backups are kept. `None`: for ever.
    #[serde(default)]
    pub(crate) retention: Option<RetentionSettings>,
}

/// `spec.backup.objectStore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoreSettings {
    /// Bucket and prefix.
    pub(crate) url: String,
    /// URL of the server.
    #[serde(default)]
    pub(crate) endpoint: Option<String>,
    /// Region of the bucket.
    #[serde(default)]
    pub(crate) region: Option<String>,
    /// Secrets that are mounted as files.
    pub(crate) credentials: CredentialSettings,
    /// Authorities that are mounted as a file.
    #[serde(default)]
    pub(crate) ca_secret: Option<SecretKey>,
    /// Name of the cluster in the archive.
    #[serde(default)]
    pub(crate) server_name: Option<String>,
}

/// `spec.backup.objectStore.credentials`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CredentialSettings {
    /// Secret with the identifier of the key.
    #[serde(rename = "accessKeyID")]
    pub(crate) access_key_id: SecretKey,
    /// Secret with the key.
    pub(crate) secret_access_key: SecretKey,
}

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretKey {
    /// Name of the Secret.
    pub(crate) name: String,
    /// Key in it.
    pub(crate) key: String,
}

/// `spec.backup.wal`. The defaults are those of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WalSettings {
    /// Seconds after which a segment is archived that is not full.
    pub(crate) timeout_seconds: u32,
    /// Segments that are archived at the same time.
    pub(crate) parallel: usize,
}

impl Default for WalSettings {
    fn default() -> Self {
        Self { timeout_seconds: 300, parallel: 2 }
    }
}

/// `spec.backup.retention`. The defaults are those of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetentionSettings {
    /// Days that a recovery can go back.
    #[serde(default)]
    pub(crate) days: Option<u32>,
    /// Backups that stay at least.
    #[serde(default = "one")]
    pub(crate) minimum: u32,
}

fn one() -> u32 {
    1
}

/// A recovery. The archive is in `status.recovery`, the target in `spec.bootstrap.recovery`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoverySettings {
    /// The object store, with the name of the source in it.
    pub(crate) store: StoreSettings,
    /// Database of the source. `None`: the only one.
    pub(crate) system: Option<SystemIdentifier>,
    /// Identifier of the backup to restore. Empty: the newest before the target.
    pub(crate) backup: String,
    pub(crate) target: TargetSettings,
}
