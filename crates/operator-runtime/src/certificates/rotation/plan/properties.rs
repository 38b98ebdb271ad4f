//! Property tests: arbitrary changes of the Secret.

use std::time::Duration;

use k8s_openapi::ByteString;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::certificates::{
    rotation::propagation::Propagation,
    store::contents::{AUTHORITIES, AUTHORITY_KEY, CHAIN, KEY},
    testing::{NAME, lifetimes, names, plan_at, time},
};

const KEYS: [&str; 4] = [AUTHORITIES, AUTHORITY_KEY, CHAIN, KEY];

/// Change of the Secret by a user.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Delete,
    Replace(usize, Vec<u8>),
    Truncate(usize, usize),
    Flip(usize, usize),
    AnotherSecret,
    KeyOfAnother(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => Just(Damage::None),
        1 => Just(Damage::Delete),
        1 => (0..4_usize, vec(any::<u8>(), 0..200)).prop_map(|(key, bytes)| Damage::Replace(key, bytes)),
        1 => (0..4_usize, 0..800_usize).prop_map(|(key, length)| Damage::Truncate(key, length)),
        1 => (0..4_usize, 0..800_usize).prop_map(|(key, at)| Damage::Flip(key, at)),
        1 => Just(Damage::AnotherSecret),
        1 => (0..4_usize).prop_map(Damage::KeyOfAnother),
    ]
}

impl Damage {
    fn apply(&self, data: &mut Data, seconds: u64) {
        let another = || plan_at(seconds, &Data::default(), None).contents.data();
        let mut bytes = |key: &usize, change: &dyn Fn(&mut Vec<u8>)| {
            change(&mut data.entry(KEYS[*key].to_owned()).or_default().0);
        };
        match self {
            Self::None => {}
            Self::Delete => data.clear(),
            Self::Replace(key, replacement) => bytes(key, &|bytes| bytes.clone_from(replacement)),
            Self::Truncate(key, length) => bytes(key, &|bytes| bytes.truncate(*length)),
            Self::Flip(key, at) => bytes(key, &|bytes| {
                if let Some(byte) = bytes.get_mut(*at) {
                    *byte ^= 1;
                }
            }),
            Self::AnotherSecret => *data = another(),
            Self::KeyOfAnother(key) => {
                data.insert(KEYS[*key].to_owned(), another().remove(KEYS[*key]).unwrap_or_default());
            }
        }
    }
}

/// Simulated replica.
#[derive(Default)]
struct Replica {
    propagation: Propagation,
    /// End of the time without guarantee. It starts when the served certificate expires, because
    /// the Secret was replaced repeatedly during the last third of the lifetime. The replica then
    /// serves the newest certificate, which clients may not trust yet.
    excused_until: u64,
}

impl Replica {
    /// Synchronizes like the rotator. Returns the bundle.
    fn sync(&mut self, data: &mut Data, seconds: u64) -> Vec<Authority> {
        let uptime = Duration::from_secs(seconds);
        if self.propagation.served().is_some_and(|served| served.issuer(time(seconds)).is_none()) {
            self.excused_until = seconds + lifetimes().propagation().as_secs();
        }
        for _ in 0..4 {
            self.propagation.observe(&Contents::read(data), time(seconds), uptime, lifetimes().propagation());
            let plan = plan_at(seconds, data, self.propagation.served());
            if plan.changes.is_empty() {
                self.propagation.synced(&plan.contents.authorities);
                return plan.contents.authorities;
            }
            data.extend(plan.contents.data());
        }
        panic!("the plan does not converge")
    }

    fn is_trusted_by(&self, bundle: &[Authority], seconds: u64) -> bool {
        let served = self.propagation.served().expect("a synced replica serves a certificate");
        served.serving.issuer(bundle, time(seconds)).is_some() && served.serving.is_valid_for(&names(&[NAME]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_lead_to_valid_secret(
        values in vec(vec(any::<u8>(), 0..300), 4),
        seconds in 0..20_000_u64,
    ) {
        let mut data: Data =
            KEYS.into_iter().zip(values).map(|(key, bytes)| (key.to_owned(), ByteString(bytes))).collect();
        let mut replica = Replica::default();
        let bundle = replica.sync(&mut data, seconds);
        prop_assert!(replica.is_trusted_by(&bundle, seconds));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two replicas synchronize in turn, the second one not in every step, while the Secret is
    /// damaged. The steps are slow enough for a bundle to contain recently served certificates.
    /// An API server can have any bundle that a replica wrote within the propagation delay.
    #[test]
    fn served_certificate_is_always_trusted_by_stale_clients(
        steps in vec((damage(), 60..450_u64, any::<bool>()), 1..14),
    ) {
        let (mut data, mut now) = (Data::default(), 0);
        let mut replicas = [Replica::default(), Replica::default()];
        for replica in &mut replicas {
            replica.sync(&mut data, now);
        }
        let mut bundles = vec![(now, Contents::read(&data).authorities)];
        let mut missed = false;
        for (damage, passes, misses) in steps {
            now += passes;
            // The scheduled check of a replica comes before the damage.
            let bundle = replicas[0].sync(&mut data, now);
            bundles.push((now, bundle));
            damage.apply(&mut data, now);
            let [first, second] = &mut replicas;
            bundles.push((now, first.sync(&mut data, now)));
            missed = misses && !missed;
            if !missed {
                bundles.push((now, second.sync(&mut data, now)));
                bundles.push((now, first.sync(&mut data, now)));
            }
            let latest = bundles.len() - 1;
            let oldest = now.saturating_sub(lifetimes().propagation().as_secs());
            for (index, (since, bundle)) in bundles.iter().enumerate() {
                let until = bundles.get(index + 1).map_or(now, |(until, _)| *until);
                if until > oldest || index == latest {
                    for (number, replica) in replicas.iter().enumerate() {
                        prop_assert!(
                            replica.is_trusted_by(bundle, now) || now <= replica.excused_until,
                            "replica {number} at {now} is not trusted by the bundle since {since}",
                        );
                    }
                }
            }
        }
    }
}
