//! Parameters of PostgreSQL in the spec of a PostgresCluster.

use std::collections::BTreeMap;

use crate::fingerprint::Fnv;

/// Values of parameters, by their names.
pub type Parameters = BTreeMap<String, String>;

/// Parameters that an instance sets itself, or that would break what it guarantees.
pub const RESERVED: [&str; 46] = [
    "allow_alter_system",
    "allow_in_place_tablespaces",
    "bonjour",
    "bonjour_name",
    "cluster_name",
    "config_file",
    "data_directory",
    "data_sync_retry",
    "event_source",
    "external_pid_file",
    "fsync",
    "full_page_writes",
    "hba_file",
    "hot_standby",
    "ident_file",
    "ignore_invalid_pages",
    "include",
    "include_dir",
    "include_if_exists",
    "listen_addresses",
    "log_destination",
    "log_directory",
    "log_file_mode",
    "log_filename",
    "logging_collector",
    "max_replication_slots",
    "max_wal_senders",
    "password_encryption",
    "port",
    "primary_conninfo",
    "primary_slot_name",
    "promote_trigger_file",
    "restart_after_crash",
    "restore_command",
    "synchronous_standby_names",
    "trace_recovery_messages",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
    "wal_keep_size",
    "wal_log_hints",
    "wal_receiver_timeout",
    "wal_recycle",
    "wal_retrieve_retry_interval",
    "wal_sender_timeout",
    "zero_damaged_pages",
];

/// Beginnings of the names of other such parameters.
pub const RESERVED_PREFIXES: [&str; 6] = ["archive_", "krb_", "oauth_", "recovery_", "ssl", "syslog_"];

/// Parameters that a standby must have at least as high as its primary, with their defaults
/// ("Hot Standby", section 26.4.3 of the manual).
pub const NEVER_LOWERED: [(&str, u32); 4] = [
    ("max_connections", 100),
    ("max_locks_per_transaction", 64),
    ("max_prepared_transactions", 0),
    ("max_worker_processes", 8),
];

/// Returns a number that differs for different parameters: their FNV-1a hash.
pub fn fingerprint(parameters: &Parameters) -> u64 {
    let texts = parameters.iter().flat_map(|(name, value)| [name, value]);
    // No text contains the byte that ends it.
    texts.fold(Fnv::default(), |hash, text| hash.with(text.as_bytes()).with(&[0])).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(texts: &[(&str, &str)]) -> Parameters {
        texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn fingerprint_depends_on_names_and_values() {
        let all = [
            parameters(&[]),
            parameters(&[("a", "b")]),
            parameters(&[("a", "")]),
            parameters(&[("ab", "")]),
            parameters(&[("a", "b"), ("c", "d")]),
            parameters(&[("a", "bc"), ("d", "")]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().map(fingerprint).collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(fingerprint(&parameters(&[("a", "b")])), fingerprint(&parameters(&[("a", "b")])));
    }
}
