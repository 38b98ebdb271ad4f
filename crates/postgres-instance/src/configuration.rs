//! The configuration of PostgreSQL.
//!
//! Its files are beside the data directory, so that copies of the data directory do not contain them.

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use postgres_model::{
    incremental,
    metrics::MONITOR,
    parameters::Parameters,
    status_api::MEMBER,
    sync::{SyncConfiguration, SyncMethod},
};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{durable, recovery_target::RecoveryEnd, wal_commands::WalCommands, wal_sizes::WalSizes};

/// Superuser that owns the database. The instance manager logs in as this role by the socket.
pub(crate) const SUPERUSER: &str = "postgres";
/// Database that each server has.
pub(crate) const MAINTENANCE: &str = "postgres";
/// Port of PostgreSQL.
pub(crate) const PORT: u16 = 5432;
/// Copy of the private key with which a standby receives WAL.
const STREAMING_KEY: &str = "streaming.key";
/// `shared_buffers` are this part of the memory, as the manual suggests.
const SHARED_BUFFERS: u64 = 4;
/// Name of the map of operating system users in `pg_ident.conf`.
const USER_MAP: &str = "ensemble";

/// What does not change while an instance runs.
#[derive(Clone, Debug)]
pub(crate) struct Static {
    /// Name of the member.
    pub(crate) member: String,
    /// Address to listen on.
    pub(crate) address: IpAddr,
    /// Folder of the Unix socket.
    pub(crate) socket: PathBuf,
    /// Folder with `server` and `replication`, and in each `tls.crt`, `tls.key`, and `ca.crt`.
    pub(crate) certificates: PathBuf,
    /// Name of the operating system user.
    pub(crate) user: String,
    /// Bytes of memory that the container may use, if they are limited.
    pub(crate) memory: Option<u64>,
    /// Commands that archive and restore WAL.
    pub(crate) wal: WalCommands,
    /// Major version of PostgreSQL.
    pub(crate) major_version: u16,
}

/// What changes by a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dynamic {
    /// The member to receive WAL from.
    pub(crate) upstream: Option<Upstream>,
    /// Synchronous replication.
    pub(crate) sync: SyncConfiguration,
    /// Bytes of the volume. Zero if they are not known.
    pub(crate) volume: u64,
    /// Seconds after which a segment is archived that is not full. `None`: nothing is archived.
    pub(crate) archive_timeout: Option<u32>,
    /// Where a recovery from another archive ends. It takes effect by a start only, and is kept until the
    /// next one.
    pub(crate) recovery: Option<RecoveryEnd>,
    /// Parameters of the spec, which PostgreSQL accepts.
    pub(crate) parameters: Parameters,
    /// Replication slots. `None`: they are not synchronized. It takes effect by a start only.
    pub(crate) slots: Option<SlotNames>,
}

/// Names of replication slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotNames {
    /// The slot on the upstream that a standby uses.
    pub(crate) upstream: Option<String>,
    /// The slots of the standbys on which a commit waits. Subscribers get nothing that one of these lacks.
    pub(crate) standbys: Vec<String>,
}

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Name of the member.
    pub(crate) name: String,
    /// Its name in the certificate of its server.
    pub(crate) host: String,
    /// Its address. `None`: the one that the name resolves to.
    pub(crate) address: Option<IpAddr>,
}

/// The database of the application, as in the spec. The defaults are those of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Application {
    /// Name of the database.
    pub(crate) database: String,
    /// Name of the role that owns it.
    pub(crate) owner: String,
}

impl Default for Application {
    fn default() -> Self {
        Self { database: "app".to_owned(), owner: "app".to_owned() }
    }
}

