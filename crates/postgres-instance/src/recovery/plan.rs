//! Which backup is restored, and up to which WAL.

use anyhow::{Context, Result, bail, ensure};
use postgres_archive::{Archive, Backup, Chains, RecoveryPlan, RecoveryTarget, check_recovery};
use postgres_model::{archive::BackupId, lsn::Lsn, timeline::TimelineId, volume_state::RecoveryState};

use crate::archive::RecoverySettings;

/// What is restored.
pub(super) struct Plan {
    pub(super) chosen: RecoveryPlan,
    pub(super) recovery: RecoveryState,
    pub(super) backup: Backup,
    /// What is restored: a full backup first, then each one with that it is based on the one before.
    pub(super) chain: Vec<BackupId>,
}

/// Chooses the backup, and checks that all WAL up to the target is in the archive. Only lists.
///
/// # Errors
/// Returns an error that names what is missing.
pub(super) async fn plan(archive: &Archive, settings: &RecoverySettings) -> Result<Plan> {
    let target = settings.target.target();
    let all = archive.backups().await?.complete;
    let backups = candidates(&all, &settings.backup)?;
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
    let chain = Chains::new(&all).of(&plan.backup).with_context(|| incomplete(&plan.backup.to_string()))?;
    let chain = chain.into_iter().map(|backup| backup.id.clone()).collect();
    let end = match target {
        RecoveryTarget::Latest => Some(end_of(&plan, &backup)?),
        RecoveryTarget::Immediate | RecoveryTarget::Time(_) | RecoveryTarget::Lsn(_) => None,
    };
    Ok(Plan { chosen: plan, recovery: RecoveryState { timeline, end }, backup, chain })
}

/// Returns the backups that can be restored: all of them, or the one with this identifier.
fn candidates(all: &[Backup], name: &str) -> Result<Vec<Backup>> {
    if name.is_empty() {
        return Ok(all.to_vec());
    }
    let chosen = all.iter().find(|backup| backup.id.to_string() == name);
    let chosen =
        chosen.with_context(|| format!("the archive has no complete backup {name}; choose another one"))?;
    ensure!(Chains::new(all).of(&chosen.id).is_some(), incomplete(name));
    // Those that it is based on are there, and must not be chosen instead of it.
    Ok(vec![Backup { based_on: None, ..chosen.clone() }])
}

fn incomplete(backup: &str) -> String {
    format!("the archive lacks a backup on which {backup} is based; choose another one")
}

/// Returns the end of the last segment of a plan.
fn end_of(plan: &RecoveryPlan, backup: &Backup) -> Result<Lsn> {
    let next = plan.last.next(backup.segment_size).and_then(|next| next.start(backup.segment_size));
    next.with_context(|| format!("no segment can follow {}", plan.last))
}
