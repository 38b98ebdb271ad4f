//! Tests of plans for valid, missing, expired, and invalid Secrets.

use k8s_openapi::ByteString;

use super::*;
use crate::certificates::{
    store::contents::{AUTHORITIES, AUTHORITY_KEY, CHAIN, KEY},
    testing::{NAME, lifetimes, names, plan_at, time},
};

/// Returns the contents that the first replica creates at second 0.
fn fresh() -> Contents {
    let plan = plan_at(0, &Data::default(), None);
    assert_eq!(plan.changes, [Change::FirstAuthority, Change::FirstServing]);
    plan.contents
}

/// Returns the state of a process that serves the certificate of the Secret.
fn serving(contents: &Contents) -> Served {
    Served { serving: contents.serving.clone().unwrap(), authorities: contents.authorities.clone() }
}

fn with(contents: &Contents, key: &str, bytes: &[u8]) -> Data {
    let mut data = contents.data();
    data.insert(key.to_owned(), ByteString(bytes.to_vec()));
    data
}

fn is_valid(contents: &Contents, seconds: u64) -> bool {
    contents.serving.as_ref().is_ok_and(|serving| {
        serving.issuer(&contents.authorities, time(seconds)).is_some()
            && serving.is_valid_for(&names(&[NAME]))
    })
}

#[test]
fn keeps_valid_secret() {
    let fresh = fresh();
    assert!(is_valid(&fresh, 0));
    for seconds in [0, 1, 2399] {
        assert_eq!(plan_at(seconds, &fresh.data(), None).changes, []);
        assert_eq!(plan_at(seconds, &fresh.data(), Some(&serving(&fresh))).changes, []);
    }
}

#[test]
fn renews_due_serving_certificate_with_same_authority() {
    let fresh = fresh();
    let plan = plan_at(2400, &fresh.data(), Some(&serving(&fresh)));
    assert_eq!(plan.changes, [Change::ServingDue]);
    assert_eq!(plan.contents.authorities, fresh.authorities);
    assert!(is_valid(&plan.contents, 2400 + 3599));
}

#[test]
fn new_authority_is_trusted_before_it_signs_and_old_one_until_it_expires() {
    let mut contents = fresh();
    for seconds in [2400, 4800] {
        contents = plan_at(seconds, &contents.data(), None).contents;
    }
    let due = plan_at(7200, &contents.data(), None);
    assert_eq!(due.changes, [Change::AuthorityDue]);
    assert_eq!(due.contents.authorities.len(), 2);
    assert_eq!(due.contents.authorities[1], contents.authorities[0]);
    assert_eq!(due.contents.serving, contents.serving);

    assert_eq!(plan_at(7499, &due.contents.data(), None).changes, []);
    let switched = plan_at(7500, &due.contents.data(), None);
    assert_eq!(switched.changes, [Change::AuthoritySwitched]);
    let newest = &switched.contents.authorities[0];
    assert!(switched.contents.serving.as_ref().unwrap().is_trusted_by(newest, time(7500)));

    let end = 3 * 3600;
    assert_eq!(plan_at(end - 1, &switched.contents.data(), None).changes, [Change::ServingDue]);
    let pruned = plan_at(end, &switched.contents.data(), None);
    assert_eq!(pruned.changes, [Change::BundlePruned, Change::ServingDue]);
    assert_eq!(pruned.contents.authorities.len(), 1);
}

#[test]
fn due_serving_certificate_waits_for_new_authority() {
    let contents = fresh();
    // No check for a long time, so that the certificate and its authority are due almost together.
    let renewed = plan_at(4790, &contents.data(), None).contents;
    let due = plan_at(7200, &renewed.data(), None);
    assert_eq!(due.changes, [Change::AuthorityDue]);
    assert!(is_valid(&due.contents, 7200 + 300));
    assert_eq!(plan_at(7500, &due.contents.data(), None).changes, [Change::AuthoritySwitched]);
}

#[test]
fn restores_deleted_secret_from_served_certificate_with_new_authority() {
    let fresh = fresh();
    let served = serving(&fresh);
    for damaged in [Data::default(), with(&Contents::read(&Data::default()), AUTHORITIES, b"invalid")] {
        let plan = plan_at(100, &damaged, Some(&served));
        assert_eq!(plan.changes, [Change::BundleRestored, Change::ServingRestored, Change::AuthorityKeyLost]);
        assert_eq!(plan.contents.serving.as_ref(), Ok(&served.serving));
        assert_eq!(plan.contents.authorities[1], fresh.authorities[0]);
        assert_eq!(plan_at(399, &plan.contents.data(), Some(&served)).changes, []);
        let later = plan_at(400, &plan.contents.data(), Some(&served));
        assert_eq!(later.changes, [Change::AuthoritySwitched]);
    }
}

#[test]
fn recreates_deleted_secret_if_nothing_is_served() {
    let plan = plan_at(100, &Data::default(), None);
    assert_eq!(plan.changes, [Change::FirstAuthority, Change::FirstServing]);
}

