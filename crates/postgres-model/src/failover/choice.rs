//! The choice of a target.
//!
//! A member with a full volume is no target. What it has counts if that of the others does not suffice.

use super::{
    Candidate, MissingQuorum, Quorum, choose,
    decision::{ANSWERS, MemberView, Step, View},
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
        match self.choice(&candidates) {
            Ok(chosen) => self.promote(chosen, configuration),
            // A member that answers late can have what the others lack.
            Err(_) if !unsealed.is_empty() => Step::Seal(unsealed),
            Err(obstacle) if full.is_empty() || self.awaits(&others) => obstacle.into(),
            Err(obstacle) if candidates.is_empty() => {
                let is_silent = others.iter().all(|member| member.report.is_none());
                if is_silent { Step::DiskFull(names(&full)) } else { obstacle.into() }
            }
            Err(_) => self.choose_with(&full, candidates, configuration),
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
            Err(obstacle) => obstacle.into(),
        }
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
