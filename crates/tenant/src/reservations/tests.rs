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

/// Decides about namespace `c`, with the entries of the namespaces in `expired` expired.
fn decided(
    tenant: &Tenant,
    members: MemberNames<'_>,
    expired: &[&str],
) -> Result<Vec<(String, i64)>, (usize, usize)> {
    match decide(tenant, members, "c", NOW, |entry| expired.contains(&entry.namespace.as_str())) {
        Decision::Reserve(status) => {
            let entries = status.reservations.iter();
            Ok(entries.map(|one| (one.namespace.clone(), one.until.0.as_second())).collect())
        }
        Decision::QuotaExceeded { used, quota } => Err((used, quota)),
        Decision::Unlimited => panic!("there is a quota"),
    }
}

fn entries(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(name, until)| ((*name).to_owned(), *until)).collect()
}

#[test]
fn tenant_without_quota_needs_no_reservation() {
    let members = set(&["a", "b"]);
    let decision = decide(&tenant(None, &[], &[]), MemberNames::Cached(&members), "c", NOW, |_| false);
    assert_eq!(decision, Decision::Unlimited);
}

#[test]
fn reservation_is_valid_for_a_minute_and_keeps_the_rest_of_the_status() {
    let (oil, members) = (tenant(Some(3), &[], &[]), set(&["a", "b"]));
    let members = MemberNames::Cached(&members);
    let Decision::Reserve(status) = decide(&oil, members, "c", NOW, |_| false) else { panic!() };
    assert_eq!(status.size, 2);
    assert_eq!(decided(&oil, members, &[]), Ok(entries(&[("c", 60)])));
}

#[test]
fn members_and_reservations_count_once_by_name() {
    let cached =
        |names: &[&str], tenant: &Tenant| decided(tenant, MemberNames::Cached(&set(names)), &[]).map(drop);
    assert_eq!(cached(&["a", "b"], &tenant(Some(2), &[], &[])), Err((2, 2)));
    assert_eq!(cached(&["a"], &tenant(Some(2), &[], &[("a", 20), ("b", 20)])), Err((2, 2)));
    assert_eq!(cached(&["a"], &tenant(Some(2), &[], &[("a", 20)])), Ok(()));
    assert_eq!(cached(&["a", "b"], &tenant(Some(1), &[], &[])), Err((2, 1)));
    assert_eq!(cached(&["a", "b", "c"], &tenant(Some(1), &[], &[])), Err((2, 1)));
}

/// A cache can be more than a minute behind.
#[test]
fn namespaces_in_the_status_count_in_addition_to_the_cache() {
    let oil = tenant(Some(2), &["a", "b"], &[]);
    assert_eq!(decided(&oil, MemberNames::Cached(&set(&[])), &[]), Err((2, 2)));
    // The namespace no longer exists, but the status still lists it.
    assert_eq!(decided(&oil, MemberNames::Live(&set(&["a"])), &[]), Ok(entries(&[("c", 60)])));
}

#[test]
fn expired_reservation_counts_until_the_api_server_is_consulted() {
    let oil = tenant(Some(2), &[], &[("a", 20), ("b", 20)]);
    let expired = ["a"];
    assert_eq!(decided(&oil, MemberNames::Cached(&set(&[])), &expired), Err((2, 2)));
    assert_eq!(decided(&oil, MemberNames::Live(&set(&["a"])), &expired), Err((2, 2)));
    assert_eq!(decided(&oil, MemberNames::Live(&set(&[])), &expired), Ok(entries(&[("b", 20), ("c", 60)])));
    // It is removed once the status lists the namespace.
    let listed = tenant(Some(3), &["a"], &[("a", 20), ("b", 20)]);
    let expected = Ok(entries(&[("b", 20), ("c", 60)]));
    assert_eq!(decided(&listed, MemberNames::Cached(&set(&[])), &["a", "b"]), expected);
    assert_eq!(decided(&listed, MemberNames::Live(&set(&["a", "b"])), &["a", "b"]), expected);
}

#[test]
fn repeated_reservation_replaces_the_entry_and_has_a_later_timestamp() {
    for (before, after) in [(10, 60), (60, 61), (500, 501)] {
        let oil = tenant(Some(1), &[], &[("c", before)]);
        assert_eq!(decided(&oil, MemberNames::Cached(&set(&[])), &["c"]), Ok(entries(&[("c", after)])));
    }
}

