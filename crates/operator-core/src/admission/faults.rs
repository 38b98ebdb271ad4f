//! What a declaration must not be.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    target::TargetRule,
    webhook::{LONGEST, Webhook, WebhookType},
};
use crate::controller::Registration;

/// Resources that no webhook may stand in front of: while it does not answer, the cluster could not come up.
const NEVER: [&str; 2] = ["nodes", "leases"];
/// The groups of this project's own kinds contain a dot that no Kubernetes group below `k8s.io` has.
const KUBERNETES: &str = ".k8s.io";

/// What is wrong with the declarations of a controller, in sentences; empty if nothing is.
pub fn faults(controller: &Registration) -> Vec<String> {
    let webhooks = (controller.webhooks)();
    let mut names = HashSet::new();
    let doubled = webhooks.iter().filter(|webhook| !names.insert(webhook.name));
    let doubled: Vec<_> = doubled
        .map(|webhook| format!("two webhooks are called {}; each needs a name of its own", webhook.name))
        .collect();
    let each = webhooks.iter().flat_map(|webhook| {
        of_webhook(webhook).into_iter().map(|fault| format!("the webhook {}: {fault}", webhook.name))
    });
    each.chain(doubled).collect()
}

fn of_webhook(webhook: &Webhook) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |wrong: bool, fault: &str| faults.extend(wrong.then(|| fault.to_owned()));
    let has = |is: fn(&TargetRule) -> bool| webhook.targets.iter().any(is);
    check(!is_label(webhook.name), "its name is no DNS label of at most 40 characters");
    check(webhook.name == "convert", "its name is taken by the paths of conversions");
    check(webhook.targets.is_empty(), "it is asked about nothing; add on(target::<K>(..))");
    check(
        !(1..=LONGEST).contains(&webhook.timeout_seconds),
        "its timeout is not 1 to 5 seconds; a longer one holds up the API server",
    );
    check(has(|target| target.operations.names().is_empty()), "a target has no operation");
    check(
        has(|target| NEVER.contains(&target.resource.as_str())),
        "it stands in front of nodes or leases, without which no cluster comes up",
    );
    check(
        has(|target| target.namespaced) && has(is_namespace),
        "it is asked about namespaces together with what is in them, but the selector means different things for \
         both; declare two webhooks",
    );
    check(
        has(is_foreign) && is_everything(webhook),
        "it is asked about every object of a cluster-scoped kind of Kubernetes; narrow it by in_namespaces (for \
         Namespaces), with_labels or only_if",
    );
    check(
        has(TargetRule::is_any)
            && webhook.namespace_selector == LabelSelector::default()
            && webhook.object_selector == LabelSelector::default(),
        "it is asked about every kind in all namespaces; narrow it by in_namespaces or with_labels",
    );
    check(
        webhook.reinvoked && webhook.purpose == WebhookType::Validating,
        "only a mutating webhook is reinvoked",
    );
    faults
}

fn is_namespace(target: &TargetRule) -> bool {
    target.group.is_empty() && target.resource == "namespaces"
}

/// Whether it is a cluster-scoped kind that Kubernetes itself writes.
fn is_foreign(target: &TargetRule) -> bool {
    let kubernetes = target.group.ends_with(KUBERNETES) || !target.group.contains('.');
    !target.namespaced && kubernetes
}

fn is_everything(webhook: &Webhook) -> bool {
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
