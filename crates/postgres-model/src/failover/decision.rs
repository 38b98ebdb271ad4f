//! The steps of a failover. Pure: the operator stores the state before it acts on it.
//!
//! ```text
//! Running ── the primary fails ──▶ Begin ──▶ Seal ──▶ Choose ──▶ Confirm ──▶ Running
//! ```
//!
//! A failover that is interrupted anywhere continues from the stored state. A switchover is a failover
//! that begins on request, and waits until the primary has stopped.

use std::time::Duration;

use super::{Candidate, MissingQuorum, Quorum, quorum};
use crate::{
    report::{InstanceReport, InstanceState},
    sync::SyncConfiguration,
    timeline::{Position, TimelineId},
};

/// A member that may have acknowledged writes as the primary, and the members that it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reign {
    /// Name of the member.
    pub primary: String,
    /// Its synchronous configuration.
    pub configuration: SyncConfiguration,
}

/// How long a failover with a quorum waits for the answers of the other members, one of which may
/// have more WAL.
pub(super) const ANSWERS: Duration = Duration::from_secs(10);

/// Request for a switchover to whichever other member has the most WAL.
pub const ANY: &str = "any";

/// The part of the status that decides about the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverState {
    /// Number of decisions about the target.
    pub epoch: u64,
    /// The member that may be primary. `None` while a failover chooses one.
    pub target: Option<String>,
    /// The primary. `None` until the target has reported that it is.
    pub current: Option<String>,
    /// Version of the Lease that had expired when the target was chosen. The target need not wait.
    pub expired_lease: Option<String>,
    /// Timeline that the primary of this epoch has, or gets by its promotion. No number above it was
    /// ever claimed.
    pub timeline: TimelineId,
    /// Who may have acknowledged writes that only the standbys of that time are known to have, in
    /// their order. The last entry is that of the target.
    pub reigns: Vec<Reign>,
    /// The request for a switchover that has been acted on: the name of a member, or [`ANY`]. It is
    /// forgotten when nobody requests it any more, so that each request is acted on once.
    pub switchover: Option<String>,
    /// Whether a person has fenced the primary, and it has not led since. Nobody replaces it.
    pub fenced: bool,
}

/// What the operator sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The stored state.
    pub state: &'a FailoverState,
    /// The members, in the order of their serial numbers.
    pub members: &'a [MemberView],
    /// Whether nobody holds the Lease: it was released, or not renewed for its whole duration.
    pub lease_is_free: bool,
    /// Version of the Lease, if it was not renewed for its whole duration.
    pub expired_lease: Option<&'a str>,
    /// Time since the state was stored.
    pub since_change: Duration,
    /// Duration of the Lease. A target may have to wait for it before it can write.
    pub lease: Duration,
    /// How many bytes of WAL an asynchronous failover may lose.
    pub max_lag: u64,
    /// How many standbys a commit should wait for. If it is not 0, a primary that waited for none
    /// went on alone, and nobody replaces it.
    pub number: usize,
    /// Last position of the primary that is known. It bounds the lag of an asynchronous failover.
    pub last_position: Option<Position>,
    /// The request for a switchover: the name of a member, or [`ANY`].
    pub switchover: Option<&'a str>,
    /// Standbys that could replace the primary at once: they stream, and lack little WAL.
    pub successors: &'a [String],
    /// Time since the primary was fenced last.
    pub since_fenced: Duration,
    /// The member that a person wants to be promoted although it may lack acknowledged writes, or
    /// [`ANY`].
    pub forced: Option<&'a str>,
}

/// A member, as the operator sees it.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Name of the member.
    pub name: String,
    /// Serial number of the member.
    pub serial: u64,
    /// Whether its Pod does not run.
    pub is_gone: bool,
    /// Whether its node is cordoned.
    pub on_cordoned_node: bool,
    /// Whether a person has fenced it.
    pub is_fenced: bool,
    /// Its last report. `None` if it does not answer.
    pub report: Option<InstanceReport>,
}

/// What the operator does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    None,
    /// Store this state, and decide again.
    Store(FailoverState),
    /// Store this state, in which a person has chosen a target that may lack acknowledged writes.
    Force(FailoverState),
    /// Ask these members to seal at the epoch of the state, and wait for their reports.
    Seal(Vec<String>),
    /// Wait, because the candidates may lack acknowledged writes.
    NoQuorum(Vec<MissingQuorum>),
    /// Wait, because the candidate lacks more bytes of WAL than it may.
    TooFarBehind(u64),
    /// Wait for the former primary, which went on alone.
    Unprotected,
    /// Wait until one of these members has space on its volume.
    DiskFull(Vec<String>),
}

