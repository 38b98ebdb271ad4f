//! Which standbys a commit waits for. Pure: the operator stores the result before anybody acts on it.
//!
//! Only the operator lowers the number, so a primary that is cut off never decides to go on alone. A
//! change has two steps. First, both configurations are stored, and the primary applies the new one.
//! After it is [in force](crate::in_force), only the new one is stored. A failover in between needs a
//! quorum of both. If the standbys of the new one are away before it is in force, a lower number is
//! stored beside both.

use std::time::Duration;

use super::{FailoverState, Reign};
use crate::sync::{SyncConfiguration, SyncMethod};

/// What the operator sees of the replication from the primary.
#[derive(Clone, Copy, Debug)]
pub struct Replication<'a> {
    /// How many standbys a commit should wait for.
    pub number: usize,
    /// Whether writes wait while too few standbys stream. Otherwise, the number is lowered.
    pub is_required: bool,
    /// Members that have joined and stay, in the order of their priority.
    pub members: &'a [String],
    /// Standbys that stream from the primary.
    pub streaming: &'a [String],
    /// How long these have been the same.
    pub streaming_since: Duration,
    /// Time since the primary renewed its Lease. `None` if nobody holds it.
    pub since_renewal: Option<Duration>,
    /// The parameter `synchronous_standby_names` of the primary, if it is
    /// [in force](crate::in_force).
    pub in_force: Option<&'a str>,
}

impl Replication<'_> {
    /// How long standbys may be away before a commit no longer waits for them. They have to be away for as
    /// long when the primary renews its Lease.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// Returns the configuration of a member that becomes the primary: a commit waits for others.
    pub fn first(&self, primary: &str) -> SyncConfiguration {
        configuration(self.number, self.others(primary))
    }

    /// Returns the reigns after one step, or `None` if nothing changes. The caller has a report of
    /// the confirmed primary.
    pub fn next(&self, state: &FailoverState) -> Option<Vec<Reign>> {
        let primary = state.current.as_ref().filter(|current| state.target.as_ref() == Some(current))?;
        // A primary that does not write acknowledges nothing, so nothing has to be lowered.
        if state.fenced {
            return None;
        }
        match state.reigns.as_slice() {
            [current] if current.primary == *primary => {
                let configuration = self.wanted(primary, &current.configuration);
                let is_new = configuration != current.configuration;
                is_new.then(|| vec![current.clone(), Reign { primary: primary.clone(), configuration }])
            }
            [.., last] if last.primary == *primary => {
                let is_in_force = self.in_force == Some(&last.configuration.standby_names(SyncMethod::Any));
                if is_in_force { Some(vec![last.clone()]) } else { self.lowered(last, &state.reigns) }
            }
            _ => None,
        }
    }

    /// Returns the reigns with a lower number after the last one, which cannot get in force because
    /// its standbys are away. All earlier configurations stay until then.
    fn lowered(&self, last: &Reign, reigns: &[Reign]) -> Option<Vec<Reign>> {
        let configuration = self.wanted(&last.primary, &last.configuration);
        let lowered = Reign { primary: last.primary.clone(), configuration };
        let is_lower = lowered.configuration.number() < last.configuration.number();
        is_lower.then(|| reigns.iter().cloned().chain([lowered]).collect())
    }

    /// Returns whether the primary has renewed its Lease after the standbys had been away for long.
    ///
    /// The last report of a primary that is cut off says nothing about its standbys now. It would not learn of
    /// the lower number, but no failover could rule out that it did, and that it went on alone.
    fn have_been_away(&self) -> bool {
        self.since_renewal.is_some_and(|renewal| self.streaming_since >= Self::PATIENCE + renewal)
    }

    fn others(&self, primary: &str) -> Vec<String> {
        self.members.iter().filter(|name| *name != primary).cloned().collect()
    }

    fn wanted(&self, primary: &str, current: &SyncConfiguration) -> SyncConfiguration {
        let streams = |name: &String| self.streaming.contains(name);
        let others = self.others(primary).into_iter();
        let admitted: Vec<_> =
            others.filter(|name| current.members().contains(name) || streams(name)).collect();
        let streaming: Vec<_> = admitted.iter().filter(|name| streams(name)).cloned().collect();
        let is_enough = streaming.len() >= self.number.min(admitted.len());
        if is_enough || self.is_required {
            configuration(self.number, admitted)
        } else if self.have_been_away() {
            configuration(self.number, streaming)
        } else {
            configuration(current.number(), admitted)
        }
    }
}

