//! Tests of single rules.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::{Timing, Writer, unused};

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a Lease as `identity` writes it, with this version.
fn written(shared: &SharedRenewal, lease: &Lease, second: i64, version: &str) -> Lease {
    let write = if holder(lease).is_some() {
        Write::Renew(lease.metadata.resource_version.clone().unwrap())
    } else {
        Write::Acquire(lease.metadata.resource_version.clone().unwrap())
    };
    let writer = Writer::new("identity", Timing::default());
    let mut desired = writer.desired(&write, Some(lease), || unreachable!(), time(second)).unwrap();
    shared.complete(&write, &mut desired, true);
    with_version(desired, version)
}

fn with_version(mut lease: Lease, version: &str) -> Lease {
    lease.metadata.resource_version = Some(version.to_owned());
    lease
}

fn free(name: &str) -> Lease {
    with_version(unused(name, "default", BTreeMap::new()), &format!("0{name}"))
}

/// Returns an anchor and a member that `identity` holds.
fn pair() -> (SharedRenewal, Lease, Lease) {
    let mut shared = SharedRenewal::default();
    let anchor = written(&shared, &free("a"), 1, "1");
    shared.record_write(&anchor, Duration::from_secs(1));
    let member = written(&shared, &free("m"), 2, "2");
    shared.record_write(&member, Duration::from_secs(2));
    (shared, anchor, member)
}

fn watched<'a>(leases: impl IntoIterator<Item = &'a Lease>) -> BTreeMap<String, Lease> {
    leases.into_iter().map(|lease| (lease.metadata.name.clone().unwrap(), lease.clone())).collect()
}

#[test]
fn first_lease_becomes_anchor_and_others_name_it() {
    let (shared, anchor, member) = pair();
    assert_eq!((anchor_name(&anchor), anchor_name(&member)), (None, Some("a")));
    assert!(is_renewed_with(&member, &anchor));
    assert!(shared.covers(&member, "identity") && !shared.covers(&anchor, "identity"));
    assert!(!shared.covers(&member, "other"), "a Lease with another holder is not renewed");
}

#[test]
fn renewal_of_anchor_counts_when_the_watch_shows_both_versions() {
    let (mut shared, anchor, member) = pair();
    let renewed = written(&shared, &anchor, 6, "3");
    shared.record_write(&renewed, Duration::from_secs(6));
    let renewal = |leases: [&Lease; 2]| shared.renewal_of(&member, "identity", &watched(leases));
    assert_eq!(renewal([&anchor, &member]), None, "the watch has not delivered the renewal");
    assert_eq!(renewal([&renewed, &with_version(member.clone(), "4")]), None, "the member has changed");
    assert_eq!(renewal([&renewed, &renewed]), None, "the watch has not delivered the member");
    assert_eq!(renewal([&renewed, &member]), Some(Duration::from_secs(6)));
}

#[test]
fn candidate_without_watch_renews_its_lease_itself() {
    let (shared, _, member) = pair();
    let mut renewed = member;
    shared.complete(&Write::Renew("2".into()), &mut renewed, false);
    assert_eq!(anchor_name(&renewed), None);
}

#[test]
fn anchor_gets_a_new_term_when_a_member_ends() {
    let (mut shared, anchor, member) = pair();
    assert!(shared.record_end("m") && !shared.record_end("m"), "one new term is enough");
    let renewed = written(&shared, &anchor, 6, "3");
    assert_eq!(anchor_of(&member, Some(&renewed)), Anchor::Ended(Some("0a".into())));
    shared.record_write(&renewed, Duration::from_secs(6));
    assert!(!shared.covers(&member, "identity"));
    let again = written(&shared, &renewed, 11, "4");
    assert_eq!(term(&again), term(&renewed), "one new term is enough");
    assert!(is_renewed_with(&written(&shared, &member, 12, "5"), &again));
}

#[test]
fn next_renewal_makes_a_new_anchor_when_the_anchor_ends() {
    let (mut shared, _, member) = pair();
    shared.record_end("a");
    let renewed = written(&shared, &member, 7, "3");
    assert_eq!(anchor_name(&renewed), None);
    shared.record_write(&renewed, Duration::from_secs(7));
    assert_eq!(anchor_name(&written(&shared, &free("b"), 8, "4")), Some("m"));
}

#[test]
fn anchor_has_ended_when_it_has_another_holder_or_is_missing() {
    let (shared, anchor, member) = pair();
    assert_eq!(anchor_of(&member, Some(&anchor)), Anchor::Held("1".into()));
    assert_eq!(anchor_of(&member, None), Anchor::Ended(None));
    let write = Write::Acquire("1".into());
    let other = Writer::new("other", Timing::default());
    let mut taken = other.desired(&write, Some(&anchor), || unreachable!(), time(30)).unwrap();
    SharedRenewal::default().complete(&write, &mut taken, true);
    let ended = anchor_of(&member, Some(&with_version(taken, "3")));
    assert_eq!(ended, Anchor::Ended(Some("1".into())));
    assert!(Anchor::Held("1".into()).is_unchanged_in(&ended), "nothing was renewed in between");
    assert!(!Anchor::Held("0".into()).is_unchanged_in(&ended), "version 1 was a renewal");
    assert!(!Anchor::Held("1".into()).is_unchanged_in(&Anchor::Ended(None)));
    let released = shared_release(&shared, &member);
    assert_eq!(anchor_of(&released, Some(&anchor)), Anchor::None);
}

fn shared_release(shared: &SharedRenewal, lease: &Lease) -> Lease {
    let mut released = Writer::new("identity", Timing::default()).release(lease.clone(), time(9));
    shared.complete(&Write::Release("2".into()), &mut released, true);
    released
}

#[test]
fn annotation_that_names_no_other_lease_is_ignored() {
    let (_, anchor, member) = pair();
    let too_long = "a".repeat(MAX_NAME + 1);
    for name in ["", "../a", "m", &too_long] {
        let value = format!("{name}/1970-01-01T00:00:01Z");
        let mut lease = member.clone();
        lease.metadata.annotations.get_or_insert_default().insert(RENEWED_WITH.into(), value.clone());
        assert_eq!(anchor_name(&lease), None, "{value}");
        assert!(!is_renewed_with(&lease, &anchor), "{value}");
    }
}
