//! Check of the webhook configurations and admission policies: whether they exist, match this
//! version, and have a `caBundle`.

use anyhow::{Context, Error};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
};
use kube::{Api, Resource, ResourceExt};
use operator_core::{
    Registration,
    kind::Kind,
    manifests::webhooks::{ClientConfig, mutating, policies, validating},
};

use super::Finding;
use crate::{cluster::Cluster, installation::Installation};

const APPLY: &str = "run `kubectl apply --server-side -f deploy/webhooks`";
pub(super) const CA_BUNDLE_ADVICE: &str =
    "the manager writes it if it runs with the permissions in deploy/rbac/certificates.yaml; check its log";

/// Validating or mutating webhook configuration.
trait Configuration: Kind {
    /// Returns the name and client configuration of each webhook.
    fn client_configs(&self) -> Vec<(&str, &WebhookClientConfig)>;
    /// Returns the webhooks without their client configuration.
    fn comparable(&self) -> Option<serde_json::Value>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }

    fn comparable(&self) -> Option<serde_json::Value> {
        without_client_config(&self.webhooks)
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn client_configs(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }

    fn comparable(&self) -> Option<serde_json::Value> {
        without_client_config(&self.webhooks)
    }
}

fn without_client_config<T: serde::Serialize>(webhooks: &T) -> Option<serde_json::Value> {
    let mut webhooks = serde_json::to_value(webhooks).ok()?;
    for webhook in webhooks.as_array_mut()?.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        webhook.remove("clientConfig");
    }
    Some(webhooks)
}

/// Checks the configurations and policies of all controllers.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    if !installation.serves_webhooks() {
        return vec![Finding::ok("webhooks", "disabled: the manager runs with --webhook-bind-address=0")];
    }
    let (mut findings, mut count) = (Vec::new(), 0);
    for controller in installation.controllers() {
        match check_controller(cluster, controller, &installation.namespace).await {
            Ok(found) => findings.extend(found),
            Err(error) => return vec![Finding::unknown("webhooks", &error)],
        }
        count += (controller.webhooks)().len();
    }
    if findings.is_empty() {
        findings.push(Finding::ok("webhooks", format!("all {count} are configured with a caBundle")));
    }
    findings
}

async fn check_controller(
    cluster: &Cluster,
    controller: &Registration,
    namespace: &str,
) -> Result<Vec<Finding>, Error> {
    let client_config = ClientConfig::Service { namespace: namespace.to_owned() };
    let mut findings = Vec::new();
    if let Some(expected) = validating(controller, &client_config) {
        findings.extend(evaluate(&expected, get(cluster, &expected).await?.as_ref()));
    }
    if let Some(expected) = mutating(controller, &client_config) {
        findings.extend(evaluate(&expected, get(cluster, &expected).await?.as_ref()));
    }
    for (policy, binding) in policies(controller, namespace) {
        let (is_policy_missing, is_binding_missing) =
            (get(cluster, &policy).await?.is_none(), get(cluster, &binding).await?.is_none());
        findings.extend(is_policy_missing.then(|| missing(&policy)));
        findings.extend(is_binding_missing.then(|| missing(&binding)));
    }
    Ok(findings)
}

async fn get<K: Kind>(cluster: &Cluster, expected: &K) -> Result<Option<K>, Error> {
    let api: Api<K> = K::api(cluster.client.clone(), None);
    let name = expected.name_any();
    api.get_opt(&name).await.with_context(|| format!("cannot read the {} {name}", K::kind(&())))
}

fn missing<K: Resource<DynamicType = ()>>(expected: &K) -> Finding {
    let what = format!("{} {}", K::kind(&()), expected.name_any());
    Finding::error(&what, "does not exist: its rules are not enforced", APPLY)
}

fn evaluate<C: Configuration>(expected: &C, found: Option<&C>) -> Vec<Finding> {
    let Some(found) = found else { return vec![missing(expected)] };
    let what = format!("{} {}", C::kind(&()), expected.name_any());
    let clients = found.client_configs();
    let without_ca: Vec<_> =
        clients.iter().filter(|(_, client)| !has_ca_bundle(client)).map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    if !without_ca.is_empty() {
        let message =
            format!("has no caBundle for {}: the API server cannot call the webhook", without_ca.join(", "));
        findings.push(Finding::error(&what, message, CA_BUNDLE_ADVICE));
    }
    if expected.comparable() != found.comparable() {
        let version = env!("CARGO_PKG_VERSION");
        let advice = format!("{APPLY}, or use the ensemblectl of the installed version");
        findings.push(Finding::warning(&what, format!("differs from version {version}"), advice));
    }
    findings
}

fn has_ca_bundle(client: &WebhookClientConfig) -> bool {
    client.ca_bundle.as_ref().is_some_and(|ByteString(bundle)| !bundle.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    fn expected() -> ValidatingWebhookConfiguration {
        let controller = manager::CONTROLLERS.iter().find(|controller| controller.name == "tenant").unwrap();
        validating(controller, &ClientConfig::Service { namespace: "a".to_owned() }).unwrap()
    }

    fn with_ca_bundles() -> ValidatingWebhookConfiguration {
        let mut configuration = expected();
        for webhook in configuration.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle = Some(ByteString(b"certificate".to_vec()));
            webhook.client_config.url = Some("https://example.com".to_owned());
            webhook.client_config.service = None;
        }
        configuration
    }

    #[test]
    fn ignores_client_configuration() {
        assert_eq!(evaluate(&expected(), Some(&with_ca_bundles())), []);
    }

    #[test]
    fn reports_each_problem() {
        assert!(evaluate(&expected(), None)[0].message.contains("does not exist"));
        let mut without_ca = with_ca_bundles();
        without_ca.webhooks.as_mut().unwrap()[1].client_config.ca_bundle = None;
        let finding = evaluate(&expected(), Some(&without_ca)).remove(0);
        assert_eq!(
            (finding.state, &*finding.message),
            (
                State::Error,
                "has no caBundle for cordoned-namespaces.tenant.ensemble: the API server cannot call the webhook"
            )
        );
        let mut other = with_ca_bundles();
        other.webhooks.as_mut().unwrap().pop();
        assert_eq!(evaluate(&expected(), Some(&other))[0].state, State::Warning);
    }
}
