//! Command line of `ensemblectl postgres`.

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::{Output, duration};

/// Command of `ensemblectl postgres`.
#[derive(Subcommand)]
pub(crate) enum PostgresCommand {
    /// Show a cluster: members, replication, archive, and conditions
    Status(PostgresStatus),
    /// Let a standby take over from the primary. No acknowledged row is lost
    Switchover(Switchover),
    /// Make a member the primary although it may lack rows, if the primary is gone for good
    Promote(Promote),
    /// Stop PostgreSQL on members. Their Pods stay
    Fence(Fence),
    /// Let PostgreSQL start again on fenced members
    Unfence(Unfence),
    /// Replace the Pods of all members, one after the other
    Restart(Restart),
    /// Make a base backup
    Backup(Backup),
    /// Create a new cluster from the archive of another one, which is only read
    Restore(Restore),
    /// Print the logs of the members
    Logs(Logs),
    /// Run psql in the Pod of a member, as the superuser of PostgreSQL. Needs kubectl
    Psql(Psql),
}

/// How long a command waits.
#[derive(Args, Clone, Copy)]
pub(crate) struct Waiting {
    /// Maximum time to wait for the result. Exits with 1 after it
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// Only request the change, and do not wait
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,
}

#[derive(Args)]
pub(crate) struct PostgresStatus {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Switchover {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Standby that takes over. Defaults to the one with the most rows
    #[arg(long, value_name = "MEMBER")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Promote {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Member to promote. Defaults to the one with the most rows of those that answer
    pub(crate) member: Option<String>,

    /// Confirm that rows which only the missing members have are lost
    #[arg(long, required = true)]
    pub(crate) accept_data_loss: bool,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Fence {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Members to fence
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) members: Vec<String>,

    /// Fence all members: nobody can read or write
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Unfence {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Members that may run again. Defaults to all fenced ones
    pub(crate) members: Vec<String>,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Restart {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Backup {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Name of the PostgresBackup. Defaults to the name of the cluster and the time
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Copy only what has changed since the newest backup, if that is possible
    #[arg(long)]
    pub(crate) incremental: bool,

    /// Let the primary make the backup instead of a standby
    #[arg(long)]
    pub(crate) from_primary: bool,

    /// Begin with a checkpoint at full speed, which is faster and disturbs the database more
    #[arg(long)]
    pub(crate) immediate_checkpoint: bool,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// Name of the new PostgresCluster
    pub(crate) cluster: String,

    /// PostgresCluster in the same namespace whose archive is read, and whose spec is copied
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) from: String,

    /// PostgresBackup to restore. Defaults to the newest before the target
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,

    /// Moment up to which transactions are recovered, such as 2026-11-25T09:30:00Z
    #[arg(long, value_name = "TIME", group = "target")]
    pub(crate) to_time: Option<Timestamp>,

    /// Position in the WAL up to which transactions are recovered, such as 0/3000060
    #[arg(long, value_name = "LSN", group = "target")]
    pub(crate) to_lsn: Option<String>,

    /// Recover only to the end of the backup
    #[arg(long, group = "target")]
    pub(crate) to_end_of_backup: bool,

    /// Print the PostgresCluster as YAML, and create nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args)]
pub(crate) struct Logs {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Only this member
    #[arg(long, value_name = "MEMBER")]
    pub(crate) member: Option<String>,

    /// Continue with new lines until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Lines of each member from the end of its log
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) tail: Option<i64>,

    /// Only lines that are not older
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) since: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct Psql {
    /// Name of the PostgresCluster
    pub(crate) cluster: String,

    /// Member to connect to. Defaults to the primary
    #[arg(long, value_name = "MEMBER")]
    pub(crate) member: Option<String>,

    /// Arguments of psql, after `--`
    #[arg(last = true)]
    pub(crate) args: Vec<String>,
}
