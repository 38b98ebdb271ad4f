//! Check of the manager's serving certificate.
//!
//! The Secret is read only if you have the permission, and only its public certificate is used.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use operator_core::error::status;
use operator_runtime::{
    certificates::{CHAIN, SECRET, lifetime},
    cleanup::manager_selector,
};

use super::Finding;
use crate::{age::human_duration, cluster::Cluster, installation::Installation};

const WHAT: &str = "certificate";

/// Checks the certificate. Returns `None` if the manager has no HTTPS server.
pub(super) async fn finding(cluster: &Cluster, installation: &Installation) -> Option<Finding> {
    if !installation.needs_certificate() {
        return None;
    }
    let namespace = &installation.namespace;
    let read = Api::<Secret>::namespaced(cluster.client.clone(), namespace).get_opt(SECRET).await;
    Some(match read {
        Ok(secret) => evaluate(namespace, secret.as_ref(), cluster.now()),
        Err(error) if status(&error).is_some_and(kube::core::Status::is_forbidden) => Finding::warning(
            WHAT,
            format!("you have no permission to read the Secret {namespace}/{SECRET}: the expiry is unknown"),
            "see the metric of its expiry in docs/operations/certificates.md",
        ),
        Err(error) => {
            let context = format!("cannot read the Secret {namespace}/{SECRET}");
            Finding::unknown(WHAT, &anyhow::Error::new(error).context(context))
        }
    })
}

fn evaluate(namespace: &str, secret: Option<&Secret>, now: Timestamp) -> Finding {
    let advice = format!(
        "the manager issues and rotates it; check its log with `kubectl --namespace {namespace} logs --selector {}`",
        manager_selector()
    );
    let Some(secret) = secret else {
        return Finding::error(
            WHAT,
            format!("the Secret {namespace}/{SECRET} does not exist: webhooks cannot be served"),
            advice,
        );
    };
    let chain = secret.data.as_ref().and_then(|data| data.get(CHAIN));
    let Some((from, until)) = chain.and_then(|ByteString(pem)| lifetime(pem)) else {
        return Finding::error(
            WHAT,
            format!("the Secret {namespace}/{SECRET} has no valid certificate"),
            advice,
        );
    };
    let (left, life) = (until.duration_since(now), until.duration_since(from));
    if left <= SignedDuration::ZERO {
        return Finding::error(WHAT, format!("expired {} ago", human_duration(-left)), advice);
    }
    let message = format!("valid for {}, until {until}", human_duration(left));
    // The manager rotates it after two thirds of its lifetime.
    if left < life / 4 {
        return Finding::warning(WHAT, format!("{message}: its rotation is overdue"), advice);
    }
    Finding::ok(WHAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    /// Returns a certificate that is valid in 2026.
    fn certificate() -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["ensemble".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem().into_bytes()
    }

    fn finding(now: &str) -> (State, String) {
        let data = [(CHAIN.to_owned(), ByteString(certificate()))];
        let secret = Secret { data: Some(data.into()), ..Secret::default() };
        let finding = evaluate("a", Some(&secret), now.parse().unwrap());
        (finding.state, finding.message)
    }

    #[test]
    fn reports_overdue_rotation_and_expiry() {
        assert_eq!(finding("2026-02-01T00:00:00Z").0, State::Ok);
        let (state, message) = finding("2026-12-01T00:00:00Z");
        assert!(state == State::Warning && message.contains("valid for 31d"), "{message}");
        let (state, message) = finding("2027-01-03T00:00:00Z");
        assert!(state == State::Error && message.starts_with("expired 2d ago"), "{message}");
    }

    #[test]
    fn reports_missing_certificate() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(evaluate("a", None, now).state, State::Error);
        assert_eq!(evaluate("a", Some(&Secret::default()), now).state, State::Error);
    }
}
