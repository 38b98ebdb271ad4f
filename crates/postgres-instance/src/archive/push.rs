//! Archives files of `pg_wal`.

use std::time::Duration;

use postgres_archive::Archive;
use postgres_model::{
    report::ArchiveFailure,
    timeline::History,
    wal_file::{WalFileName, WalSegment},
};
use tokio::time::{sleep, timeout};
use tracing::{error, info};

use super::{
    Archiving,
    context::{Context, Role, is_in, is_part_of},
    failure::{self, failure},
    protocol::Answer,
};
use crate::{clock::now, control_data::histories_in};

/// How long a request waits for the store before PostgreSQL has to repeat it.
const PATIENCE: Duration = Duration::from_secs(55);
/// Wait between two attempts, and between two looks of a standby.
const RETRY: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_secs(1);
/// How long a server that stops may archive. The next primary archives the rest.
const STOP: Duration = Duration::from_secs(5);
/// Most segments that are sent at the same time.
const MAX_PARALLEL: usize = 16;

/// How an attempt ended that is not repeated.
type Ended = Result<(), ArchiveFailure>;

impl Archiving {
    /// Archives a file, as a primary; or waits until the primary has archived it, as a standby.
    pub(super) async fn archive(&self, name: WalFileName) -> Answer {
        let work = timeout(PATIENCE, self.until_archived(name));
        let result = tokio::select! {
            result = work => result,
            () = self.out_of_time() => return Answer::Failed("PostgreSQL stops".to_owned()),
        };
        match result {
            Ok(Ok(())) => Answer::Done,
            Ok(Err(failure)) => Answer::Failed(failure.message),
            Err(_elapsed) => Answer::Failed(format!("{name} is not in the archive yet")),
        }
    }

    /// Returns when a server that stops has archived long enough.
    async fn out_of_time(&self) {
        let mut contexts = self.context.subscribe();
        let stopping = contexts.wait_for(|context| context.stopping.is_some()).await;
        let stopping = stopping.ok().and_then(|context| context.stopping);
        if let Some(since) = stopping {
            sleep((since + STOP).saturating_sub(now())).await;
        }
    }

    async fn until_archived(&self, name: WalFileName) -> Ended {
        let mut contexts = self.context.subscribe();
        loop {
            let context = contexts.borrow_and_update().clone();
            let (ended, pause) = match &context.role {
                _ if context.settings.is_none() => (Some(Ok(())), RETRY),
                Role::Primary(_) => (self.push(&context, name).await, RETRY),
                Role::Follower(history) if self.is_needed(history, name) => {
                    (self.look(&context, name).await, LOOK)
                }
                // Nobody archives it, or another cluster has.
                Role::Follower(_) | Role::Recovering(_) => (Some(Ok(())), LOOK),
                Role::Waiting | Role::Rewinding(_) => (None, PATIENCE),
            };
            if let Some(ended) = ended {
                return ended;
            }
            let _ = timeout(pause, contexts.changed()).await;
        }
    }

    /// Archives a file in one attempt, and reports how it ended. Returns `None` if it is worth another.
    async fn push(&self, context: &Context, name: WalFileName) -> Option<Ended> {
        let result = self.push_once(context, name).await;
        self.state.send_if_modified(|state| match &result {
            Ok(()) => state.archived(name),
            Err(failure) => {
                let is_new = state.failed(failure.clone());
                if is_new {
                    error!(%name, error = failure.message, "cannot archive a file; trying again");
                }
                is_new
            }
        });
        match result {
            Err(failure) if !failure.is_conflict => None,
            result => Some(result),
        }
    }

    async fn push_once(&self, context: &Context, name: WalFileName) -> Result<(), ArchiveFailure> {
        let archive = self.connection.writer(context).await?;
        let task = self.ahead.take(&archive, &self.wal, name);
        if let WalFileName::Segment(segment) = name {
            let parallel = context.settings.as_ref().map_or(1, |settings| settings.wal.parallel);
            self.ahead.fill(&archive, &self.wal, segment, parallel.clamp(1, MAX_PARALLEL) - 1);
        }
        let result = task.await.map_err(|error| failure(error.to_string()))?;
        match result {
            Err(failure) if failure.is_conflict && is_spare(&context.role, name) => {
                info!(%name, "the archive has another version of a file that no recovery reads");
                Ok(())
            }
            result => result.map(drop),
        }
    }

    /// Returns success if the primary has archived a file.
    async fn look(&self, context: &Context, name: WalFileName) -> Option<Ended> {
        let archive = self.connection.reader(context).await.ok()?;
        archive.has_wal(name).await.is_ok_and(|has| has).then_some(Ok(()))
    }

    fn is_needed(&self, history: &History, name: WalFileName) -> bool {
        is_part_of(history, name, self.size_of_segment(&name.to_string()))
    }

    /// Archives the histories of all timelines up to that of the primary, so that also the numbers of
    /// interrupted promotions are never used again.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached, or has another history of an ancestor.
    pub(super) async fn push_histories(
        &self,
        archive: &Archive,
        context: &Context,
    ) -> Result<(), ArchiveFailure> {
        let Role::Primary(history) = &context.role else { return Ok(()) };
        let names = histories_in(&self.wal);
        let names = names.map_err(|error| failure(format!("cannot list {}: {error}", self.wal.display())))?;
        for timeline in names.into_iter().filter(|timeline| *timeline <= history.timeline()) {
            let name = WalFileName::History(timeline);
            match archive.archive_wal(name, &self.wal.join(name.to_string())).await {
                Ok(_) => {}
                Err(error) => {
                    let failure = failure::of(&error);
                    if !(failure.is_conflict && is_spare(&context.role, name)) {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Archives segments of former timelines that PostgreSQL has not marked at all.
    ///
    /// A standby marks a segment when it receives the first byte of the next one. A promotion at the
    /// end of a segment leaves that segment without a mark, and nobody else archives it.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached, or has another content of a segment.
    pub(super) async fn push_unmarked(
        &self,
        archive: &Archive,
        context: &Context,
    ) -> Result<(), ArchiveFailure> {
        let Role::Primary(history) = &context.role else { return Ok(()) };
        let size = self.size_of_segments();
        let is_former = |segment: &WalSegment| {
            segment.timeline() != history.timeline()
                && is_part_of(history, WalFileName::Segment(*segment), size)
                && !self.is_marked(*segment)
        };
        for segment in self.segments().filter(is_former) {
            let path = self.wal.join(segment.to_string());
            let archived = archive.archive_wal(WalFileName::Segment(segment), &path).await;
            archived.map_err(|error| failure::of(&error))?;
            info!(%segment, "archived a segment at the end of a former timeline");
        }
        Ok(())
    }

    /// Returns whether PostgreSQL has archived a segment, or is about to.
    fn is_marked(&self, segment: WalSegment) -> bool {
        let status = self.wal.join("archive_status");
        ["ready", "done"].iter().any(|mark| status.join(format!("{segment}.{mark}")).exists())
    }
}

/// Returns whether no recovery reads a file, so that another version of it in the archive is no harm:
/// the incomplete segment at a fork, which the later timeline has as a copy; and the history of a
/// timeline that nobody goes through, such as that of an interrupted promotion.
fn is_spare(role: &Role, name: WalFileName) -> bool {
    match (role, name) {
        (_, WalFileName::Partial(_)) => true,
        (Role::Primary(history), WalFileName::History(timeline)) => !is_in(history, timeline),
        _ => false,
    }
}
