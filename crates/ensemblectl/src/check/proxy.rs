//! Check of the proxy of Tenants, if it is installed.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::Api;
use operator_core::error::status;

use super::{
    Finding, SecretAccess,
    api_server::minor,
    certificate::{Validity, validity},
    deployment::availability,
};
use crate::{cluster::Cluster, installation::Installation};

const WHAT: &str = "proxy";
/// Name of the Deployment.
const NAME: &str = "ensemble-proxy";
/// Selects its Pods.
const SELECTOR: &str = "app.kubernetes.io/component=proxy";
/// First minor version of Kubernetes with constrained impersonation.
const CLIENT_CERTIFICATES_SINCE: u32 = 36;
/// Time before the end of a certificate in which it should have been replaced.
const RENEWAL: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Checks the Deployment of the proxy, its flags, and its certificate. Returns nothing if it is not installed.
pub(super) async fn findings(
    cluster: &Cluster,
    installation: &Installation,
    secrets: SecretAccess,
) -> Vec<Finding> {
    let namespace = &installation.namespace;
    let read = Api::<Deployment>::namespaced(cluster.client.clone(), namespace).get_opt(NAME).await;
    let deployment = match read {
        Ok(Some(deployment)) => deployment,
        Ok(None) => return Vec::new(),
        // Without the right to read it, nobody says that it is installed.
        Err(error) if status(&error).is_some_and(kube::core::Status::is_forbidden) => return Vec::new(),
        Err(error) => {
            let context = format!("cannot read the Deployment {namespace}/{NAME}");
            return vec![Finding::unknown(WHAT, &anyhow::Error::new(error).context(context))];
        }
    };
    let mut findings =
        vec![availability(WHAT, &deployment, SELECTOR, "owners of Tenants cannot connect to it")];
    findings.extend(client_certificates(&deployment, minor(&cluster.version.minor)));
    if secrets == SecretAccess::Allowed
        && let Some(secret) = tls_secret(&deployment)
    {
        let read = Api::<Secret>::namespaced(cluster.client.clone(), namespace).get_opt(&secret).await;
        // Who may not read it sees the Pods that wait for it.
        if let Ok(found) = read {
            findings.push(certificate(&format!("{namespace}/{secret}"), found.as_ref(), cluster.now()));
        }
    }
    findings
}

/// Reports client certificates on an API server that refuses to impersonate their users.
fn client_certificates(deployment: &Deployment, minor: Option<u32>) -> Option<Finding> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let container = pod.containers.first()?;
    let is_flag =
        |arg: &String| matches!(arg.as_str(), "--client-certificates" | "--client-certificates=true");
    let mut variables = container.env.iter().flatten();
    let is_enabled = container.args.iter().flatten().any(is_flag)
        || variables.any(|variable| {
            variable.name == "ENSEMBLE_PROXY_CLIENT_CERTIFICATES" && variable.value.as_deref() == Some("true")
        });
    (is_enabled && minor.is_some_and(|minor| minor < CLIENT_CERTIFICATES_SINCE)).then(|| {
        let message = format!(
            "client certificates need constrained impersonation of Kubernetes 1.{CLIENT_CERTIFICATES_SINCE}: \
             all requests with one are refused"
        );
        Finding::error(WHAT, message, "disable --client-certificates, or upgrade the cluster")
    })
}

/// Returns the name of the Secret with the serving certificate.
fn tls_secret(deployment: &Deployment) -> Option<String> {
    let volumes = deployment.spec.as_ref()?.template.spec.as_ref()?.volumes.as_ref()?;
    let volume = volumes.iter().find(|volume| volume.name == "tls")?;
    volume.secret.as_ref()?.secret_name.clone()
}

/// Checks the serving certificate, which users issue.
fn certificate(name: &str, secret: Option<&Secret>, now: Timestamp) -> Finding {
    let advice = "issue it with cert-manager or by hand: docs/tenants/proxy.md has the commands";
    let Validity { left, message, .. } = match validity(name, secret, now) {
        Ok(validity) => validity,
        Err(reason) => return Finding::error(WHAT, format!("{reason}: users cannot connect"), advice),
    };
    let message = format!("its certificate is {message}");
    if left < RENEWAL { Finding::warning(WHAT, message, advice) } else { Finding::ok(WHAT, message) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use operator_runtime::certificates::CHAIN;
    use serde_json::{Value, json};

    use super::*;
    use crate::check::finding::State;

    fn deployment(container: Value) -> Deployment {
        let pod = json!({
            "containers": [container],
            "volumes": [{"name": "tls", "secret": {"secretName": "mine"}}],
        });
        serde_json::from_value(json!({"spec": {"selector": {}, "template": {"spec": pod}}})).unwrap()
    }

    #[test]
    fn client_certificates_need_a_new_cluster() {
        let is_reported =
            |container: Value, minor| client_certificates(&deployment(container), minor).is_some();
        let flag = json!({"name": "proxy", "args": ["--client-certificates"]});
        let variable = json!([{"name": "ENSEMBLE_PROXY_CLIENT_CERTIFICATES", "value": "true"}]);
        let variable = json!({"name": "proxy", "env": variable});
        assert!(is_reported(flag.clone(), Some(35)) && is_reported(variable, Some(30)));
        assert!(!is_reported(flag.clone(), Some(36)) && !is_reported(flag, None));
        assert!(!is_reported(json!({"name": "proxy"}), Some(30)));
        assert_eq!(tls_secret(&deployment(json!({"name": "proxy"}))).as_deref(), Some("mine"));
    }

    #[test]
    fn certificate_is_reported_before_it_ends() {
        let mut params = rcgen::CertificateParams::new(["proxy".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let pem = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().into_bytes();
        let secret = Secret { data: Some([(CHAIN.to_owned(), ByteString(pem))].into()), ..Secret::default() };
        let state = |now: &str| certificate("a/b", Some(&secret), now.parse().unwrap()).state;
        assert_eq!(state("2026-12-01T00:00:00Z"), State::Ok);
        assert_eq!(state("2026-12-30T00:00:00Z"), State::Warning);
        assert_eq!(state("2027-01-03T00:00:00Z"), State::Error);
        assert_eq!(certificate("a/b", None, Timestamp::UNIX_EPOCH).state, State::Error);
    }
}