impl Static {
    /// Returns `postgresql.conf`.
    fn parameters(&self, folder: &Path, dynamic: &Dynamic) -> String {
        let server = self.certificates.join("server");
        let path = |folder: &Path, file: &str| folder.join(file).display().to_string();
        let mut text =
            format!("# The certificates of the server have the digest {}.\n", certificates(&server));
        let mut set = |name: &str, value: &str| text.push_str(&line(name, value));
        if let Some(memory) = self.memory {
            set("shared_buffers", &format!("{}kB", memory / SHARED_BUFFERS / 1024));
        }
        let wal = WalSizes::of(dynamic.volume);
        set("max_wal_size", &format!("{}MB", wal.max));
        set("min_wal_size", &format!("{}MB", wal.min));
        set("wal_level", if dynamic.slots.is_some() { "logical" } else { "replica" });
        if dynamic.archive_timeout.is_some() && self.major_version >= incremental::FIRST_MAJOR {
            set("summarize_wal", "on");
        }
        if let Some(slots) = &dynamic.slots {
            set("max_slot_wal_keep_size", &format!("{}MB", wal.slots));
            set("synchronized_standby_slots", &slots.standbys.join(","));
        }
        for (name, value) in &dynamic.parameters {
            set(name, value);
        }
        // The last value of a parameter counts.
        set("listen_addresses", &self.address.to_string());
        set("port", &PORT.to_string());
        set("unix_socket_directories", &self.socket.display().to_string());
        set("hba_file", &path(folder, "pg_hba.conf"));
        set("ident_file", &path(folder, "pg_ident.conf"));
        set("ssl", "on");
        set("ssl_cert_file", &path(&server, "tls.crt"));
        set("ssl_key_file", &path(&server, "tls.key"));
        set("ssl_ca_file", &path(&server, "ca.crt"));
        set("password_encryption", "scram-sha-256");
        set("cluster_name", &self.member);
        set("wal_log_hints", "on");
        set("wal_keep_size", &format!("{}MB", wal.keep));
        // A standby archives nothing, but keeps each segment until the primary has archived it.
        set("archive_mode", "always");
        set("archive_command", self.wal.archive(dynamic.archive_timeout.is_some()));
        set("archive_timeout", &dynamic.archive_timeout.unwrap_or_default().to_string());
        let follows = dynamic.archive_timeout.is_some() && dynamic.upstream.is_some();
        let restores = follows || dynamic.recovery.is_some();
        set("restore_command", self.wal.restore(restores));
        set("max_wal_senders", "16");
        set("max_replication_slots", "16");
        set("hot_standby", "on");
        match &dynamic.recovery {
            None => set("recovery_target_timeline", "latest"),
            Some(end) => end.parameters().iter().for_each(|(name, value)| set(name, value)),
        }
        // PostgreSQL asks for the slots of the primary in this database.
        let database = dynamic.slots.as_ref().map(|_| MAINTENANCE);
        set("wal_retrieve_retry_interval", "500ms");
        set("wal_receiver_timeout", "10s");
        set("wal_sender_timeout", "10s");
        set(
            "primary_conninfo",
            &dynamic
                .upstream
                .as_ref()
                .map_or(String::new(), |it| self.conninfo(it, database, &folder.join(STREAMING_KEY))),
        );
        set("synchronous_standby_names", &dynamic.sync.standby_names(SyncMethod::Any));
        if let Some(slots) = &dynamic.slots {
            set("hot_standby_feedback", "on");
            set("sync_replication_slots", "on");
            set("primary_slot_name", slots.upstream.as_deref().unwrap_or_default());
        }
        text
    }

    /// Returns the connection string with which a program copies another member.
    pub(crate) fn source(&self, upstream: &Upstream, database: Option<&str>) -> String {
        self.conninfo(upstream, database, &self.replication().join("tls.key"))
    }

    fn replication(&self) -> PathBuf {
        self.certificates.join("replication")
    }

    fn conninfo(&self, upstream: &Upstream, database: Option<&str>, key: &Path) -> String {
        let folder = self.replication();
        let path = |file: &str| folder.join(file).display().to_string();
        let address = upstream.address.map(|address| ("hostaddr", address.to_string()));
        let fixed = [
            ("host", upstream.host.clone()),
            ("port", PORT.to_string()),
            ("user", MEMBER.to_owned()),
            ("application_name", self.member.clone()),
            ("sslmode", "verify-full".to_owned()),
            ("sslrootcert", path("ca.crt")),
            ("sslcert", path("tls.crt")),
            ("sslkey", key.display().to_string()),
            ("connect_timeout", "5".to_owned()),
        ];
        let database = database.map(|name| ("dbname", name.to_owned()));
        let settings = fixed.into_iter().chain(address).chain(database);
        let settings: Vec<_> = settings.map(|(name, value)| format!("{name}={}", quoted(&value))).collect();
        settings.join(" ")
    }

    /// Returns `pg_ident.conf`: the roles as which the instance manager logs in.
    fn user_map(&self) -> String {
        let user = quoted_name(&self.user);
        [SUPERUSER, MONITOR].map(|role| format!("{USER_MAP} {user} {role}\n")).concat()
    }

    /// Writes the files. Returns whether one changed.
    ///
    /// A standby has a copy of its private key only while it has an upstream. So no receiver can start
    /// without one, even if a process of PostgreSQL has not read the configuration yet.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn write(&self, folder: &Path, dynamic: &Dynamic) -> io::Result<bool> {
        let key = folder.join(STREAMING_KEY);
        let mut changed = false;
        if dynamic.upstream.is_some() {
            let content = fs::read(self.replication().join("tls.key"))?;
            changed |= durable::write_if_changed(&key, &content, 0o600)?;
        } else {
            durable::remove(&key)?;
        }
        let files = [
            ("pg_hba.conf", HBA.to_owned()),
            ("pg_ident.conf", self.user_map()),
            ("postgresql.conf", self.parameters(folder, dynamic)),
        ];
        for (name, content) in files {
            changed |= durable::write_if_changed(&folder.join(name), content.as_bytes(), 0o600)?;
        }
        Ok(changed)
    }
}