/// Returns a configuration in which a commit waits for at most `number` of `members`. Without
/// synchronous replication, nobody is listed.
fn configuration(number: usize, members: Vec<String>) -> SyncConfiguration {
    let number = number.min(members.len());
    let members = if number == 0 { Vec::new() } else { members };
    SyncConfiguration::new(number, members).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::TimelineId;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn state(configurations: &[(usize, &[&str])]) -> FailoverState {
        let reign = |(number, members): &(usize, &[&str])| Reign {
            primary: "a".into(),
            configuration: SyncConfiguration::new(*number, names(members)).unwrap(),
        };
        FailoverState {
            epoch: 1,
            target: Some("a".into()),
            current: Some("a".into()),
            expired_lease: None,
            timeline: TimelineId::FIRST,
            reigns: configurations.iter().map(reign).collect(),
            switchover: None,
            fenced: false,
        }
    }

    /// Returns the next configurations of the primary `a`, whose number should be 1.
    fn next(
        configurations: &[(usize, &[&str])],
        streaming: &[&str],
        seconds: u64,
        is_required: bool,
    ) -> Option<Vec<(usize, Vec<String>)>> {
        let (members, streaming) = (names(&["a", "b", "c"]), names(streaming));
        let replication = Replication {
            number: 1,
            is_required,
            members: &members,
            streaming: &streaming,
            streaming_since: Duration::from_secs(seconds),
            since_renewal: Some(Duration::ZERO),
            in_force: Some("ANY 1 (\"b\", \"c\")"),
        };
        let reigns = replication.next(&state(configurations))?;
        let configuration =
            |reign: &Reign| (reign.configuration.number(), reign.configuration.members().to_vec());
        Some(reigns.iter().map(configuration).collect())
    }

    #[test]
    fn standbys_are_admitted_when_they_stream() {
        let both = (1, names(&["b", "c"]));
        assert_eq!(next(&[(0, &[])], &["c"], 0, false), Some(vec![(0, vec![]), (1, names(&["c"]))]));
        assert_eq!(next(&[(1, &["c"])], &["b"], 0, false), Some(vec![(1, names(&["c"])), both]));
        assert_eq!(next(&[(1, &["b", "c"])], &["b"], 60, false), None, "one of two is enough");
    }

    #[test]
    fn number_is_lowered_after_a_while_unless_it_is_required() {
        let both: &[(usize, &[&str])] = &[(1, &["b", "c"])];
        assert_eq!(next(both, &[], 9, false), None);
        assert_eq!(next(both, &[], 10, false), Some(vec![(1, names(&["b", "c"])), (0, vec![])]));
        assert_eq!(next(both, &[], 60, true), None);
    }

    #[test]
    fn old_configuration_goes_when_the_new_one_is_in_force() {
        let changing: &[(usize, &[&str])] = &[(0, &[]), (1, &["b", "c"])];
        assert_eq!(next(changing, &["b"], 0, false), Some(vec![(1, names(&["b", "c"]))]));
        let another: &[(usize, &[&str])] = &[(1, &["b", "c"]), (1, &["b"])];
        assert_eq!(next(another, &["b"], 60, false), None);
    }

    #[test]
    fn number_is_lowered_before_the_new_configuration_is_in_force() {
        let changing: &[(usize, &[&str])] = &[(1, &["b"]), (1, &["b"])];
        assert_eq!(next(changing, &[], 9, false), None);
        let lowered = vec![(1, names(&["b"])), (1, names(&["b"])), (0, vec![])];
        assert_eq!(next(changing, &[], 10, false), Some(lowered));
        assert_eq!(next(changing, &[], 60, true), None);
        assert_eq!(next(changing, &["b"], 60, false), None, "its standby is back");
        let waiting: &[(usize, &[&str])] = &[(1, &["b"]), (1, &["b"]), (0, &[])];
        assert_eq!(next(waiting, &[], 60, false), None, "it is lowered once");
    }

    #[test]
    fn nothing_changes_during_a_failover() {
        let mut state = state(&[(0, &[])]);
        state.target = None;
        let replication = Replication {
            number: 1,
            is_required: false,
            members: &names(&["a", "b"]),
            streaming: &names(&["b"]),
            streaming_since: Duration::ZERO,
            since_renewal: None,
            in_force: None,
        };
        assert_eq!(replication.next(&state), None);
        assert_eq!(replication.first("b").members(), ["a"]);
    }

    #[test]
    fn number_is_lowered_only_for_a_primary_that_has_renewed_its_lease_since() {
        let is_lowered = |away: u64, since_renewal: Option<u64>| {
            let replication = Replication {
                number: 1,
                is_required: false,
                members: &names(&["a", "b", "c"]),
                streaming: &[],
                streaming_since: Duration::from_secs(away),
                since_renewal: since_renewal.map(Duration::from_secs),
                in_force: None,
            };
            replication.next(&state(&[(1, &["b", "c"])])).is_some()
        };
        assert!(is_lowered(10, Some(0)) && is_lowered(14, Some(4)));
        assert!(!is_lowered(14, Some(5)), "it renewed its Lease after 9 s");
        assert!(!is_lowered(60, Some(55)), "it was cut off after 5 s");
        assert!(!is_lowered(60, None), "nobody holds the Lease");
    }
}
