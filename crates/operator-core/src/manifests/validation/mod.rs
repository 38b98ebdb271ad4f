//! Validation of the webhook declarations of a controller.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{
    admission::{MAX_TIMEOUT_SECONDS, TargetRule, Webhook, WebhookType},
    registration::Registration,
};

/// Resources that no webhook may review: a cluster cannot start if their webhook does not respond.
const FORBIDDEN: [&str; 2] = ["nodes", "leases"];
/// Suffix of Kubernetes' own groups that contain a dot. The groups of this project have another
/// one.
const KUBERNETES_SUFFIX: &str = ".k8s.io";

/// Returns the errors in the webhook declarations of a controller. Empty if they are valid.
pub fn validate_webhooks(controller: &Registration) -> Vec<String> {
    let webhooks = (controller.webhooks)();
    let mut names = HashSet::new();
    let duplicates = webhooks.iter().filter(|webhook| !names.insert(webhook.name));
    let duplicates: Vec<_> = duplicates
        .map(|webhook| format!("two webhooks have the name {}; choose unique names", webhook.name))
        .collect();
    let each = webhooks.iter().flat_map(|webhook| {
        validate_webhook(webhook).into_iter().map(|error| format!("the webhook {}: {error}", webhook.name))
    });
    each.chain(duplicates).collect()
}

fn validate_webhook(webhook: &Webhook) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |invalid: bool, error: &str| errors.extend(invalid.then(|| error.to_owned()));
    let has = |is: fn(&TargetRule) -> bool| webhook.targets.iter().any(is);
    check(!is_label(webhook.name), "its name is no DNS label of at most 40 characters");
    check(webhook.name == "convert", "its name is reserved for the paths of conversions");
    check(webhook.targets.is_empty(), "it has no target; add on(target::<K>(..))");
    check(
        !(1..=MAX_TIMEOUT_SECONDS).contains(&webhook.timeout_seconds),
        "its timeout is not 1 to 5 seconds; a longer one blocks the API server",
    );
    check(has(|target| target.operations.names().is_empty()), "a target has no operation");
    check(
        has(|target| FORBIDDEN.contains(&target.resource.as_str())),
        "it reviews nodes or leases, which a cluster needs to start",
    );
    check(
        has(|target| target.namespaced) && has(is_namespace),
        "it reviews both Namespaces and objects in them, for which the namespace selector has different meanings; \
         declare two webhooks",
    );
    check(
        has(is_kubernetes_cluster_scoped) && matches_all(webhook),
        "it reviews every object of a cluster-scoped kind of Kubernetes; narrow it with in_namespaces (for \
         Namespaces), with_labels or match_condition",
    );
    check(
        has(TargetRule::is_any)
            && webhook.namespace_selector == LabelSelector::default()
            && webhook.object_selector == LabelSelector::default(),
        "it reviews every kind in all namespaces; narrow it with in_namespaces or with_labels",
    );
    check(
        has(|target| target.is_any() && !target.namespaced)
            && webhook.object_selector == LabelSelector::default(),
        "it reviews every cluster-scoped kind; narrow it with with_labels",
    );
    check(
        webhook.reinvoked && webhook.webhook_type == WebhookType::Validating,
        "only a mutating webhook can be reinvoked",
    );
    errors
}

fn is_namespace(target: &TargetRule) -> bool {
    target.group.is_empty() && target.resource == "namespaces"
}

/// Returns whether it is a cluster-scoped kind of Kubernetes itself.
fn is_kubernetes_cluster_scoped(target: &TargetRule) -> bool {
    let kubernetes = target.group.ends_with(KUBERNETES_SUFFIX) || !target.group.contains('.');
    !target.namespaced && kubernetes
}

fn matches_all(webhook: &Webhook) -> bool {
    let all = LabelSelector::default();
    webhook.match_conditions.is_empty() && webhook.object_selector == all && webhook.namespace_selector == all
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= 40
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
