//! The objects that tell the API server of a controller's webhooks and conversions.
//!
//! `caBundle` is left out: the part of the process that keeps the certificates fills it in.

use k8s_openapi::{
    api::admissionregistration::v1::{
        self as api, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhook,
        ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        self as definitions, CustomResourceConversion, CustomResourceDefinition, WebhookConversion,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use kube::{ResourceExt, core::ObjectMeta};

use super::{
    conversion::Conversion,
    policy::Policy,
    target::TargetRule,
    webhook::{FailurePolicy, SideEffects, Webhook, WebhookType},
};
use crate::{controller::Registration, labels};

/// The Service that the API server reaches the webhooks by.
pub const SERVICE: &str = "ensemble-webhook";
/// Its port.
pub const PORT: i32 = 443;
/// The namespaces that no webhook is ever asked about, the manager's own apart: those that a cluster needs to come up.
pub const EXEMPT: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// The label that the API server itself puts on each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfig {
    /// By the Service of a manager that runs in the cluster, in this namespace.
    Service {
        /// The namespace of the Service and of the manager.
        namespace: String,
    },
    /// By the address of a manager that runs elsewhere: `https://127.0.0.1:9443`.
    Url {
        /// Scheme, host and port, without a path.
        base: String,
        /// The namespace that counts as the manager's own.
        namespace: String,
    },
}

impl ClientConfig {
    /// The namespace that is the manager's own.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Service { namespace } | Self::Url { namespace, .. } => namespace,
        }
    }

    fn url(&self, path: &str) -> Option<String> {
        match self {
            Self::Service { .. } => None,
            Self::Url { base, .. } => Some(format!("{base}{path}")),
        }
    }

    fn webhook(&self, path: String) -> WebhookClientConfig {
        let service = |namespace: &String| api::ServiceReference {
            name: SERVICE.to_owned(),
            namespace: namespace.clone(),
            path: Some(path.clone()),
            port: Some(PORT),
        };
        WebhookClientConfig {
            ca_bundle: None,
            service: self.service_namespace().map(service),
            url: self.url(&path),
        }
    }

    fn conversion(&self, path: String) -> definitions::WebhookClientConfig {
        let service = |namespace: &String| definitions::ServiceReference {
            name: SERVICE.to_owned(),
            namespace: namespace.clone(),
            path: Some(path.clone()),
            port: Some(PORT),
        };
        definitions::WebhookClientConfig {
            ca_bundle: None,
            service: self.service_namespace().map(service),
            url: self.url(&path),
        }
    }

    fn service_namespace(&self) -> Option<&String> {
        match self {
            Self::Service { namespace } => Some(namespace),
            Self::Url { .. } => None,
        }
    }
}

/// The name of a controller's webhook configurations.
pub fn name(controller: &str) -> String {
    format!("ensemble-{controller}")
}

/// A controller's validating webhooks, if it has any.
pub fn validating(controller: &Registration, reach: &ClientConfig) -> Option<ValidatingWebhookConfiguration> {
    let declared = declared(controller, WebhookType::Validating);
    let webhooks: Vec<_> =
        declared.iter().map(|webhook| validating_webhook(controller, webhook, reach)).collect();
    (!webhooks.is_empty())
        .then(|| ValidatingWebhookConfiguration { metadata: metadata(controller), webhooks: Some(webhooks) })
}

/// A controller's mutating webhooks, if it has any.
pub fn mutating(controller: &Registration, reach: &ClientConfig) -> Option<MutatingWebhookConfiguration> {
    let declared = declared(controller, WebhookType::Mutating);
    let webhooks: Vec<_> =
        declared.iter().map(|webhook| mutating_webhook(controller, webhook, reach)).collect();
    (!webhooks.is_empty())
        .then(|| MutatingWebhookConfiguration { metadata: metadata(controller), webhooks: Some(webhooks) })
}

/// The definitions that a controller comes with, each with its conversion if it has one.
pub fn definitions(controller: &Registration, reach: &ClientConfig) -> Vec<CustomResourceDefinition> {
    let mut definitions = (controller.crds)();
    for definition in &mut definitions {
        convert(definition, controller, reach);
    }
    definitions
}

/// Has the API server convert the versions of a definition by the controller's conversion of it, if there is one.
fn convert(crd: &mut CustomResourceDefinition, controller: &Registration, reach: &ClientConfig) {
    let conversions = (controller.conversions)();
    let name = crd.name_any();
    if let Some(conversion) = conversions.iter().find(|conversion| conversion.definition() == name) {
        crd.spec.conversion = Some(webhook_conversion(conversion, controller, reach));
    }
}

