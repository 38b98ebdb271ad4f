//! What interrupts the writes to a database.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use postgres::{PostgresClusterStatus, SWITCHOVER};
use postgres_processes::Database;
use rustix::process::{Signal, kill_process};

use super::processes;

/// Time at rest before a disturbance.
const REST: Duration = Duration::from_secs(2);
/// Longer than the time within which a PostgreSQL that ends counts as one that does not start. The
/// instance manager starts such a one after a pause.
const STARTED: Duration = Duration::from_secs(12);

/// A way in which a primary stops taking writes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Disturbance {
    /// Ask for another primary
    Switchover,
    /// Kill the postmaster
    Crash,
    /// Delete the Pod of the primary
    Deletion,
    /// Kill all processes of the Pod, which starts again when another member has taken over
    Kill,
    /// Cut the primary from the API server until another member has taken over
    Isolation,
}

impl Disturbance {
    /// Returns a short description.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Switchover => "switchover",
            Self::Crash => "postmaster killed",
            Self::Deletion => "Pod of the primary deleted",
            Self::Kill => "processes of the primary killed",
            Self::Isolation => "primary cut from the API server",
        }
    }

    /// Returns the time at rest before it.
    pub(crate) fn rest(self) -> Duration {
        if self == Self::Crash { STARTED } else { REST }
    }

    /// Disturbs the primary, and waits until another member, or itself, is the primary.
    pub(crate) async fn cause(self, database: &mut Database) -> Result<()> {
        let primary = database.status.primary.current.clone();
        match self {
            Self::Switchover => {
                database.annotate(SWITCHOVER, "any").await?;
                until_replaced(database).await
            }
            Self::Crash => crash(database).await,
            Self::Deletion => {
                let pods = database.kubelet.api::<Pod>();
                pods.delete(&primary, &DeleteParams::default()).await?;
                // A kubelet notices at once.
                database.kubelet.look().await?;
                until_replaced(database).await
            }
            Self::Kill => {
                database.primary()?.kill()?;
                until_replaced(database).await?;
                database.kubelet.member(&primary)?.start()
            }
            Self::Isolation => {
                database.primary()?.api.cut();
                until_replaced(database).await?;
                database.kubelet.member(&primary)?.api.heal();
                Ok(())
            }
        }
    }
}

/// Waits until a primary of a later epoch is confirmed.
async fn until_replaced(database: &mut Database) -> Result<()> {
    let epoch = database.status.primary.epoch;
    let is_replaced = |status: &PostgresClusterStatus| {
        let primary = &status.primary;
        primary.epoch > epoch && !primary.current.is_empty() && primary.switchover.is_empty()
    };
    database.until("another primary", is_replaced).await
}

/// Kills the postmaster of the primary, and waits until there is another.
async fn crash(database: &mut Database) -> Result<()> {
    let folder = database.primary()?.folder().to_owned();
    let killed = processes::postmaster(&folder)?;
    kill_process(killed, Signal::KILL)?;
    let is_new = |found: Result<_>| found.is_ok_and(|found| found != killed);
    database.until_members("another postmaster", |_| is_new(processes::postmaster(&folder))).await
}
