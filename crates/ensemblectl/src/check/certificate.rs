//! The certificate that the manager's servers show. Its Secret is read only if the person who asks may do so; nothing
//! of it but the public certificate is looked at.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use operator_core::error::status;
use operator_runtime::certificates::{CHAIN, SECRET, lifetime};

use super::Finding;
use crate::{age::words, connect::Cluster, installation::Installation};

const WHAT: &str = "certificate";

/// Nothing where no server of the manager shows one.
pub(super) async fn finding(cluster: &Cluster, installation: &Installation) -> Option<Finding> {
    if !installation.shows_certificate() {
        return None;
    }
    let namespace = &installation.namespace;
    let read = Api::<Secret>::namespaced(cluster.client.clone(), namespace).get_opt(SECRET).await;
    Some(match read {
        Ok(secret) => judge(namespace, secret.as_ref(), cluster.now()),
        Err(error) if status(&error).is_some_and(kube::core::Status::is_forbidden) => Finding::warning(
            WHAT,
            format!(
                "the Secret {namespace}/{SECRET} cannot be read with your rights, so its expiry is not known"
            ),
            "the metric of its expiry tells it, too: docs/operations/certificates.md",
        ),
        Err(error) => {
            let error =
                Err::<(), _>(error).with_context(|| format!("cannot read the Secret {namespace}/{SECRET}"));
            Finding::unknown(WHAT, &error.err()?)
        }
    })
}

fn judge(namespace: &str, secret: Option<&Secret>, now: Timestamp) -> Finding {
    let log = format!(
        "the manager makes and replaces it: its log says what it lacks (kubectl --namespace {namespace} logs)"
    );
    let Some(secret) = secret else {
        return Finding::error(
            WHAT,
            format!("there is no Secret {namespace}/{SECRET}: webhooks cannot be served"),
            log,
        );
    };
    let chain = secret.data.as_ref().and_then(|data| data.get(CHAIN));
    let Some((from, until)) = chain.and_then(|ByteString(pem)| lifetime(pem)) else {
        return Finding::error(
            WHAT,
            format!("the Secret {namespace}/{SECRET} holds none that can be read"),
            log,
        );
    };
    let (left, life) = (until.duration_since(now), until.duration_since(from));
    if left <= SignedDuration::ZERO {
        return Finding::error(WHAT, format!("expired {} ago", words(-left)), log);
    }
    let message = format!("valid for another {}, until {until}", words(left));
    // It should have been replaced at two thirds of its life.
    if left < life / 4 {
        return Finding::warning(WHAT, format!("{message}: it should have been replaced by now"), log);
    }
    Finding::ok(WHAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    /// A certificate that is valid for the whole of 2026.
    fn certificate() -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["ensemble".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem().into_bytes()
    }

    fn judged(now: &str) -> (State, String) {
        let data = [(CHAIN.to_owned(), ByteString(certificate()))];
        let secret = Secret { data: Some(data.into()), ..Secret::default() };
        let finding = judge("a", Some(&secret), now.parse().unwrap());
        (finding.state, finding.message)
    }

    #[test]
    fn a_certificate_is_judged_by_what_is_left_of_its_life() {
        assert_eq!(judged("2026-02-01T00:00:00Z").0, State::Ok);
        let (state, says) = judged("2026-12-01T00:00:00Z");
        assert!(state == State::Warning && says.contains("another 31d"), "{says}");
        let (state, says) = judged("2027-01-03T00:00:00Z");
        assert!(state == State::Error && says.starts_with("expired 2d ago"), "{says}");
    }

    #[test]
    fn a_secret_without_one_is_wrong() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(judge("a", None, now).state, State::Error);
        assert_eq!(judge("a", Some(&Secret::default()), now).state, State::Error);
    }
}