fn webhook_conversion(
    conversion: &Conversion,
    controller: &Registration,
    reach: &ClientConfig,
) -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(reach.conversion(conversion.path(controller.name))),
            conversion_review_versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
        }),
    }
}

/// A controller's admission policies, each with what puts it into effect.
pub fn policies(
    controller: &Registration,
    manager_namespace: &str,
) -> Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)> {
    let both = |policy: &Policy| {
        let metadata = ObjectMeta { name: Some(policy.full_name(controller.name)), ..metadata(controller) };
        (policy.policy(metadata.clone()), Policy::binding(metadata))
    };
    (controller.policies)(manager_namespace).iter().map(both).collect()
}

fn declared(controller: &Registration, purpose: WebhookType) -> Vec<Webhook> {
    (controller.webhooks)().into_iter().filter(|webhook| webhook.purpose == purpose).collect()
}

fn metadata(controller: &Registration) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(controller.name)),
        labels: Some(labels::recommended("ensemble", "ensemble", controller.name)),
        ..ObjectMeta::default()
    }
}

fn validating_webhook(
    controller: &Registration,
    webhook: &Webhook,
    reach: &ClientConfig,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: webhook.full_name(controller.name),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: reach.webhook(webhook.path(controller.name)),
        failure_policy: Some(failure_policy(webhook)),
        match_conditions: match_conditions(webhook),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(webhook, reach.namespace())),
        object_selector: Some(webhook.object_selector.clone()),
        rules: Some(webhook.targets.iter().map(rule).collect()),
        side_effects: side_effects(webhook),
        timeout_seconds: Some(webhook.timeout_seconds.into()),
    }
}

fn mutating_webhook(controller: &Registration, webhook: &Webhook, reach: &ClientConfig) -> MutatingWebhook {
    let ValidatingWebhook {
        name,
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        namespace_selector,
        object_selector,
        rules,
        side_effects,
        timeout_seconds,
    } = validating_webhook(controller, webhook, reach);
    let again = if webhook.reinvoked { "IfNeeded" } else { "Never" };
    MutatingWebhook {
        name,
        admission_review_versions,
        client_config,
        failure_policy,
        match_conditions,
        match_policy,
        namespace_selector,
        object_selector,
        rules,
        side_effects,
        timeout_seconds,
        reinvocation_policy: Some(again.to_owned()),
    }
}

fn failure_policy(webhook: &Webhook) -> String {
    match webhook.failure_policy {
        FailurePolicy::Fail => "Fail",
        FailurePolicy::Ignore => "Ignore",
    }
    .to_owned()
}

fn side_effects(webhook: &Webhook) -> String {
    match webhook.side_effects {
        SideEffects::None => "None",
        SideEffects::NoneOnDryRun => "NoneOnDryRun",
    }
    .to_owned()
}

fn rule(target: &TargetRule) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![target.group.clone()]),
        api_versions: Some(vec![target.version.clone()]),
        operations: Some(target.operations.names()),
        resources: Some(vec![target.resource_name()]),
        scope: Some(target.scope().to_owned()),
    }
}

/// What webhooks on every kind are never asked about: a node's sign of life must not wait for anybody, and Events are
/// many and say nothing of consequence.
const NEVER: &str = "!(request.resource.group == 'coordination.k8s.io' || request.resource.group == 'events.k8s.io' || \
    request.resource.group == 'authorization.k8s.io' || (request.resource.group == '' && request.resource.resource == 'events'))";

fn match_conditions(webhook: &Webhook) -> Option<Vec<api::MatchCondition>> {
    let any = webhook.targets.iter().any(TargetRule::is_any);
    let never = any.then(|| condition("neither-leases-nor-events", NEVER));
    let declared = webhook.match_conditions.iter().map(|one| condition(&one.name, &one.expression));
    let all: Vec<_> = never.into_iter().chain(declared).collect();
    (!all.is_empty()).then_some(all)
}

fn condition(name: &str, expression: &str) -> api::MatchCondition {
    api::MatchCondition { name: name.to_owned(), expression: expression.to_owned() }
}

/// The declared selector; for objects in namespaces without those that a cluster and the manager need to come up.
fn namespace_selector(webhook: &Webhook, own: &str) -> LabelSelector {
    let mut selector = webhook.namespace_selector.clone();
    if webhook.targets.iter().any(|target| target.namespaced) {
        let exempt = EXEMPT.into_iter().chain([own]).map(str::to_owned).collect();
        selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: NAME_LABEL.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(exempt),
        });
    }
    selector
}

#[cfg(test)]
mod tests;
