//! Settings of an instance, which the controller writes into the Pod.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

/// The first process of a PostgreSQL container.
#[derive(Debug, Parser)]
#[command(name = "ensemble-instance", version)]
pub struct Settings {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Copy this program into a folder.
    Install {
        /// The folder.
        folder: PathBuf,
    },
    /// Copy the programs of PostgreSQL into a folder, with the libraries that they need.
    CopyPrograms {
        /// The folder.
        folder: PathBuf,
    },
    /// Archive a file of `pg_wal`, for `archive_command`.
    WalArchive {
        /// Socket of the instance manager.
        #[arg(long)]
        socket: PathBuf,
        /// Name of the file.
        name: String,
    },
    /// Restore a file of `pg_wal`, for `restore_command`.
    WalRestore {
        /// Socket of the instance manager.
        #[arg(long)]
        socket: PathBuf,
        /// Name of the file.
        name: String,
        /// Where PostgreSQL expects it.
        destination: PathBuf,
    },
    /// Run PostgreSQL, as the member of a PostgresCluster.
    Run(Box<Run>),
}

/// Settings of a member.
#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// Name of the PostgresCluster.
    #[arg(long, env = "CLUSTER")]
    pub(crate) cluster: String,
    /// UID of the PostgresCluster. Another one of its name decides nothing about this member.
    #[arg(long, env = "CLUSTER_UID")]
    pub(crate) cluster_uid: String,
    /// Namespace of the PostgresCluster.
    #[arg(long, env = "POD_NAMESPACE")]
    pub(crate) namespace: String,
    /// Name of the member, and of its Pod.
    #[arg(long, env = "POD_NAME")]
    pub(crate) member: String,
    /// UID of the Pod.
    #[arg(long, env = "POD_UID")]
    pub(crate) pod_uid: String,
    /// Address to listen on.
    #[arg(long, env = "LISTEN_ADDRESS", default_value = "0.0.0.0")]
    pub(crate) address: IpAddr,
    /// Folder of the volume.
    #[arg(long, env = "VOLUME", default_value = "/var/lib/ensemble")]
    pub(crate) volume: PathBuf,
    /// Folder of the Unix socket of PostgreSQL.
    #[arg(long, env = "SOCKETS", default_value = "/run/postgresql")]
    pub(crate) sockets: PathBuf,
    /// Folder with the certificates: `server` and `replication`, and in each `tls.crt`, `tls.key`, and
    /// `ca.crt`.
    #[arg(long, env = "CERTIFICATES", default_value = "/etc/ensemble/certificates")]
    pub(crate) certificates: PathBuf,
    /// File with the password of the application's role.
    #[arg(long, env = "APPLICATION_PASSWORD", default_value = "/etc/ensemble/app/password")]
    pub(crate) application_password: PathBuf,
    /// Folder with the passwords of the roles of the spec, each in a file of the name of the role.
    #[arg(long, env = "ROLE_PASSWORDS", default_value = "/etc/ensemble/roles")]
    pub(crate) role_passwords: PathBuf,
    /// Folder with the credentials of the object store: `access-key-id`, `secret-access-key`, and
    /// `ca.crt`.
    #[arg(long, env = "ARCHIVE_SECRETS", default_value = "/etc/ensemble/archive")]
    pub(crate) archive_secrets: PathBuf,
    /// Folder with the credentials of the object store to recover from, with the same names.
    #[arg(long, env = "RECOVERY_SECRETS", default_value = "/etc/ensemble/recovery")]
    pub(crate) recovery_secrets: PathBuf,
    /// Folder with the queries for metrics of users.
    #[arg(long, env = "QUERIES", default_value = "/etc/ensemble/queries")]
    pub(crate) queries: PathBuf,
    /// Folder with the programs of PostgreSQL. Without it, they are found by PATH.
    #[arg(long, env = "PROGRAMS")]
    pub(crate) programs: Option<PathBuf>,
    /// Folder with the programs of the major version from which the data are upgraded.
    #[arg(long, env = "PREVIOUS_PROGRAMS")]
    pub(crate) previous_programs: Option<PathBuf>,
    /// Bytes of memory that the container may use.
    #[arg(long, env = "MEMORY_LIMIT")]
    pub(crate) memory_limit: Option<u64>,
    /// Duration of the Lease, in seconds. All members must have the same.
    #[arg(long, env = "LEASE_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(6..=60))]
    pub(crate) lease_seconds: u64,
}
