//! What tells the API server of our webhooks: there, as this version has it, and with whom to trust.

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
    admission::configuration::{ClientConfig, mutating, policies, validating},
    kind::Kind,
};

use super::Finding;
use crate::{connect::Cluster, installation::Installation};

const APPLY: &str = "kubectl apply --server-side -f deploy/webhooks";
pub(super) const WHO_WRITES_CA_BUNDLE: &str = "the manager writes it as soon as it runs with the rights of deploy/rbac/certificates.yaml: its log says what it lacks";

/// A configuration of either kind.
trait Configuration: Kind {
    /// Name and client configuration of its webhooks.
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)>;
    /// The webhooks without what says how they are reached.
    fn essence(&self) -> Option<serde_json::Value>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }

    fn essence(&self) -> Option<serde_json::Value> {
        essence(&self.webhooks)
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn clients(&self) -> Vec<(&str, &WebhookClientConfig)> {
        self.webhooks
            .iter()
            .flatten()
            .map(|webhook| (webhook.name.as_str(), &webhook.client_config))
            .collect()
    }

    fn essence(&self) -> Option<serde_json::Value> {
        essence(&self.webhooks)
    }
}

fn essence<T: serde::Serialize>(webhooks: &T) -> Option<serde_json::Value> {
    let mut webhooks = serde_json::to_value(webhooks).ok()?;
    for webhook in webhooks.as_array_mut()?.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        webhook.remove("clientConfig");
    }
    Some(webhooks)
}

/// What was found about the configurations and policies of all controllers; one finding if all is well.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    if !installation.serves_webhooks() {
        return vec![Finding::ok("webhooks", "not served: the manager runs with --webhook-bind-address=0")];
    }
    let (mut findings, mut count) = (Vec::new(), 0);
    for controller in installation.controllers() {
        match of(cluster, controller, &installation.namespace).await {
            Ok(found) => findings.extend(found),
            Err(error) => return vec![Finding::unknown("webhooks", &error)],
        }
        count += (controller.webhooks)().len();
    }
    if findings.is_empty() {
        findings
            .push(Finding::ok("webhooks", format!("all {count} are configured, each with whom to trust")));
    }
    findings
}

async fn of(cluster: &Cluster, controller: &Registration, namespace: &str) -> Result<Vec<Finding>, Error> {
    let reach = ClientConfig::Service { namespace: namespace.to_owned() };
    let mut findings = Vec::new();
    if let Some(wanted) = validating(controller, &reach) {
        findings.extend(judge(&wanted, get(cluster, &wanted).await?.as_ref()));
    }
    if let Some(wanted) = mutating(controller, &reach) {
        findings.extend(judge(&wanted, get(cluster, &wanted).await?.as_ref()));
    }
    for (policy, binding) in policies(controller, namespace) {
        let (is_policy_absent, is_binding_absent) =
            (get(cluster, &policy).await?.is_none(), get(cluster, &binding).await?.is_none());
        findings.extend(absent(&policy, is_policy_absent));
        findings.extend(absent(&binding, is_binding_absent));
    }
    Ok(findings)
}

async fn get<K: Kind>(cluster: &Cluster, wanted: &K) -> Result<Option<K>, Error> {
    let api: Api<K> = K::api(cluster.client.clone(), None);
    let name = wanted.name_any();
    api.get_opt(&name).await.with_context(|| format!("cannot read the {} {name}", K::kind(&())))
}

fn absent<K: Resource<DynamicType = ()>>(wanted: &K, is_absent: bool) -> Option<Finding> {
    let what = format!("{} {}", K::kind(&()), wanted.name_any());
    is_absent.then(|| Finding::error(&what, "is not there: what it would refuse is let pass", APPLY))
}

fn judge<C: Configuration>(wanted: &C, found: Option<&C>) -> Vec<Finding> {
    let Some(found) = found else { return absent(wanted, true).into_iter().collect() };
    let what = format!("{} {}", C::kind(&()), wanted.name_any());
    let clients = found.clients();
    let untrusted: Vec<_> =
        clients.iter().filter(|(_, client)| !trusts(client)).map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    if !untrusted.is_empty() {
        let message = format!("has no caBundle for {}: the API server cannot ask", untrusted.join(", "));
        findings.push(Finding::error(&what, message, WHO_WRITES_CA_BUNDLE));
    }
    if wanted.essence() != found.essence() {
        let version = env!("CARGO_PKG_VERSION");
        let advice = format!("{APPLY}; or use the ensemblectl of the version that is installed");
        findings.push(Finding::warning(&what, format!("is not as version {version} has it"), advice));
    }
    findings
}

fn trusts(client: &WebhookClientConfig) -> bool {
    client.ca_bundle.as_ref().is_some_and(|ByteString(bundle)| !bundle.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    fn wanted() -> ValidatingWebhookConfiguration {
        let controller = manager::CONTROLLERS.iter().find(|controller| controller.name == "tenant").unwrap();
        validating(controller, &ClientConfig::Service { namespace: "a".to_owned() }).unwrap()
    }

    fn trusting() -> ValidatingWebhookConfiguration {
        let mut configuration = wanted();
        for webhook in configuration.webhooks.iter_mut().flatten() {
            webhook.client_config.ca_bundle = Some(ByteString(b"somebody".to_vec()));
            webhook.client_config.url = Some("https://elsewhere".to_owned());
            webhook.client_config.service = None;
        }
        configuration
    }

    #[test]
    fn how_the_webhooks_are_reached_makes_no_difference() {
        assert_eq!(judge(&wanted(), Some(&trusting())), []);
    }

    #[test]
    fn each_fault_is_named() {
        assert!(judge(&wanted(), None)[0].message.contains("is not there"));
        let mut untrusting = trusting();
        untrusting.webhooks.as_mut().unwrap()[1].client_config.ca_bundle = None;
        let told = judge(&wanted(), Some(&untrusting)).remove(0);
        assert_eq!(
            (told.state, &*told.message),
            (State::Error, "has no caBundle for namespaces.tenant.ensemble: the API server cannot ask")
        );
        let mut other = trusting();
        other.webhooks.as_mut().unwrap().pop();
        assert_eq!(judge(&wanted(), Some(&other))[0].state, State::Warning);
    }
}
