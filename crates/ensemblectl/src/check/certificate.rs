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
    match validity(&format!("{namespace}/{SECRET}"), secret, now) {
        Err(reason) => Finding::error(WHAT, format!("{reason}: webhooks cannot be served"), advice),
        // The manager rotates it after two thirds of its lifetime.
        Ok(Validity { left, lifetime, message }) if left < lifetime / 4 => {
            Finding::warning(WHAT, format!("{message}: its rotation is overdue"), advice)
        }
        Ok(validity) => Finding::ok(WHAT, validity.message),
    }
}

/// How long a certificate is still valid.
pub(super) struct Validity {
    pub(super) left: SignedDuration,
    lifetime: SignedDuration,
    pub(super) message: String,
}

/// Returns how long the serving certificate in a Secret is still valid, or why it cannot be used.
pub(super) fn validity(name: &str, secret: Option<&Secret>, now: Timestamp) -> Result<Validity, String> {
    let secret = secret.ok_or_else(|| format!("the Secret {name} does not exist"))?;
    let chain = secret.data.as_ref().and_then(|data| data.get(CHAIN));
    let (from, until) = chain
        .and_then(|ByteString(pem)| lifetime(pem))
        .ok_or_else(|| format!("the Secret {name} has no valid certificate"))?;
    let left = until.duration_since(now);
    if left <= SignedDuration::ZERO {
        return Err(format!("the certificate expired {} ago", human_duration(-left)));
    }
    let message = format!("valid for {}, until {until}", human_duration(left));
    Ok(Validity { left, lifetime: until.duration_since(from), message })
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
        assert!(state == State::Error && message.starts_with("the certificate expired 2d ago"), "{message}");
    }

    #[test]
    fn reports_missing_certificate() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(evaluate("a", None, now).state, State::Error);
        assert_eq!(evaluate("a", Some(&Secret::default()), now).state, State::Error);
    }
}
