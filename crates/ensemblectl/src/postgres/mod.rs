//! `postgres`: shows PostgresClusters, and requests changes of them.
//!
//! All changes are requests to the controller: annotations of the PostgresCluster, or objects of
//! its kinds. So this program cannot do what the controller would not do safely.
//!
//! ```text
//! target      the cluster that a command is about
//! progress    waits for the result of a request
//! status      shows a cluster, with what its members serve as metrics
//! primary     switchover and promote
//! fence       fence and unfence
//! restart     replaces the Pods
//! backup      makes a backup
//! restore     creates a cluster from an archive
//! logs        the logs of the members
//! psql        runs psql in a Pod
//! ```

mod backup;
mod fence;
mod logs;
mod primary;
mod progress;
mod psql;
mod restart;
mod restore;
mod status;
mod target;
#[cfg(test)]
mod testing;

use anyhow::Result;

use crate::{cluster::Cluster, flags::postgres::PostgresCommand, output::ExitStatus};

/// Runs a command about a PostgresCluster.
pub(crate) async fn run(cluster: &Cluster, command: &PostgresCommand) -> Result<ExitStatus> {
    match command {
        PostgresCommand::Status(flags) => status::run(cluster, flags).await,
        PostgresCommand::Switchover(flags) => primary::switch_over(cluster, flags).await,
        PostgresCommand::Promote(flags) => primary::promote(cluster, flags).await,
        PostgresCommand::Fence(flags) => fence::fence(cluster, flags).await,
        PostgresCommand::Unfence(flags) => fence::unfence(cluster, flags).await,
        PostgresCommand::Restart(flags) => restart::run(cluster, flags).await,
        PostgresCommand::Backup(flags) => backup::run(cluster, flags).await,
        PostgresCommand::Restore(flags) => restore::run(cluster, flags).await,
        PostgresCommand::Logs(flags) => logs::run(cluster, flags).await,
        PostgresCommand::Psql(flags) => psql::run(cluster, flags).await,
    }
}
