//! Condition types of a PostgresCluster.

/// Condition: the primary takes writes.
pub const AVAILABLE: &str = "Available";
/// Condition: WAL is archived.
pub const ARCHIVING: &str = "Archiving";
/// Condition: the last backup is as recent as the schedules say.
pub const BACKUP_RECENT: &str = "BackupRecent";
/// Condition: the roles and databases of the spec are as declared.
pub const DATABASES_APPLIED: &str = "DatabasesApplied";
/// Condition: another member has every acknowledged write.
pub const DATA_SAFE: &str = "DataSafe";
/// Condition: members are being added or removed.
pub const SCALING: &str = "Scaling";
/// Condition: all members use the parameters of the spec.
pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";
/// Condition: all volumes have the size of the spec, and free space.
pub const STORAGE_HEALTHY: &str = "StorageHealthy";
/// Condition: Pods of a former spec are being replaced.
pub const UPGRADING: &str = "Upgrading";
/// Condition: volumes of a former cluster of the same name exist and are not used.
pub const VOLUMES_RETAINED: &str = "VolumesRetained";
/// Condition: the version of the spec runs as written.
pub const VERSION_SUPPORTED: &str = "VersionSupported";
