//! Which backup is restored, and up to which WAL.

use anyhow::{Context, Result, bail, ensure};
use postgres_archive::{Archive, Backup, RecoveryPlan, RecoveryTarget, check_recovery};
use postgres_model::{lsn::Lsn, timeline::TimelineId, volume_state::RecoveryState};

use crate::archive::RecoverySettings;

/// What is restored.
pub(super) struct Plan {
    pub(super) chosen: RecoveryPlan,
    pub(super) recovery: RecoveryState,
    pub(super) backup: Backup,
}

/// Chooses the backup, and checks that all WAL up to the target is in the archive. Only lists.
///
/// # Errors
/// Returns an error that names what is missing.
pub(super) async fn plan(archive: &Archive, settings: &RecoverySettings) -> Result<Plan> {
    let target = settings.target.target();
    let mut backups = archive.backups().await?.complete;
    if !settings.backup.is_empty() {
        backups.retain(|backup| backup.id.to_string() == settings.backup);
        ensure!(
            !backups.is_empty(),
            "the archive has no complete backup {}; choose another one",
            settings.backup
        );
    }
    let segments = archive.all_segments().await?;
    let newest = segments.keys().map(|segment| segment.timeline()).max();
    let timeline = settings.target.timeline.or(newest).unwrap_or(TimelineId::FIRST);
    let history = archive.history(timeline).await?;
    let Some(history) = history else {
        bail!("the archive has no history of the timeline {timeline}; choose another one")
    };
    let plan = check_recovery(&backups, &history, &segments, target)?;
    let chosen = backups.into_iter().find(|backup| backup.id == plan.backup);
    let backup = chosen.with_context(|| format!("the archive has no backup {}", plan.backup))?;
    let end = match target {
        RecoveryTarget::Latest => Some(end_of(&plan, &backup)?),
        RecoveryTarget::Immediate | RecoveryTarget::Time(_) | RecoveryTarget::Lsn(_) => None,
    };
    Ok(Plan { chosen: plan, recovery: RecoveryState { timeline, end }, backup })
}

/// Returns the end of the last segment of a plan.
fn end_of(plan: &RecoveryPlan, backup: &Backup) -> Result<Lsn> {
    let next = plan.last.next(backup.segment_size).and_then(|next| next.start(backup.segment_size));
    next.with_context(|| format!("no segment can follow {}", plan.last))
}
