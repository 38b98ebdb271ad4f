use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tenant(quota: Option<i32>, spaces: &[&str], reserved: &[(&str, u64)]) -> Tenant {
    let entry =
        |(name, until): &(&str, u64)| json!({ "namespace": name, "until": later(NOW, seconds(*until)) });
    let reservations: Vec<Value> = reserved.iter().map(entry).collect();
    let spaces: Vec<Value> = spaces.iter().map(|name| json!({ "name": name })).collect();
    serde_json::from_value(json!({
        "metadata": { "name": "oil", "uid": "1" },
        "spec": { "namespaceOptions": { "quota": quota } },
        "status": { "state": "Active", "size": 2, "spaces": spaces, "reservations": reservations },
    }))
    .unwrap()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What comes of asking for `c`, with the entries in `over` over.
fn asked(tenant: &Tenant, members: Members<'_>, over: &[&str]) -> Result<Vec<(String, i64)>, (usize, usize)> {
    match place(tenant, members, "c", NOW, |entry| over.contains(&entry.namespace.as_str())) {
        Place::Give(status) => {
            let entries = status.reservations.iter();
            Ok(entries.map(|one| (one.namespace.clone(), one.until.0.as_second())).collect())
        }
        Place::None { taken, quota } => Err((taken, quota)),
        Place::Given => panic!("there is a quota"),
    }
}

fn entries(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(name, until)| ((*name).to_owned(), *until)).collect()
}

#[test]
fn without_a_quota_nothing_is_written() {
    let there = set(&["a", "b"]);
    let place = place(&tenant(None, &[], &[]), Members::Cached(&there), "c", NOW, |_| false);
    assert_eq!(place, Place::Given);
}

#[test]
fn a_free_place_is_given_for_a_minute_and_the_rest_of_the_status_stays() {
    let (oil, there) = (tenant(Some(3), &[], &[]), set(&["a", "b"]));
    let Place::Give(status) = place(&oil, Members::Cached(&there), "c", NOW, |_| false) else { panic!() };
    assert_eq!(status.size, 2);
    assert_eq!(asked(&oil, Members::Cached(&there), &[]), Ok(entries(&[("c", 60)])));
}

#[test]
fn members_and_reservations_are_counted_each_once() {
    let cached = |names: &[&str], tenant: &Tenant| asked(tenant, Members::Cached(&set(names)), &[]).map(drop);
    assert_eq!(cached(&["a", "b"], &tenant(Some(2), &[], &[])), Err((2, 2)));
    assert_eq!(cached(&["a"], &tenant(Some(2), &[], &[("a", 20), ("b", 20)])), Err((2, 2)));
    assert_eq!(cached(&["a"], &tenant(Some(2), &[], &[("a", 20)])), Ok(()));
    assert_eq!(cached(&["a", "b"], &tenant(Some(1), &[], &[])), Err((2, 1)));
    assert_eq!(cached(&["a", "b", "c"], &tenant(Some(1), &[], &[])), Err((2, 1)));
}

/// A cache may be more than a minute behind.
#[test]
fn what_the_status_lists_counts_beside_the_cache() {
    let oil = tenant(Some(2), &["a", "b"], &[]);
    assert_eq!(asked(&oil, Members::Cached(&set(&[])), &[]), Err((2, 2)));
    // It is gone, and the controller has yet to say so.
    assert_eq!(asked(&oil, Members::Live(&set(&["a"])), &[]), Ok(entries(&[("c", 60)])));
}

#[test]
fn an_entry_whose_time_is_over_counts_until_the_api_server_says_whether_there_is_such_a_namespace() {
    let oil = tenant(Some(2), &[], &[("a", 20), ("b", 20)]);
    let over = ["a"];
    assert_eq!(asked(&oil, Members::Cached(&set(&[])), &over), Err((2, 2)));
    assert_eq!(asked(&oil, Members::Live(&set(&["a"])), &over), Err((2, 2)));
    assert_eq!(asked(&oil, Members::Live(&set(&[])), &over), Ok(entries(&[("b", 20), ("c", 60)])));
    // It is dropped where everybody knows of the namespace.
    let told = tenant(Some(3), &["a"], &[("a", 20), ("b", 20)]);
    assert_eq!(asked(&told, Members::Cached(&set(&[])), &["a", "b"]), Ok(entries(&[("b", 20), ("c", 60)])));
    assert_eq!(
        asked(&told, Members::Live(&set(&["a", "b"])), &["a", "b"]),
        Ok(entries(&[("b", 20), ("c", 60)]))
    );
}

#[test]
fn who_asks_again_keeps_one_place_by_another_entry() {
    for (before, after) in [(10, 60), (60, 61), (500, 501)] {
        let oil = tenant(Some(1), &[], &[("c", before)]);
        assert_eq!(asked(&oil, Members::Cached(&set(&[])), &["c"]), Ok(entries(&[("c", after)])));
    }
}