#[test]
fn reservation_expires_by_the_time_since_it_was_first_observed() {
    let (mut ages, begin) = (ReservationAges::default(), Instant::now());
    // The clock of the writer is an hour behind, or ahead.
    for until in [0, 3600] {
        let oil = tenant(Some(1), &[], &[("a", until)]);
        let entry = &oil.status.as_ref().unwrap().reservations[0];
        assert!(!ages.is_expired(&oil, entry, begin + seconds(999)), "not observed yet");
        for at in [0, 30, 59] {
            ages.observe(&oil, begin + seconds(at));
            assert!(!ages.is_expired(&oil, entry, begin + seconds(at)));
        }
        assert!(ages.is_expired(&oil, entry, begin + seconds(60)));
    }
    assert_eq!(ages.0["1"].len(), 1, "entries that the status no longer has are dropped");
    ages.observe(&tenant(Some(1), &[], &[]), begin);
    assert!(ages.0.is_empty());
}

/// Step of a simulation. Numbers identify a replica or a namespace.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A replica admits a namespace.
    Admit(usize, usize),
    /// The API server creates an admitted namespace.
    Create(usize),
    Delete(usize),
    /// The cache of a replica becomes current.
    SyncCache(usize),
    /// A replica observes the Tenant.
    Observe(usize),
    /// The controller writes the namespaces in the cache of a replica to the status.
    Reconcile(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_usize, 0..6_usize).prop_map(|(replica, name)| Step::Admit(replica, name)),
        6 => (0..6_usize).prop_map(Step::Create),
        2 => (0..6_usize).prop_map(Step::Delete),
        1 => (0..2_usize).prop_map(Step::SyncCache),
        2 => (0..2_usize).prop_map(Step::Observe),
        1 => (0..2_usize).prop_map(Step::Reconcile),
        3 => (1..90_u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..80)
}

struct Replica {
    clock_offset: u64,
    cache: BTreeSet<String>,
    ages: ReservationAges,
}

impl Replica {
    /// Reserves as an admission review does. Returns whether the namespace is admitted.
    fn reserve(
        &mut self,
        tenant: &mut Tenant,
        live: &BTreeSet<String>,
        name: &str,
        elapsed: u64,
        begin: Instant,
    ) -> bool {
        let now = begin + seconds(elapsed);
        self.ages.observe(tenant, now);
        let is_expired = |entry: &Reservation| self.ages.is_expired(tenant, entry, now);
        let clock = later(NOW, seconds(elapsed + self.clock_offset));
        let cached = decide(tenant, MemberNames::Cached(&self.cache), name, clock, is_expired);
        let decision = match cached {
            Decision::QuotaExceeded { .. } => {
                decide(tenant, MemberNames::Live(live), name, clock, is_expired)
            }
            decision => decision,
        };
        let Decision::Reserve(status) = decision else { return false };
        tenant.status = Some(*status);
        true
    }
}

proptest! {
    /// Two replicas with different clocks and arbitrarily stale caches.
    #[test]
    fn namespaces_never_exceed_the_quota(steps in steps()) {
        prop_assert_eq!(exceeded(steps), None);
    }
}

#[test]
fn stale_cache_of_a_new_leader_does_not_exceed_the_quota() {
    use Step::{Admit, Create, Reconcile, SyncCache, Wait};
    let listed = [Admit(0, 1), Create(1), Admit(1, 0), Create(0), SyncCache(0), Reconcile(0), Wait(60)];
    let other_leader = [Admit(1, 2), Reconcile(1), Admit(1, 4), Create(4), Create(2)];
    assert_eq!(exceeded(listed.into_iter().chain(other_leader)), None);
}

/// Runs the steps. Returns the namespaces as soon as there are more than the quota.
fn exceeded(steps: impl IntoIterator<Item = Step>) -> Option<BTreeSet<String>> {
    const QUOTA: usize = 3;
    let begin = Instant::now();
    let mut tenant = tenant(Some(3), &[], &[]);
    let (mut live, mut elapsed) = (BTreeSet::new(), 0);
    let mut admitted: HashMap<String, u64> = HashMap::new();
    let replica =
        |clock_offset| Replica { clock_offset, cache: BTreeSet::new(), ages: ReservationAges::default() };
    let mut replicas = [replica(0), replica(7200)];
    for step in steps {
        match step {
            Step::Admit(at, name) => {
                let name = name.to_string();
                if replicas[at].reserve(&mut tenant, &live, &name, elapsed, begin) {
                    admitted.insert(name, elapsed);
                }
            }
            Step::Create(name) => {
                // A request never takes longer than a reservation is valid.
                let name = name.to_string();
                if admitted.remove(&name).is_some_and(|since| elapsed - since < RESERVATION_TTL.as_secs()) {
                    live.insert(name);
                }
            }
            Step::Delete(name) => drop(live.remove(&name.to_string())),
            Step::SyncCache(at) => replicas[at].cache.clone_from(&live),
            Step::Observe(at) => replicas[at].ages.observe(&tenant, begin + seconds(elapsed)),
            Step::Reconcile(at) => {
                let cache = &replicas[at].cache;
                let missing = missing_from_cache(&tenant, cache.iter().map(String::as_str));
                let names = cache.iter().chain(missing.intersection(&live));
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
