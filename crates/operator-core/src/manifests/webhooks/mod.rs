//! Webhook configurations, admission policies, and CRDs with conversions of a controller.
//!
//! `caBundle` is empty. The process that owns the certificates sets it.

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

use crate::{
    admission::{Conversion, Policy, SideEffects, TargetRule, Webhook, WebhookType},
    labels,
    registration::Registration,
};

/// Service of the webhooks.
pub const SERVICE: &str = "ensemble-webhook";
/// Port of [`SERVICE`].
pub const PORT: i32 = 443;
/// Namespaces that no webhook reviews, besides the manager's own: a cluster needs them to start.
pub const EXEMPT_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Label with the namespace's name, which the API server sets on each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// How the API server connects to the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfig {
    /// With the Service of a manager that runs in the cluster.
    Service {
        /// Namespace of the Service and of the manager.
        namespace: String,
    },
    /// With the URL of a manager that runs elsewhere.
    Url {
        /// Scheme, host, and port without a path, such as `https://127.0.0.1:9443`.
        base: String,
        /// Namespace that counts as the manager's own.
        namespace: String,
    },
}

impl ClientConfig {
    /// Returns the manager's namespace.
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

/// Returns the name of a controller's webhook configurations.
pub fn name(controller: &str) -> String {
    format!("ensemble-{controller}")
}

/// Returns the validating webhooks of a controller, if it has any.
pub fn validating(
    controller: &Registration,
    client_config: &ClientConfig,
) -> Option<ValidatingWebhookConfiguration> {
    let declared = declared(controller, WebhookType::Validating);
    let webhooks: Vec<_> =
        declared.iter().map(|webhook| validating_webhook(controller, webhook, client_config)).collect();
    (!webhooks.is_empty())
        .then(|| ValidatingWebhookConfiguration { metadata: metadata(controller), webhooks: Some(webhooks) })
}

/// Returns the mutating webhooks of a controller, if it has any.
pub fn mutating(
    controller: &Registration,
    client_config: &ClientConfig,
) -> Option<MutatingWebhookConfiguration> {
    let declared = declared(controller, WebhookType::Mutating);
    let webhooks: Vec<_> =
        declared.iter().map(|webhook| mutating_webhook(controller, webhook, client_config)).collect();
    (!webhooks.is_empty())
        .then(|| MutatingWebhookConfiguration { metadata: metadata(controller), webhooks: Some(webhooks) })
}

/// Returns the CRDs of a controller with their conversions.
pub fn definitions(controller: &Registration, client_config: &ClientConfig) -> Vec<CustomResourceDefinition> {
    let mut definitions = (controller.crds)();
    for definition in &mut definitions {
        convert(definition, controller, client_config);
    }
    definitions
}

/// Adds the controller's conversion to a CRD, if there is one.
fn convert(crd: &mut CustomResourceDefinition, controller: &Registration, client_config: &ClientConfig) {
    let conversions = (controller.conversions)();
    let name = crd.name_any();
    if let Some(conversion) = conversions.iter().find(|conversion| conversion.definition() == name) {
        crd.spec.conversion = Some(webhook_conversion(conversion, controller, client_config));
    }
}

fn webhook_conversion(
    conversion: &Conversion,
    controller: &Registration,
    client_config: &ClientConfig,
) -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(client_config.conversion(conversion.path(controller.name))),
            conversion_review_versions: vec!["v1".to_owned(), "v1beta1".to_owned()],
        }),
    }
}

/// Returns the admission policies of a controller with their bindings.
pub fn policies(
    controller: &Registration,
    manager_namespace: &str,
) -> Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)> {
    let both = |policy: &Policy| {
        let metadata = ObjectMeta { name: Some(policy.full_name(controller.name)), ..metadata(controller) };
        (policy.policy(metadata.clone()), policy.binding(metadata))
    };
    (controller.policies)(manager_namespace).iter().map(both).collect()
}

fn declared(controller: &Registration, webhook_type: WebhookType) -> Vec<Webhook> {
    (controller.webhooks)().into_iter().filter(|webhook| webhook.webhook_type == webhook_type).collect()
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
    client_config: &ClientConfig,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: webhook.full_name(controller.name),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config.webhook(webhook.path(controller.name)),
        failure_policy: Some(webhook.failure_policy.name().to_owned()),
        match_conditions: match_conditions(webhook),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(namespace_selector(webhook, client_config.namespace())),
        object_selector: Some(webhook.object_selector.clone()),
        rules: Some(webhook.targets.iter().map(rule).collect()),
        side_effects: side_effects(webhook),
        timeout_seconds: Some(webhook.timeout_seconds.into()),
    }
}

fn mutating_webhook(
    controller: &Registration,
    webhook: &Webhook,
    client_config: &ClientConfig,
) -> MutatingWebhook {
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
    } = validating_webhook(controller, webhook, client_config);
    let reinvocation_policy = if webhook.reinvoked { "IfNeeded" } else { "Never" };
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
        reinvocation_policy: Some(reinvocation_policy.to_owned()),
    }
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

/// Requests that webhooks for all kinds never review. Leases must not depend on a webhook, and
/// Events are frequent.
const EXCLUDED: &str = "!(request.resource.group == 'coordination.k8s.io' || request.resource.group == 'events.k8s.io' || \
    request.resource.group == 'authorization.k8s.io' || (request.resource.group == '' && request.resource.resource == 'events'))";

fn match_conditions(webhook: &Webhook) -> Option<Vec<api::MatchCondition>> {
    let any = webhook.targets.iter().any(TargetRule::is_any);
    let excluded = any.then(|| condition("neither-leases-nor-events", EXCLUDED));
    let declared = webhook.match_conditions.iter().map(Into::into);
    let all: Vec<_> = excluded.into_iter().chain(declared).collect();
    (!all.is_empty()).then_some(all)
}

fn condition(name: &str, expression: &str) -> api::MatchCondition {
    api::MatchCondition { name: name.to_owned(), expression: expression.to_owned() }
}

/// Returns the declared selector. For namespaced objects, also excludes the exempt namespaces.
fn namespace_selector(webhook: &Webhook, manager_namespace: &str) -> LabelSelector {
    let mut selector = webhook.namespace_selector.clone();
    if webhook.targets.iter().any(|target| target.namespaced) {
        let exempt = EXEMPT_NAMESPACES.into_iter().chain([manager_namespace]).map(str::to_owned).collect();
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