#[test]
fn the_time_of_an_entry_is_measured_from_when_it_was_first_seen() {
    let (mut seen, begin) = (Sightings::default(), Instant::now());
    // Written by a clock that is an hour behind, or ahead.
    for until in [0, 3600] {
        let oil = tenant(Some(1), &[], &[("a", until)]);
        let entry = &oil.status.as_ref().unwrap().reservations[0];
        assert!(!seen.is_over(&oil, entry, begin + seconds(999)), "never seen");
        for at in [0, 30, 59] {
            seen.observe(&oil, begin + seconds(at));
            assert!(!seen.is_over(&oil, entry, begin + seconds(at)));
        }
        assert!(seen.is_over(&oil, entry, begin + seconds(60)));
    }
    assert_eq!(seen.0["1"].len(), 1, "what the status has no more is forgotten");
    seen.observe(&tenant(Some(1), &[], &[]), begin);
    assert!(seen.0.is_empty());
}

/// What happens, by number of a replica or a namespace.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A replica admits a namespace.
    Admit(usize, usize),
    /// The API server creates what was admitted.
    Create(usize),
    Delete(usize),
    /// The cache of a replica catches up.
    CatchUp(usize),
    /// A replica sees the Tenant.
    See(usize),
    /// The controller writes what the cache of a replica has.
    Reconcile(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_usize, 0..6_usize).prop_map(|(replica, name)| Step::Admit(replica, name)),
        6 => (0..6_usize).prop_map(Step::Create),
        2 => (0..6_usize).prop_map(Step::Delete),
        1 => (0..2_usize).prop_map(Step::CatchUp),
        2 => (0..2_usize).prop_map(Step::See),
        1 => (0..2_usize).prop_map(Step::Reconcile),
        3 => (1..90_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

struct Replica {
    ahead: u64,
    cache: BTreeSet<String>,
    seen: Sightings,
}

impl Replica {
    /// Takes a place as a review does.
    fn take(
        &mut self,
        tenant: &mut Tenant,
        live: &BTreeSet<String>,
        name: &str,
        elapsed: u64,
        begin: Instant,
    ) -> bool {
        let now = begin + seconds(elapsed);
        self.seen.observe(tenant, now);
        let is_over = |entry: &Reservation| self.seen.is_over(tenant, entry, now);
        let clock = later(NOW, seconds(elapsed + self.ahead));
        let by_cache = place(tenant, Members::Cached(&self.cache), name, clock, is_over);
        let place = match by_cache {
            Place::None { .. } => place(tenant, Members::Live(live), name, clock, is_over),
            place => place,
        };
        let Place::Give(status) = place else { return false };
        tenant.status = Some(*status);
        true
    }
}

proptest! {
    /// Two replicas whose clocks are far apart and whose caches are as old as they like.
    #[test]
    fn namespaces_never_exceed_the_quota(steps in steps()) {
        prop_assert_eq!(exceeded(steps), None);
    }
}

#[test]
fn a_leader_whose_cache_is_older_than_the_status_lets_nobody_exceed_the_quota() {
    use Step::{Admit, CatchUp, Create, Reconcile, Wait};
    let listed = [Admit(0, 1), Create(1), Admit(1, 0), Create(0), CatchUp(0), Reconcile(0), Wait(60)];
    let other_leader = [Admit(1, 2), Reconcile(1), Admit(1, 4), Create(4), Create(2)];
    assert_eq!(exceeded(listed.into_iter().chain(other_leader)), None);
}

/// Runs the steps. Returns the namespaces at the first moment at which there are more than the quota.
fn exceeded(steps: impl IntoIterator<Item = Step>) -> Option<BTreeSet<String>> {
    const QUOTA: usize = 3;
    let begin = Instant::now();
    let mut tenant = tenant(Some(3), &[], &[]);
    let (mut live, mut elapsed) = (BTreeSet::new(), 0);
    let mut admitted: HashMap<String, u64> = HashMap::new();
    let replica = |ahead| Replica { ahead, cache: BTreeSet::new(), seen: Sightings::default() };
    let mut replicas = [replica(0), replica(7200)];
    for step in steps {
        match step {
            Step::Admit(at, name) => {
                let name = name.to_string();
                if replicas[at].take(&mut tenant, &live, &name, elapsed, begin) {
                    admitted.insert(name, elapsed);
                }
            }
            Step::Create(name) => {
                // No request takes as long as a place is given.
                let name = name.to_string();
                if admitted.remove(&name).is_some_and(|since| elapsed - since < LASTS.as_secs()) {
                    live.insert(name);
                }
            }
            Step::Delete(name) => drop(live.remove(&name.to_string())),
            Step::CatchUp(at) => replicas[at].cache.clone_from(&live),
            Step::See(at) => replicas[at].seen.observe(&tenant, begin + seconds(elapsed)),
            Step::Reconcile(at) => {
                let cache = &replicas[at].cache;
                let unconfirmed = unconfirmed(&tenant, cache.iter().map(String::as_str));
                let names = cache.iter().chain(unconfirmed.intersection(&live));
                let spaces: Vec<Value> = names.map(|name| json!({ "name": name })).collect();
                let status = tenant.status.as_mut().unwrap();
                status.spaces = serde_json::from_value(spaces.into()).unwrap();
            }
            Step::Wait(for_seconds) => elapsed += for_seconds,
        }
        if live.len() > QUOTA {
            return Some(live);
        }
    }
    None
}
