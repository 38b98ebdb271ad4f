//! Which member to promote, and whether a promotion can lose acknowledged writes.

mod adoption;
mod choice;
mod decision;
mod replication;

use std::{cmp::Reverse, fmt};

pub use self::{
    decision::{ANY, FailoverState, MemberView, Reign, Step, View, decide},
    replication::Replication,
};

use crate::{sync::SyncConfiguration, timeline::Position};

/// Sealed member that may be promoted.
///
/// A seal stops the member's receiver and stores the epoch of the failover on its volume, so the
/// former primary gets no more acknowledgements from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the member.
    pub member: String,
    /// Serial of the member.
    pub serial: u64,
    /// Timeline, and the position up to which WAL was received and flushed.
    pub received: Position,
    /// Whether the node of the member is cordoned.
    pub on_cordoned_node: bool,
    /// Whether its volume is full. It tells what it has, and cannot be the primary.
    pub is_full: bool,
}

/// Returns the candidate to promote: that with the most WAL, by timeline and then by position.
///
/// Of several, those with space on their volumes come first, then those that are preferred, then those
/// on a node that is not cordoned, then the lowest serial.
pub fn choose(candidates: &[Candidate], is_preferred: impl Fn(&str) -> bool) -> Option<&Candidate> {
    candidates.iter().max_by_key(|candidate| {
        let preference = (!candidate.is_full, is_preferred(&candidate.member), !candidate.on_cordoned_node);
        (candidate.received, preference, Reverse(candidate.serial))
    })
}

/// Whether the sealed members include one with every acknowledged write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// They do. [`choose`] returns it.
    Met,
    /// They do for every synchronous configuration, but replication may have been asynchronous. The
    /// caller limits the lag.
    Asynchronous,
    /// They may not. Wait for the missing members, or let a person force the promotion.
    Missing(Vec<MissingQuorum>),
}

/// Configuration for which too few members are sealed.
///
/// Its text is a message for the condition `DataSafe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingQuorum {
    /// How many more members must be sealed.
    pub needed: usize,
    /// Members that are not sealed.
    pub members: Vec<String>,
}

impl fmt::Display for MissingQuorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = self.members.join(", ");
        write!(f, "{} more of {members} must answer to prove that no acknowledged write is lost", self.needed)
    }
}

/// Returns whether a promotion of the chosen candidate can lose acknowledged writes.
///
/// A commit under a configuration with N members waits for W of them. Of any W members, one is among
/// the sealed ones if and only if `sealed + W > N`: the quorum intersection of Paxos. The rule must
/// hold for each configuration that may be in force, so `configurations` has the old and the new one
/// while the operator changes them. It holds for both methods, because which standbys come first
/// depends on which are connected.
///
/// `clean_stop` is the position at which the last primary stopped cleanly, if it did. The candidate
/// that has it needs no quorum, because nothing was acknowledged after it.
///
/// `candidates` are the members that are sealed at the present epoch. Members outside a configuration
/// do not count for it. Without any configuration, replication counts as asynchronous.
pub fn quorum(
    configurations: &[SyncConfiguration],
    candidates: &[Candidate],
    clean_stop: Option<Position>,
) -> Quorum {
    if has_clean_stop(choose(candidates, |_| false), clean_stop) {
        return Quorum::Met;
    }
    let missing: Vec<_> =
        configurations.iter().filter_map(|configuration| missing(configuration, candidates)).collect();
    let is_synchronous = |configuration: &SyncConfiguration| configuration.number() > 0;
    match missing {
        missing if !missing.is_empty() => Quorum::Missing(missing),
        _ if !configurations.is_empty() && configurations.iter().all(is_synchronous) => Quorum::Met,
        _ => Quorum::Asynchronous,
    }
}

/// Returns whether a candidate has all WAL of a primary that stopped cleanly.
///
/// On another timeline, the stop is not that of the last primary, or the candidate lacks WAL.
fn has_clean_stop(candidate: Option<&Candidate>, clean_stop: Option<Position>) -> bool {
    candidate.zip(clean_stop).is_some_and(|(candidate, stop)| {
        candidate.received.timeline == stop.timeline && candidate.received.lsn >= stop.lsn
    })
}

