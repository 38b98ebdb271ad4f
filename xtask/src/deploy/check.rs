//! `files/check` of the chart: the Pod of `helm test`, which runs `ensemble-manager check`, with its
//! own ServiceAccount and permissions.
//!
//! All objects are Helm hooks, so they exist only while the test runs.

use ::manager::{
    CONTROLLERS,
    check::{namespace_rules, webhook_rules},
};
use anyhow::Result;
use operator_core::{Registration, manifests::Grant};
use serde_json::{Value, json};

use super::{
    COMMAND,
    hook::{Hook, account, pod},
    objects,
};
use crate::{
    generate::{Generated, document},
    rbac::NAMESPACE,
};

/// Name of the ServiceAccount and the Pod.
const NAME: &str = "ensemble-check";
const PART: &str = "check";
/// The Pod runs when a user runs `helm test`.
const HOOK: Hook = Hook("test");
/// Deadline of the Pod in seconds. Less than the 5 minutes of `helm test --timeout`, so that Helm
/// reports the failed Pod.
const ACTIVE_DEADLINE: u16 = 270;

/// Returns the ServiceAccount, the Pod, and a file for each controller with webhooks to call.
pub(super) fn files() -> Result<Vec<Generated>> {
    let own = Grant::new(PART, namespace_rules(CONTROLLERS));
    let account = [
        HOOK.first(document(&account(NAME, PART))?),
        HOOK.first(document(&own.role(Some(NAMESPACE)))?),
        HOOK.first(document(&own.role_binding(Some(NAMESPACE), NAMESPACE, NAME))?),
    ];
    let mut files = vec![
        Generated::manifest("account.yaml".to_owned(), COMMAND, &account)?,
        Generated::manifest("pod.yaml".to_owned(), COMMAND, &[HOOK.second(check_pod())])?,
    ];
    for (name, grant) in CONTROLLERS.iter().filter_map(webhook_grant) {
        let documents = [
            HOOK.first(document(&grant.cluster_role())?),
            HOOK.first(document(&grant.cluster_role_binding(NAMESPACE, NAME))?),
        ];
        files.push(Generated::manifest(format!("{name}.yaml"), COMMAND, &documents)?);
    }
    Ok(files)
}

/// Returns the permissions to call the webhooks of a controller, or `None` if there is nothing to
/// call.
fn webhook_grant(controller: &Registration) -> Option<(&'static str, Grant)> {
    let rules = webhook_rules(controller);
    let part = format!("{PART}-{}", controller.name);
    (!rules.is_empty()).then(|| (controller.name, Grant::new(&part, rules)))
}

fn check_pod() -> Value {
    let mut spec = pod(NAME, PART);
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("activeDeadlineSeconds".to_owned(), ACTIVE_DEADLINE.into());
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": objects::metadata(NAME, PART), "spec": spec })
}
