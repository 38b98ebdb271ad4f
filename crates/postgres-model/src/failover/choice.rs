//! The choice of a target.
//!
//! A member with a full volume is no target. What it has counts if that of the others does not suffice.

use super::{
    Candidate, MissingQuorum, Quorum, choose,
    decision::{ANSWERS, ANY, FailoverState, MemberView, Reign, Step, View},
};
use crate::sync::SyncConfiguration;

/// Why none of the candidates may be promoted.
enum Obstacle {
    NoCandidate,
    NoQuorum(Vec<MissingQuorum>),
    Unprotected,
    TooFarBehind(u64),
}

impl From<Obstacle> for Step {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::NoCandidate => Self::None,
            Obstacle::NoQuorum(missing) => Self::NoQuorum(missing),
            Obstacle::Unprotected => Self::Unprotected,
            Obstacle::TooFarBehind(bytes) => Self::TooFarBehind(bytes),
        }
    }
}

impl View<'_> {
    /// Chooses a target among the sealed members with space on their volumes.
    pub(super) fn choose(&self, configuration: impl Fn(&str) -> SyncConfiguration) -> Step {
        if self.former_primary_stops() {
            return Step::None;
        }
        let (full, others): (Vec<_>, Vec<_>) = self.members.iter().partition(|member| member.is_full());
        let unsealed = self.unsealed(&others);
        let candidates = self.candidates(&others);
        if !unsealed.is_empty() && (candidates.is_empty() || self.since_change < ANSWERS) {
            return Step::Seal(unsealed);
        }
        let obstacle = match self.choice(&candidates) {
            Ok(chosen) if self.awaits_successor(chosen) || self.awaits_standby(&others) => {
                return Step::None;
            }
            Ok(chosen) => return self.promote(chosen, configuration),
            Err(obstacle) => obstacle,
        };
        // The full members are compared before a person can lose what only they have.
        let forced = self.forced(&candidates).filter(|_| full.is_empty());
        match forced {
            Some(forced) => self.force(forced, configuration),
            // A member that answers late can have what the others lack.
            None if !unsealed.is_empty() => Step::Seal(unsealed),
            None if full.is_empty() || self.awaits(&others) => obstacle.into(),
            None if candidates.is_empty() => {
                let is_silent = others.iter().all(|member| member.report.is_none());
                if is_silent { Step::DiskFull(names(&full)) } else { obstacle.into() }
            }
            None => self.choose_with(&full, candidates, configuration),
        }
    }

    /// Chooses a target if the candidates may lack what only full members have. These are sealed too.
    fn choose_with(
        &self,
        full: &[&MemberView],
        mut candidates: Vec<Candidate>,
        configuration: impl Fn(&str) -> SyncConfiguration,
    ) -> Step {
        let unsealed = self.unsealed(full);
        if !unsealed.is_empty() {
            return Step::Seal(unsealed);
        }
        candidates.extend(self.candidates(full));
        match self.choice(&candidates) {
            Ok(chosen) if chosen.is_full => Step::DiskFull(names(full)),
            Ok(chosen) => self.promote(chosen, configuration),
            Err(obstacle) => {
                candidates.retain(|candidate| !candidate.is_full);
                let forced = self.forced(&candidates);
                forced.map_or_else(|| obstacle.into(), |forced| self.force(forced, configuration))
            }
        }
    }

    fn promote(&self, chosen: &Candidate, configuration: impl Fn(&str) -> SyncConfiguration) -> Step {
        self.promoting(chosen, configuration).map_or(Step::None, Step::Store)
    }

    fn force(&self, forced: &Candidate, configuration: impl Fn(&str) -> SyncConfiguration) -> Step {
        self.promoting(forced, configuration).map_or(Step::None, Step::Force)
    }

    /// Returns whether a member whom a switchover prefers to the chosen one may be about to answer. An
    /// operator that has just started can hear of the former primary first.
    fn awaits_successor(&self, chosen: &Candidate) -> bool {
        let is_new = self.state.switchover.is_some() && self.since_change < ANSWERS;
        let is_silent = |member: &&MemberView| {
            member.report.is_none() && !member.is_gone && !member.is_fenced && self.is_preferred(&member.name)
        };
        is_new && !self.is_preferred(&chosen.member) && self.members.iter().any(|member| is_silent(&member))
    }

    /// Returns whether a standby has sealed itself, and is about to tell what it has. A former primary
    /// that starts again can take long to recover, and is not waited for.
    fn awaits_standby(&self, members: &[&MemberView]) -> bool {
        let mut standbys = members.iter().filter(|member| self.former_primary() != Some(&member.name));
        self.since_change < ANSWERS && standbys.any(|standby| standby.is_being_sealed(self.state.epoch))
    }

    /// Returns whether a member is about to tell what it has.
    fn awaits(&self, members: &[&MemberView]) -> bool {
        let is_new = self.since_change < ANSWERS;
        is_new
            && members.iter().any(|member| member.report.is_some() && self.candidates(&[member]).is_empty())
    }

    /// Returns the candidate to promote, or why none of them may be.
    fn choice<'c>(&self, candidates: &'c [Candidate]) -> Result<&'c Candidate, Obstacle> {
        let chosen = choose(candidates, |name| self.is_preferred(name)).ok_or(Obstacle::NoCandidate)?;
        match self.quorum(candidates) {
            Quorum::Missing(missing) => Err(Obstacle::NoQuorum(missing)),
            Quorum::Asynchronous if self.number > 0 => Err(Obstacle::Unprotected),
            Quorum::Asynchronous if self.lag(chosen) > self.max_lag => {
                Err(Obstacle::TooFarBehind(self.lag(chosen)))
            }
            Quorum::Asynchronous | Quorum::Met => Ok(chosen),
        }
    }

    /// Returns the candidate that a person wants to be promoted.
    fn forced<'a>(&self, candidates: &'a [Candidate]) -> Option<&'a Candidate> {
        match self.forced? {
            ANY => choose(candidates, |name| self.is_preferred(name)),
            request => candidates.iter().find(|candidate| candidate.member == request),
        }
    }

    fn lag(&self, chosen: &Candidate) -> u64 {
        self.last_position.map_or(0, |last| last.lsn.0.saturating_sub(chosen.received.lsn.0))
    }

    /// Returns the state in which a candidate is promoted to a timeline of its own. Returns `None` if
    /// there is none left.
    fn promoting(
        &self,
        chosen: &Candidate,
        configuration: impl Fn(&str) -> SyncConfiguration,
    ) -> Option<FailoverState> {
        let timeline = self.state.timeline.next()?;
        let mut state = self.state.clone();
        let primary = chosen.member.clone();
        let reign = Reign { configuration: configuration(&primary), primary: primary.clone() };
        state.reigns.retain(|known| *known != reign);
        state.reigns.push(reign);
        let expired_lease = self.expired_lease.map(str::to_owned);
        Some(FailoverState { target: Some(primary), expired_lease, timeline, ..state })
    }

    fn unsealed(&self, members: &[&MemberView]) -> Vec<String> {
        let unsealed = members.iter().filter(|member| member.can_seal(self.state.epoch));
        unsealed.map(|member| member.name.clone()).collect()
    }

    fn candidates(&self, members: &[&MemberView]) -> Vec<Candidate> {
        members.iter().filter_map(|member| member.candidate(self.state.epoch)).collect()
    }
}

fn names(members: &[&MemberView]) -> Vec<String> {
    members.iter().map(|member| member.name.clone()).collect()
}