/// Returns what a synchronous configuration lacks. `None` if `sealed + W > N`.
fn missing(configuration: &SyncConfiguration, candidates: &[Candidate]) -> Option<MissingQuorum> {
    let is_sealed = |name: &&String| candidates.iter().any(|candidate| candidate.member == **name);
    let members = configuration.members();
    let unsealed: Vec<_> = members.iter().filter(|name| !is_sealed(name)).cloned().collect();
    // `sealed + W > N`, written without the sealed members: fewer than W are not sealed.
    let needed = (unsealed.len() + 1).saturating_sub(configuration.number());
    let is_missing = configuration.number() > 0 && needed > 0;
    is_missing.then_some(MissingQuorum { needed, members: unsealed })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{lsn::Lsn, timeline::TimelineId};

    const MOST_MEMBERS: usize = 7;

    fn at(timeline: u32, lsn: u64) -> Position {
        Position { timeline: TimelineId::new(timeline).unwrap(), lsn: Lsn(lsn) }
    }

    fn candidate(serial: u64, received: Position) -> Candidate {
        Candidate { member: name(serial), serial, received, on_cordoned_node: false, is_full: false }
    }

    fn name(serial: u64) -> String {
        format!("db-{serial}")
    }

    fn configuration(number: usize, serials: impl IntoIterator<Item = u64>) -> SyncConfiguration {
        SyncConfiguration::new(number, serials.into_iter().map(name).collect()).unwrap()
    }

    fn sealed(serials: impl IntoIterator<Item = u64>) -> Vec<Candidate> {
        serials.into_iter().map(|serial| candidate(serial, at(1, 0x40))).collect()
    }

    /// Returns the members whose bit is set.
    fn subset(bits: u32) -> Vec<u64> {
        (0..MOST_MEMBERS as u64).filter(|serial| bits & (1 << serial) != 0).collect()
    }

    #[test]
    fn most_wal_wins() {
        let candidates = [candidate(1, at(1, 0x90)), candidate(2, at(2, 0x40)), candidate(3, at(2, 0x50))];
        assert_eq!(choose(&candidates, |_| false), Some(&candidates[2]));
        assert_eq!(choose(&[], |_| false), None);
    }

    #[test]
    fn ties_prefer_a_schedulable_node_and_then_the_lowest_serial() {
        let mut candidates = [3, 1, 2].map(|serial| candidate(serial, at(1, 0x40)));
        assert_eq!(choose(&candidates, |_| false).unwrap().serial, 1);
        candidates[1].on_cordoned_node = true;
        assert_eq!(choose(&candidates, |_| false).unwrap().serial, 2);
        candidates[2].is_full = true;
        assert_eq!(choose(&candidates, |name| name == "db-2").unwrap().serial, 3);
        candidates[1].received = at(1, 0x41);
        assert_eq!(choose(&candidates, |_| false).unwrap().serial, 1);
    }

    #[test]
    fn message_names_the_missing_members() {
        let configurations = [configuration(1, [1, 2, 3])];
        let Quorum::Missing(missing) = quorum(&configurations, &sealed([2]), None) else { panic!() };
        assert_eq!(
            missing[0].to_string(),
            "2 more of db-1, db-3 must answer to prove that no acknowledged write is lost"
        );
    }

    #[test]
    fn every_configuration_in_force_must_have_its_quorum() {
        let (old, new) = (configuration(1, [1, 2]), configuration(1, [1]));
        let missing = |needed, serials: &[u64]| MissingQuorum {
            needed,
            members: serials.iter().map(|serial| name(*serial)).collect(),
        };
        assert_eq!(quorum(std::slice::from_ref(&new), &sealed([1]), None), Quorum::Met);
        assert_eq!(
            quorum(&[old.clone(), new.clone()], &sealed([1]), None),
            Quorum::Missing(vec![missing(1, &[2])])
        );
        assert_eq!(
            quorum(&[old.clone(), new.clone()], &sealed([2]), None),
            Quorum::Missing(vec![missing(1, &[1]), missing(1, &[1])])
        );
        assert_eq!(quorum(&[old, new], &sealed([1, 2]), None), Quorum::Met);
    }

    #[test]
    fn member_that_was_never_admitted_does_not_count() {
        assert!(matches!(quorum(&[configuration(1, [1])], &sealed([2, 3]), None), Quorum::Missing(_)));
    }

    #[test]
    fn asynchronous_replication_has_no_quorum() {
        let (synchronous, asynchronous) = (configuration(1, [1]), configuration(0, [1, 2]));
        assert_eq!(quorum(&[], &sealed([1]), None), Quorum::Asynchronous);
        assert_eq!(
            quorum(&[synchronous.clone(), asynchronous.clone()], &sealed([1]), None),
            Quorum::Asynchronous
        );
        assert!(matches!(quorum(&[synchronous, asynchronous], &sealed([2]), None), Quorum::Missing(_)));
    }

    #[test]
    fn candidate_with_the_clean_stop_needs_no_quorum() {
        let configurations = [configuration(1, [1, 2, 3])];
        let verdict = |stop| quorum(&configurations, &sealed([2]), Some(stop));
        assert_eq!(verdict(at(1, 0x40)), Quorum::Met);
        assert_eq!(verdict(at(1, 0x3F)), Quorum::Met);
        for other in [at(1, 0x41), at(2, 0x10)] {
            assert!(matches!(verdict(other), Quorum::Missing(_)), "{other}");
        }
        // A stop on an older timeline is not that of the last primary.
        let candidates = [candidate(2, at(2, 0x90))];
        assert!(matches!(quorum(&configurations, &candidates, Some(at(1, 0x40))), Quorum::Missing(_)));
        assert!(matches!(quorum(&configurations, &[], Some(at(1, 0))), Quorum::Missing(_)));
    }

    /// Every configuration of up to seven members, every set that acknowledges a commit, and every
    /// set of sealed members.
    #[test]
    fn sealed_members_that_meet_the_quorum_intersect_every_acknowledgement() {
        for members in 1..=MOST_MEMBERS {
            let all = (1_u32 << members) - 1;
            for number in 1..=members {
                let configurations = [configuration(number, subset(all))];
                for seal in 0..=all {
                    let is_met = quorum(&configurations, &sealed(subset(seal)), None) == Quorum::Met;
                    let commits =
                        (0..=all).filter(|acknowledged| acknowledged.count_ones() as usize >= number);
                    let intersects_all = commits.into_iter().all(|acknowledged| acknowledged & seal != 0);
                    // Not only safe, but also no stricter than needed.
                    assert_eq!(is_met, intersects_all, "{number} of {members}, sealed {seal:b}");
                }
            }
        }
    }

    proptest! {
        /// A commit is acknowledged under one of two configurations. If the sealed members meet the
        /// quorum, the chosen one has the commit.
        #[test]
        fn chosen_candidate_has_every_acknowledged_write(
            members in prop::array::uniform2(1..1_u32 << MOST_MEMBERS),
            numbers in prop::array::uniform2(1..=MOST_MEMBERS),
            (acknowledged, seal, in_force) in (0..1_u32 << MOST_MEMBERS, 0..1_u32 << MOST_MEMBERS, 0..2_usize),
            received in vec((1..3_u32, 0..0x80_u64), MOST_MEMBERS),
        ) {
            let configurations: Vec<_> = members.iter().zip(numbers)
                .map(|(members, number)| configuration(number.min(subset(*members).len()), subset(*members)))
                .collect();
            let commit = at(2, 0x40);
            let others = subset(members[in_force] & !acknowledged);
            let mut acknowledging = subset(members[in_force] & acknowledged);
            let too_few = configurations[in_force].number().saturating_sub(acknowledging.len());
            acknowledging.extend(others.into_iter().take(too_few));
            let candidates: Vec<_> = subset(seal).into_iter().map(|serial| {
                let (timeline, lsn) = received[usize::try_from(serial).unwrap()];
                let position = at(timeline, lsn);
                let acknowledged = acknowledging.contains(&serial);
                candidate(serial, if acknowledged { position.max(commit) } else { position })
            }).collect();
            if quorum(&configurations, &candidates, None) == Quorum::Met {
                prop_assert!(choose(&candidates, |_| false).unwrap().received >= commit);
            }
        }

        #[test]
        fn more_seals_never_break_a_quorum(number in 1..=4_usize, seal in 0..1_u32 << 4, more in 0..1_u32 << MOST_MEMBERS) {
            let configurations = [configuration(number, subset(0b1111))];
            if quorum(&configurations, &sealed(subset(seal)), None) == Quorum::Met {
                prop_assert_eq!(quorum(&configurations, &sealed(subset(seal | more)), None), Quorum::Met);
            }
        }
    }
}