/// Decides about the primary. `configuration` returns the synchronous configuration that a member
/// gets as the primary.
///
/// # Guarantees
/// - A target has every acknowledged write: for each reign, the primary of that reign or a quorum of
///   its configuration is sealed. Only a person can force the promotion of another member.
/// - A number of a timeline is claimed once.
/// - A member that a person has fenced does not become the target, and nobody replaces a primary that
///   is fenced.
///
/// The target writes only after it has acquired the Lease, so a failover can begin while the former
/// primary still holds it.
pub fn decide(view: View<'_>, configuration: impl Fn(&str) -> SyncConfiguration) -> Step {
    let state = view.state;
    let Some(name) = &state.target else { return view.choose(configuration) };
    match view.member(name) {
        Some(target) if view.is_primary(name) && target.is_fenced => view.fence(true),
        // Comes first: the report of a member that does not answer any more can still say that it leads.
        target if view.has_failed(name, target) => view.begin(),
        // Nobody else is needed for another attempt.
        Some(target) if target.promotion_was_interrupted(state) => view.begin(),
        Some(target) if state.fenced && target.leads(state) && !view.lease_is_free => view.fence(false),
        Some(target) if target.leads(state) && view.is_primary(name) => view.switch_over(name),
        Some(target) if target.leads(state) => view.confirm(target),
        _ => Step::None,
    }
}

impl View<'_> {
    fn member(&self, name: &str) -> Option<&MemberView> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Returns whether the target has to be given up. A member that only the operator cannot reach
    /// renews the Lease. A single member is left alone: there is nobody else.
    fn has_failed(&self, name: &str, target: Option<&MemberView>) -> bool {
        // The Pod of a primary that was fenced may be about to be created again.
        let is_awaited = self.is_primary(name) && self.state.fenced && self.since_fenced < self.lease * 2;
        let is_gone = |target: &MemberView| target.is_gone && !is_awaited;
        let cannot_lead = target.is_none_or(|target| is_gone(target) || target.is_fenced);
        let had_time = match (self.is_primary(name), self.state.fenced) {
            (true, false) => true,
            // It has to see that it is no longer fenced.
            (true, true) => self.since_fenced >= self.lease * 2,
            // It needs one duration to see that the former holder is gone.
            (false, _) => self.since_change >= self.lease * 2,
        };
        self.members.len() > 1 && (cannot_lead || (self.lease_is_free && had_time))
    }

    fn is_primary(&self, name: &str) -> bool {
        self.state.current.as_deref() == Some(name)
    }

    /// Records that the primary is fenced, or leads again.
    fn fence(&self, fenced: bool) -> Step {
        if self.state.fenced == fenced {
            return Step::None;
        }
        Step::Store(FailoverState { fenced, ..self.state.clone() })
    }

    fn begin(&self) -> Step {
        Step::Store(self.without_target())
    }

    /// Returns the state of the next epoch, which has no target yet.
    fn without_target(&self) -> FailoverState {
        FailoverState {
            epoch: self.state.epoch.saturating_add(1),
            target: None,
            current: None,
            expired_lease: None,
            fenced: false,
            ..self.state.clone()
        }
    }

    /// Begins a switchover that is requested, once the primary has a successor, and only one
    /// synchronous configuration may be in force.
    fn switch_over(&self, primary: &str) -> Step {
        let acted_on = |request: Option<&str>, state: FailoverState| {
            Step::Store(FailoverState { switchover: request.map(str::to_owned), ..state })
        };
        match self.switchover {
            request if request == self.state.switchover.as_deref() => Step::None,
            Some(request) if request == primary => acted_on(Some(request), self.state.clone()),
            Some(request) if self.state.reigns.len() == 1 && self.has_successor(request) => {
                acted_on(Some(request), self.without_target())
            }
            _ if self.state.switchover.is_some() => acted_on(None, self.state.clone()),
            _ => Step::None,
        }
    }

    fn has_successor(&self, request: &str) -> bool {
        let is_fenced = |name: &String| self.member(name).is_some_and(|member| member.is_fenced);
        self.successors.iter().any(|name| (request == ANY || name == request) && !is_fenced(name))
    }

    fn confirm(&self, target: &MemberView) -> Step {
        // The earlier reigns stay: only the new primary is known to have what they acknowledged.
        let current = Some(target.name.clone());
        Step::Store(FailoverState { current, expired_lease: None, ..self.state.clone() })
    }

    /// Returns whether the former primary is about to stop. It sends its last WAL to the standbys before
    /// it ends, unless they are sealed. It has to end before its Lease does, and reports a moment later.
    pub(super) fn former_primary_stops(&self) -> bool {
        let former = self.former_primary().and_then(|name| self.member(name));
        let report = former.filter(|former| !former.is_gone).and_then(|former| former.report.as_ref());
        let runs = report
            .is_some_and(|report| matches!(report.state, InstanceState::Primary | InstanceState::Stopping));
        let is_planned = self.state.switchover.is_some() && self.since_change < ANSWERS;
        runs && (!self.lease_is_free || is_planned)
    }

    pub(super) fn former_primary(&self) -> Option<&str> {
        self.state.reigns.last().map(|reign| reign.primary.as_str())
    }

    /// Returns whether a member should be the primary, if others have no more WAL.
    pub(super) fn is_preferred(&self, name: &str) -> bool {
        match self.state.switchover.as_deref() {
            Some(ANY) => self.former_primary() != Some(name),
            Some(request) => request == name,
            None => false,
        }
    }

    /// Returns whether the sealed members have every acknowledged write. A primary that is sealed
    /// itself has what it acknowledged, because it stores WAL before that, and what earlier ones did,
    /// because it was chosen for that.
    pub(super) fn quorum(&self, candidates: &[Candidate]) -> Quorum {
        let is_sealed = |reign: &Reign| candidates.iter().any(|one| one.member == reign.primary);
        let after_sealed = self.state.reigns.iter().rposition(is_sealed).map_or(0, |index| index + 1);
        let others = self.state.reigns.iter().skip(after_sealed);
        let configurations: Vec<_> = others.map(|reign| reign.configuration.clone()).collect();
        if configurations.is_empty() && !self.state.reigns.is_empty() {
            return Quorum::Met;
        }
        quorum(&configurations, candidates, None)
    }
}