/// Returns a digest of the certificates in a folder. The files in it can be replaced at any time.
///
/// PostgreSQL reads certificates again when its configuration is reloaded. The digest is in the
/// configuration, so that renewed certificates change it.
fn certificates(folder: &Path) -> String {
    // A file that cannot be read counts as empty: PostgreSQL reports it.
    let read = |file: &str| fs::read(folder.join(file)).unwrap_or_default();
    format!("{:?}", digest(&SHA256, &[read("tls.crt"), read("ca.crt")].concat()))
}

/// `pg_hba.conf`: the instance manager by the socket, members by certificates, all others by
/// passwords.
const HBA: &str = "\
local   all             postgres                            peer map=ensemble
local   replication     postgres                            peer map=ensemble
local   all             ensemble_monitor                    peer map=ensemble
local   all             all                                 scram-sha-256
hostssl replication     streaming_replica   all             cert
hostssl postgres        streaming_replica   all             cert
host    all             streaming_replica   all             reject
host    all             ensemble_monitor    all             reject
host    all             all                 all             scram-sha-256
";

/// Returns a line of `postgresql.conf`.
pub(crate) fn line(name: &str, value: &str) -> String {
    format!("{name} = {}\n", quoted(value))
}

/// Quotes a value for `postgresql.conf` and for connection strings. The two differ in what doubles a
/// quote, and a backslash works in both.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Turns `ALTER SYSTEM` off, whose file would override ours.
///
/// `durable_rename` of PostgreSQL opens the present file for writing, which fails.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn refuse_alter_system(data: &Path) -> io::Result<()> {
    durable::write(
        &data.join("postgresql.auto.conf"),
        b"# Parameters are set in the PostgresCluster.\n",
        0o400,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed() -> Static {
        Static {
            member: "db-2".into(),
            address: "10.0.0.2".parse().unwrap(),
            socket: "/run/postgresql".into(),
            certificates: "/etc/ensemble".into(),
            user: "postgres".into(),
            memory: None,
            wal: WalCommands::new(Path::new("/ensemble/ensemble-instance"), Path::new("/run/postgresql")),
            major_version: 17,
        }
    }

    #[test]
    fn parameters_of_the_spec_come_before_those_of_the_instance() {
        let parameters = [("work_mem", "8MB"), ("port", "1")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let dynamic = Dynamic { parameters, ..Dynamic::default() };
        let fixed = Static { memory: Some(1 << 30), ..fixed() };
        let text = fixed.parameters(Path::new("/data"), &dynamic);
        let place = |line: &str| text.find(line).unwrap_or_else(|| panic!("no {line} in {text}"));
        assert!(place("shared_buffers = '262144kB'\n") < place("work_mem = '8MB'\n"));
        assert!(place("port = '1'\n") < place("port = '5432'\n"));
    }

    /// Returns the last value of a parameter, which counts.
    fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        values.next_back().map(|value| value.trim_matches('\''))
    }

    #[test]
    fn spec_can_ask_for_logical_replication() {
        let dynamic = |parameters: &[(&str, &str)], slots| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Dynamic { parameters: parameters.iter().map(pair).collect(), slots, ..Dynamic::default() }
        };
        let text = |dynamic| fixed().parameters(Path::new("/data"), &dynamic);
        let plain = text(dynamic(&[], None));
        assert_eq!(value(&plain, "wal_level"), Some("replica"));
        assert_eq!(value(&plain, "sync_replication_slots"), None, "PostgreSQL 16 does not know it");
        let logical = text(dynamic(&[("wal_level", "logical")], None));
        assert_eq!(value(&logical, "wal_level"), Some("logical"));
        let standbys = vec!["ensemble_2".to_owned(), "ensemble_3".to_owned()];
        let slots = Some(SlotNames { upstream: None, standbys });
        let primary = text(dynamic(&[("hot_standby_feedback", "off")], slots.clone()));
        assert_eq!(value(&primary, "wal_level"), Some("logical"));
        assert_eq!(value(&primary, "hot_standby_feedback"), Some("on"));
        assert_eq!(value(&primary, "max_slot_wal_keep_size"), Some("1024MB"));
        assert_eq!(value(&primary, "synchronized_standby_slots"), Some("ensemble_2,ensemble_3"));
        assert_eq!(value(&primary, "primary_slot_name"), Some(""));
        let own = [("max_slot_wal_keep_size", "5GB"), ("synchronized_standby_slots", "")];
        let primary = text(dynamic(&own, slots));
        assert_eq!(value(&primary, "max_slot_wal_keep_size"), Some("5GB"));
        assert_eq!(value(&primary, "synchronized_standby_slots"), Some(""));
    }

    #[test]
    fn wal_is_summarized_for_incremental_backups() {
        let text = |major_version, archive_timeout, parameters: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let parameters = parameters.iter().map(pair).collect();
            let dynamic = Dynamic { archive_timeout, parameters, ..Dynamic::default() };
            let text = Static { major_version, ..fixed() }.parameters(Path::new("/data"), &dynamic);
            value(&text, "summarize_wal").map(str::to_owned)
        };
        assert_eq!(text(17, Some(300), &[]).as_deref(), Some("on"));
        assert_eq!(text(17, None, &[]), None);
        assert_eq!(text(16, Some(300), &[]), None, "PostgreSQL 16 does not know it");
        assert_eq!(text(18, Some(300), &[("summarize_wal", "off")]).as_deref(), Some("off"));
    }

    #[test]
    fn standby_names_its_slot_and_a_database() {
        let upstream = Upstream { name: "db-1".into(), host: "db-1".into(), address: None };
        let slots = SlotNames { upstream: Some("ensemble_2".into()), standbys: vec![] };
        let dynamic = Dynamic { upstream: Some(upstream), slots: Some(slots), ..Dynamic::default() };
        let text = fixed().parameters(Path::new("/data"), &dynamic);
        assert_eq!(value(&text, "primary_slot_name"), Some("ensemble_2"));
        assert!(text.contains(r"dbname=\'postgres\''"), "{text}");
    }

    #[test]
    fn files_are_written_only_if_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut dynamic = Dynamic::default();
        assert!(fixed().write(folder.path(), &dynamic).unwrap());
        assert!(!fixed().write(folder.path(), &dynamic).unwrap());
        dynamic.sync = SyncConfiguration::new(1, vec!["db-1".into(), "db-3".into()]).unwrap();
        assert!(fixed().write(folder.path(), &dynamic).unwrap());
        let text = std::fs::read_to_string(folder.path().join("postgresql.conf")).unwrap();
        assert!(text.contains(r#"synchronous_standby_names = 'ANY 1 ("db-1", "db-3")'"#), "{text}");
        assert!(text.contains("primary_conninfo = ''\n"), "{text}");
    }

    #[test]
    fn private_key_for_streaming_exists_only_with_an_upstream() {
        let folder = tempfile::tempdir().unwrap();
        let certificates = folder.path().join("certificates");
        fs::create_dir_all(certificates.join("replication")).unwrap();
        fs::write(certificates.join("replication/tls.key"), "secret").unwrap();
        let fixed = Static { certificates, ..fixed() };
        let upstream = Upstream { name: "db-1".into(), host: "db-1".into(), address: None };
        let follows = Dynamic { upstream: Some(upstream), ..Dynamic::default() };
        let key = folder.path().join(STREAMING_KEY);
        assert!(fixed.write(folder.path(), &follows).unwrap());
        assert_eq!(fs::read_to_string(&key).unwrap(), "secret");
        let text = fs::read_to_string(folder.path().join("postgresql.conf")).unwrap();
        assert!(text.contains(&format!("sslkey=\\'{}\\'", key.display())), "{text}");
        assert!(!fixed.write(folder.path(), &follows).unwrap(), "nothing has changed");
        assert!(fixed.write(folder.path(), &Dynamic::default()).unwrap());
        assert!(!key.exists());
    }

    #[test]
    fn renewed_certificate_changes_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let server = folder.path().join("certificates/server");
        fs::create_dir_all(&server).unwrap();
        let fixed = Static { certificates: folder.path().join("certificates"), ..fixed() };
        let dynamic = Dynamic::default();
        for content in ["first", "second"] {
            fs::write(server.join("tls.crt"), content).unwrap();
            assert!(fixed.write(folder.path(), &dynamic).unwrap());
            assert!(!fixed.write(folder.path(), &dynamic).unwrap());
        }
    }

    #[test]
    fn upstream_is_verified_by_its_name() {
        let upstream = Upstream {
            name: "db-1".into(),
            host: "db-1.db-pods.shop.svc".into(),
            address: Some("10.0.0.1".parse().unwrap()),
        };
        let conninfo = fixed().source(&upstream, Some("postgres"));
        assert!(conninfo.starts_with("host='db-1.db-pods.shop.svc' port='5432'"), "{conninfo}");
        assert!(conninfo.contains("sslmode='verify-full'"), "{conninfo}");
        assert!(conninfo.ends_with("hostaddr='10.0.0.1' dbname='postgres'"), "{conninfo}");
        // Quotes inside a quoted value.
        let dynamic = Dynamic { upstream: Some(upstream), ..Dynamic::default() };
        let text = fixed().parameters(Path::new("/data"), &dynamic);
        assert!(text.contains(r"primary_conninfo = 'host=\'db-1.db-pods.shop.svc\' port="), "{text}");
    }
}
