//! `files/release` of the chart: what Helm runs once it has uninstalled the rest, which is `ensemble-manager release`, with an account and rights of its own.
//! Each object is a hook of Helm's, so all of it is there for that time only.

use ::manager::CONTROLLERS;
use anyhow::Result;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::core::ObjectMeta;
use operator_core::{
    Registration, labels,
    rbac::{Grant, Rule},
};
use operator_runtime::release::{pod_rules, release_rules};
use serde_json::{Value, json};

use super::{COMMAND, manager};
use crate::{
    generate::{Generated, document},
    rbac::NAMESPACE,
};

/// The account, and the Job.
const NAME: &str = "ensemble-release";
const PART: &str = "release";

/// In which order Helm makes them.
const RIGHTS: &str = "0";
const JOB: &str = "1";

/// How often it is tried. Each time waits for managers to end for as long as `release` does unless told otherwise.
const RETRIES: u8 = 2;
/// In seconds, for all that: less than the 5 min after which Helm gives up, which then tells why it failed.
const LIMIT: u16 = 270;
/// How long a failure can be looked into, in seconds.
const KEPT: u16 = 3600;

/// What is there in any case, and a file for each controller of which something has to be let go, with rights in the cluster.
pub(super) fn files() -> Result<Vec<Generated>> {
    let pods = Grant::new(PART, pod_rules());
    let account = [
        hook(document(&account())?, RIGHTS),
        hook(document(&pods.role(Some(NAMESPACE)))?, RIGHTS),
        hook(document(&pods.role_binding(Some(NAMESPACE), NAMESPACE, NAME))?, RIGHTS),
    ];
    let mut files = vec![
        Generated::manifest("account.yaml".to_owned(), COMMAND, &account)?,
        Generated::manifest("job.yaml".to_owned(), COMMAND, &[hook(job(), JOB)])?,
    ];
    for (name, grant) in CONTROLLERS.iter().filter_map(grant) {
        let role =
            [document(&grant.cluster_role())?, document(&grant.cluster_role_binding(NAMESPACE, NAME))?];
        files.push(rights(name, role)?);
    }
    Ok(files)
}

/// The same as Roles, of those controllers for which Roles are enough.
pub(super) fn namespaced() -> Result<Vec<Generated>> {
    let fit = |controller: &&Registration| Grant::of(controller).rules().iter().all(Rule::is_namespaced);
    let grants = CONTROLLERS.iter().filter(fit).filter_map(grant);
    grants
        .map(|(name, grant)| {
            rights(
                name,
                [document(&grant.role(None))?, document(&grant.role_binding(None, NAMESPACE, NAME))?],
            )
        })
        .collect()
}

/// What it takes to let go of what a controller holds, if it holds anything.
fn grant(controller: &Registration) -> Option<(&'static str, Grant)> {
    let rules = release_rules(&[*controller]);
    let part = format!("{PART}-{}", controller.name);
    (!rules.is_empty()).then(|| (controller.name, Grant::new(&part, rules)))
}

fn rights(controller: &str, documents: [Value; 2]) -> Result<Generated> {
    let documents = documents.map(|document| hook(document, RIGHTS));
    Generated::manifest(format!("{controller}.yaml"), COMMAND, &documents)
}

/// Not a part of the release: Helm makes it when the rest is deleted, and deletes it when all have succeeded. A Job that has
/// failed stays to be looked at.
fn hook(mut object: Value, weight: &str) -> Value {
    let annotations = json!({
        "helm.sh/hook": "post-delete",
        "helm.sh/hook-weight": weight,
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        "helm.sh/hook-output-log-policy": "hook-failed",
    });
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), annotations);
    }
    object
}

fn account() -> ServiceAccount {
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some(labels::recommended("ensemble", "ensemble", PART)),
        ..ObjectMeta::default()
    };
    ServiceAccount { metadata, automount_service_account_token: Some(false), ..ServiceAccount::default() }
}

/// Without the priority of managers: the quota that allows it in some clusters is gone by then.
fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": manager::metadata(NAME, PART),
        "spec": {
            "backoffLimit": RETRIES, "activeDeadlineSeconds": LIMIT, "ttlSecondsAfterFinished": KEPT,
            "template": {
                "metadata": { "labels": manager::labels(PART) },
                "spec": {
                    "serviceAccountName": NAME,
                    "automountServiceAccountToken": true,
                    "enableServiceLinks": false,
                    "restartPolicy": "Never",
                    "securityContext": manager::pod_security(),
                    "containers": [{
                        "name": PART,
                        "image": super::IMAGE,
                        "args": ["--controllers=*", "release"],
                        "env": manager::environment(),
                        "resources": manager::resources(),
                        "securityContext": manager::container_security(),
                    }],
                },
            },
        },
    })
}
