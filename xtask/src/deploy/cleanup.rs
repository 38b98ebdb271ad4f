//! `files/cleanup` of the chart: the Job that runs `ensemble-manager cleanup` after Helm has
//! uninstalled everything else, with its own ServiceAccount and permissions.
//!
//! All objects are Helm hooks, so they exist only while the Job runs.

use ::manager::CONTROLLERS;
use anyhow::Result;
use operator_core::{Registration, manifests::Grant, rbac::Rule};
use operator_runtime::cleanup::{cleanup_rules, pod_rules};
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

/// Name of the ServiceAccount and the Job.
const NAME: &str = "ensemble-cleanup";
const PART: &str = "cleanup";

/// The Job runs after Helm has deleted everything else.
const HOOK: Hook = Hook("post-delete");

/// Retries of the Job. Each attempt waits for managers to stop, for the default of `--wait`.
const BACKOFF_LIMIT: u8 = 2;
/// Deadline of the Job in seconds, all attempts included. Less than the 5 minutes of `helm
/// --timeout`, so that Helm reports why the Job failed.
const ACTIVE_DEADLINE: u16 = 270;
/// Seconds for which a failed Job stays.
const TTL: u16 = 3600;

/// Returns the ServiceAccount, the Job, and a file for each controller with something to clean up,
/// with cluster-wide permissions.
pub(super) fn files() -> Result<Vec<Generated>> {
    let pods = Grant::new(PART, pod_rules());
    let account = [
        HOOK.first(document(&account(NAME, PART))?),
        HOOK.first(document(&pods.role(Some(NAMESPACE)))?),
        HOOK.first(document(&pods.role_binding(Some(NAMESPACE), NAMESPACE, NAME))?),
    ];
    let mut files = vec![
        Generated::manifest("account.yaml".to_owned(), COMMAND, &account)?,
        Generated::manifest("job.yaml".to_owned(), COMMAND, &[HOOK.second(job())])?,
    ];
    for (name, grant) in CONTROLLERS.iter().filter_map(grant) {
        let documents =
            [document(&grant.cluster_role())?, document(&grant.cluster_role_binding(NAMESPACE, NAME))?];
        files.push(rbac(name, documents)?);
    }
    Ok(files)
}

/// Returns the files with Roles instead, for the controllers that need no cluster-wide permissions.
pub(super) fn namespaced() -> Result<Vec<Generated>> {
    let is_namespaced =
        |controller: &&Registration| Grant::of(controller).rules().iter().all(Rule::is_namespaced);
    let grants = CONTROLLERS.iter().filter(is_namespaced).filter_map(grant);
    grants
        .map(|(name, grant)| {
            rbac(name, [document(&grant.role(None))?, document(&grant.role_binding(None, NAMESPACE, NAME))?])
        })
        .collect()
}

/// Returns the permissions to clean up after a controller, or `None` if there is nothing to clean
/// up.
fn grant(controller: &Registration) -> Option<(&'static str, Grant)> {
    let rules = cleanup_rules(&[*controller]);
    let part = format!("{PART}-{}", controller.name);
    (!rules.is_empty()).then(|| (controller.name, Grant::new(&part, rules)))
}

fn rbac(controller: &str, documents: [Value; 2]) -> Result<Generated> {
    let documents = documents.map(|document| HOOK.first(document));
    Generated::manifest(format!("{controller}.yaml"), COMMAND, &documents)
}

/// Returns the Job. It has no priority class, because the ResourceQuota that allows the class in
/// some clusters is already deleted.
fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": objects::metadata(NAME, PART),
        "spec": {
            "backoffLimit": BACKOFF_LIMIT, "activeDeadlineSeconds": ACTIVE_DEADLINE, "ttlSecondsAfterFinished": TTL,
            "template": {
                "metadata": { "labels": objects::labels(PART) },
                "spec": pod(NAME, PART),
            },
        },
    })
}
