//! Removes backups and WAL that are no longer needed, and lists the backups that stay.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use postgres_archive::{Archive, ArchiveError, Backups, RetentionPolicy, UnreadableBackup, plan_retention};
use postgres_model::{report::BackupInventory, timeline::History};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{
    Archiving,
    context::{Context, Role},
};
use crate::clock::now;

/// Time between two retentions without a new backup.
const DAY: Duration = Duration::from_hours(24);
/// Time between two attempts.
const RETRY: Duration = Duration::from_mins(1);

/// What a retention depends on. Positions and the like change without a reason for one.
#[derive(PartialEq)]
struct Reason {
    settings: Option<Arc<super::settings::BackupSettings>>,
    last_backup: String,
    is_primary: bool,
}

impl Reason {
    fn of(context: &Context) -> Self {
        Self {
            settings: context.settings.clone(),
            last_backup: context.last_backup.clone(),
            is_primary: matches!(context.role, Role::Primary(_)),
        }
    }
}

/// Looks after the backups for ever: once a day, after each backup, and when the settings change.
pub(super) async fn run(archiving: Arc<Archiving>) {
    let mut contexts = archiving.context.subscribe();
    let mut done: Option<(Reason, Duration)> = None;
    loop {
        let context = contexts.borrow_and_update().clone();
        let reason = Reason::of(&context);
        let is_due = done.as_ref().is_none_or(|(last, until)| *last != reason || now() >= *until);
        let mut pause = done.as_ref().map_or(DAY, |(_, until)| until.saturating_sub(now()));
        if let (true, Some(_), Role::Primary(history)) = (is_due, &context.settings, &context.role) {
            pause = match archiving.retain(&context, history).await {
                Ok(()) => DAY,
                Err(error) => {
                    warn!(error, "cannot remove old backups; trying again");
                    RETRY
                }
            };
            done = Some((reason, now() + pause));
        }
        if matches!(timeout(pause, contexts.changed()).await, Ok(Err(_))) {
            return;
        }
    }
}

impl Archiving {
    async fn retain(&self, context: &Context, history: &History) -> Result<(), String> {
        let archive = self.connection.backup_writer(context).await.map_err(|failure| failure.message)?;
        let text = |error: ArchiveError| error.to_string();
        let mut backups = archive.backups().await.map_err(text)?;
        let retention = context.settings.as_ref().and_then(|settings| settings.retention);
        if let Some(retention) = retention {
            let policy = RetentionPolicy { days: retention.days, minimum: retention.minimum };
            if prune(&archive, &backups, history, policy).await.map_err(text)? {
                backups = archive.backups().await.map_err(text)?;
            }
        }
        self.state.send_if_modified(|state| state.listed(inventory(&backups)));
        Ok(())
    }
}

/// Removes what is not needed. Returns whether there was something.
async fn prune(
    archive: &Archive,
    backups: &Backups,
    history: &History,
    policy: RetentionPolicy,
) -> Result<bool, ArchiveError> {
    for UnreadableBackup { id, error } in &backups.unreadable {
        warn!(%id, %error, "cannot read the manifest of a backup; no backup and no WAL is removed");
    }
    let plan = plan_retention(backups, history, policy, Timestamp::now());
    let pruned = archive.prune(&plan).await?;
    info!(backups = pruned.backups, parts = pruned.parts, wal = pruned.wal, "removed what is not needed");
    Ok(pruned.backups > 0)
}

fn inventory(backups: &Backups) -> BackupInventory {
    let oldest = backups.complete.iter().min_by_key(|backup| backup.stopped_at);
    BackupInventory {
        count: u32::try_from(backups.complete.len()).unwrap_or(u32::MAX),
        oldest: oldest.map(|backup| backup.id.to_string()),
        first_recoverable: oldest.map(|backup| backup.stopped_at.to_string()),
    }
}