#[test]
fn repairs_invalid_key_of_secret() {
    let fresh = fresh();
    let served = serving(&fresh);
    for (key, with_served, without) in [
        (AUTHORITIES, vec![Change::BundleRestored], vec![Change::FirstAuthority, Change::FirstServing]),
        (AUTHORITY_KEY, vec![Change::AuthorityKeyLost], vec![Change::AuthorityKeyLost]),
        (CHAIN, vec![Change::ServingRestored], vec![Change::FirstServing]),
        (KEY, vec![Change::ServingRestored], vec![Change::FirstServing]),
    ] {
        for invalid in [
            &b"invalid"[..],
            b"",
            b"\xff\x00",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let damaged = with(&fresh, key, invalid);
            let repaired = plan_at(10, &damaged, Some(&served));
            assert_eq!(repaired.changes, with_served, "{key}");
            assert!(
                is_valid(&repaired.contents, 10) && repaired.contents.serving.as_ref() == Ok(&served.serving)
            );
            let recreated = plan_at(10, &damaged, None);
            assert_eq!(recreated.changes, without, "{key}");
            assert!(is_valid(&recreated.contents, 10));
        }
    }
}

#[test]
fn replaces_key_of_another_certificate() {
    let (fresh, other) = (fresh(), fresh());
    let key = other.data().remove(KEY).unwrap();
    assert_eq!(plan_at(10, &with(&fresh, KEY, &key.0), None).changes, [Change::FirstServing]);
    let key = other.data().remove(AUTHORITY_KEY).unwrap();
    assert_eq!(plan_at(10, &with(&fresh, AUTHORITY_KEY, &key.0), None).changes, [Change::AuthorityKeyLost]);
}

#[test]
fn adopts_secret_of_another_authority_and_keeps_served_one_trusted() {
    let (served, stored) = (serving(&fresh()), fresh());
    let plan = plan_at(10, &stored.data(), Some(&served));
    assert_eq!(plan.changes, [Change::BundleRestored]);
    assert_eq!(plan.contents.authorities, [stored.authorities[0].clone(), served.authorities[0].clone()]);
    assert_eq!(plan.contents.serving, stored.serving);
}

#[test]
fn replaces_certificate_of_authority_outside_bundle() {
    let (fresh, other) = (fresh(), fresh());
    let mut mixed = fresh.data();
    mixed.extend([CHAIN, KEY].map(|key| (key.to_owned(), other.data()[key].clone())));
    let plan = plan_at(10, &mixed, None);
    assert_eq!(plan.changes, [Change::FirstServing]);
    assert!(is_valid(&plan.contents, 10));
}

#[test]
fn replaces_expired_secret_even_if_served() {
    let fresh = fresh();
    let late = 4 * 3600;
    let plan = plan_at(late, &fresh.data(), Some(&serving(&fresh)));
    assert_eq!(plan.changes, [Change::BundlePruned, Change::FirstAuthority, Change::FirstServing]);
    assert!(is_valid(&plan.contents, late));
}

#[test]
fn replaces_certificate_that_expired_while_no_replica_ran() {
    let plan = plan_at(3600, &fresh().data(), None);
    assert_eq!(plan.changes, [Change::FirstServing]);
}

#[test]
fn adds_missing_name_and_keeps_others_until_renewal() {
    let fresh = fresh();
    let wanted = names(&["127.0.0.1"]);
    let inputs =
        |seconds| Inputs { now: time(seconds), lifetimes: lifetimes(), names: &wanted, served: None };
    let added = plan(&fresh.data(), inputs(10)).unwrap();
    assert_eq!(added.changes, [Change::ServingNameMissing]);
    let serving = added.contents.serving.clone().unwrap();
    assert_eq!(serving.names(), names(&["127.0.0.1", NAME]));
    assert_eq!(
        plan_at(10, &added.contents.data(), None).changes,
        [],
        "the plan of the other manager must not change the Secret"
    );
    let renewed = plan(&added.contents.data(), inputs(2410)).unwrap();
    assert_eq!(renewed.contents.serving.unwrap().names(), wanted);
}

#[test]
fn bundle_stays_bounded_after_repeated_deletion() {
    let served = serving(&fresh());
    let mut known = served.clone();
    for seconds in 0..20 {
        let plan = plan_at(seconds, &Data::default(), Some(&known));
        known.authorities = plan.contents.authorities;
        assert!(known.authorities.len() <= MAX_AUTHORITIES);
        assert!(known.authorities.contains(&served.authorities[0]));
    }
}

#[test]
fn next_check_is_when_plan_changes() {
    let fresh = fresh();
    let mut now = 0;
    let mut contents = fresh;
    let mut changed = Vec::new();
    for _ in 0..30 {
        let Some(next) = next_check(&contents, time(now), lifetimes()) else {
            panic!("every certificate expires")
        };
        let before = u64::try_from(next.as_second() - time(0).as_second()).unwrap();
        assert_eq!(
            plan_at(before - 1, &contents.data(), None).changes,
            [],
            "the plan must not change before {before}"
        );
        now = before;
        let plan = plan_at(now, &contents.data(), None);
        changed.extend(plan.changes);
        contents = plan.contents;
    }
    assert!(changed.contains(&Change::ServingDue) && changed.contains(&Change::AuthoritySwitched));
    assert!(
        !changed.contains(&Change::FirstServing),
        "certificates must be replaced before they expire: {changed:?}"
    );
}

#[test]
fn debug_output_hides_keys() {
    let fresh = fresh();
    let output = format!("{:?} {:?}", serving(&fresh), plan_at(0, &fresh.data(), None));
    assert!(!output.contains("PRIVATE") && output.len() < 2000, "{output}");
}