impl MemberView {
    /// Returns whether the member writes on the timeline of the state.
    fn leads(&self, state: &FailoverState) -> bool {
        self.report.as_ref().is_some_and(|report| {
            report.state == InstanceState::Primary && report.timeline == Some(state.timeline)
        })
    }

    /// Returns whether the member waits because its promotion to the timeline of the state did not end.
    /// The next one has to claim a higher timeline.
    fn promotion_was_interrupted(&self, state: &FailoverState) -> bool {
        self.report.as_ref().is_some_and(|report| {
            let claimed = Some(state.timeline);
            state.current.is_none()
                && report.state == InstanceState::Hold
                && report.problem.is_some()
                && report.timeline.is_some_and(|timeline| timeline < state.timeline)
                && report.highest_timeline >= claimed
        })
    }

    /// Returns whether the volume of the member is full.
    pub(super) fn is_full(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.disk_full)
    }

    /// Returns whether a seal of this epoch is due. A member that is down is sealed too, and then
    /// starts as a standby without an upstream to tell what it has.
    pub(super) fn can_seal(&self, epoch: u64) -> bool {
        let has_stopped = |report: &InstanceReport| {
            matches!(
                report.state,
                InstanceState::Standby
                    | InstanceState::Sealed
                    | InstanceState::Hold
                    | InstanceState::DiskFull
            )
        };
        self.report.as_ref().is_some_and(|report| {
            let is_new = report.sealed_epoch.is_none_or(|sealed| sealed < epoch);
            has_stopped(report) && report.timeline.is_some() && is_new && !self.is_fenced
        })
    }

    /// Returns whether the member has sealed itself at this epoch, and has not told what it has since.
    pub(super) fn is_being_sealed(&self, epoch: u64) -> bool {
        let runs = |state| matches!(state, InstanceState::Standby | InstanceState::Sealed);
        let is_sealed = |report: &InstanceReport| report.sealed_epoch == Some(epoch) && runs(report.state);
        !self.is_fenced && self.report.as_ref().is_some_and(is_sealed) && self.candidate(epoch).is_none()
    }

    pub(super) fn candidate(&self, epoch: u64) -> Option<Candidate> {
        let report = self.report.as_ref()?;
        let is_sealed = report.state == InstanceState::Sealed && report.sealed_epoch == Some(epoch);
        let received = Position { timeline: report.timeline?, lsn: report.positions.received? };
        (is_sealed && !self.is_fenced).then(|| Candidate {
            member: self.name.clone(),
            serial: self.serial,
            received,
            on_cordoned_node: self.on_cordoned_node,
            is_full: self.is_full(),
        })
    }
}
