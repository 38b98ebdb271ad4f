//! `cargo xtask install` and `uninstall`: the CustomResourceDefinitions in the cluster of your
//! kubeconfig.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use local_manager::{
    crds::{self, definitions},
    remove_leftovers,
};
use manager::CONTROLLERS;
use operator_core::{
    error::{is_conflict, is_not_found},
    informer::Scope,
};
use operator_runtime::{
    cleanup::{self, Report},
    connect::connect,
};
use serde_json::json;
use tokio::time::timeout;

use crate::policies;

/// Timeout for the deletion of a definition. Only finalizers of other programs can delay it longer.
const TIMEOUT: Duration = Duration::from_mins(2);
/// Time after which a message says what delays a deletion.
const REPORT_AFTER: Duration = Duration::from_secs(10);
/// Interval of the checks whether the API server must retry a deletion.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Annotation whose change makes the API server retry a deletion.
const RETRY_ANNOTATION: &str = "ensemble.example.com/reminded";

/// Installs the definitions, waits until each kind can be listed, and installs the admission
/// policies, which apply even when no manager runs.
pub(crate) async fn install() -> Result<()> {
    let (client, definitions) = (connect().await?, definitions());
    crds::install(&client, &definitions).await?;
    for crd in &definitions {
        println!("installed {}", crd.name_any());
    }
    for name in policies::install(&client).await? {
        println!("installed the policy {name}");
    }
    Ok(())
}

/// Deletes the definitions with all their objects, and what the controllers leave behind.
///
/// Keeps the webhook configurations of a deployed manager. Works without a running manager: removes
/// its finalizers, and leaves the children to garbage collection.
pub(crate) async fn uninstall() -> Result<()> {
    let client = connect().await?;
    let mut terminating = Vec::new();
    for crd in definitions() {
        let name = crd.name_any();
        let uid = start_deletion(&client, &crd).await.with_context(|| format!("cannot delete {name}"))?;
        terminating.extend(uid.map(|uid| (crd, uid)));
    }
    let mut report = Report::default();
    // The objects are being deleted, so no manager adds its finalizers again.
    cleanup::remove_finalizers(&client, CONTROLLERS, &Scope::Cluster, &mut report).await;
    for (crd, uid) in terminating {
        wait_for_deletion(&client, &crd, &uid).await?;
    }
    cleanup::delete_leftovers(&client, CONTROLLERS, &mut report).await;
    remove_leftovers(&client).await?;
    cleanup::delete_policies(&client, CONTROLLERS, &mut report).await;
    for change in &report.changes {
        println!("{change}");
    }
    match report.errors.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Deletes a definition in the foreground. Returns its UID, or `None` if it does not exist.
async fn start_deletion(client: &Client, crd: &CustomResourceDefinition) -> Result<Option<String>> {
    let name = crd.name_any();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let Some(existing) = api.get_opt(&name).await? else {
        println!("{name} is not installed");
        return Ok(None);
    };
    let this = Preconditions { uid: existing.uid(), resource_version: None };
    match api.delete(&name, &DeleteParams::foreground().preconditions(this)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(existing.uid()),
    }
}

/// Waits until a definition is deleted.
async fn wait_for_deletion(client: &Client, crd: &CustomResourceDefinition, uid: &str) -> Result<()> {
    let (api, name) = (Api::<CustomResourceDefinition>::all(client.clone()), crd.name_any());
    let mut deleted = pin!(await_condition(api.clone(), &name, is_deleted(uid)));
    let (began, mut is_reported) = (Instant::now(), false);
    let result = loop {
        if let Ok(result) = timeout(RETRY_INTERVAL, &mut deleted).await {
            break result;
        }
        let hint = format!(
            "run `kubectl get {name} --all-namespaces --output=yaml` to see the remaining objects and their finalizers"
        );
        ensure!(began.elapsed() < TIMEOUT, "timed out waiting for the deletion of {name}; {hint}");
        if began.elapsed() >= REPORT_AFTER && !is_reported {
            println!("waiting for the deletion of {name}; {hint}");
            is_reported = true;
        }
        trigger_retry(&api, &name, uid).await?;
    };
    result.with_context(|| format!("cannot watch the definition {name}"))?;
    println!("removed {name}");
    Ok(())
}

/// Makes the API server retry the deletion of the objects of a definition.
///
/// Listing them can fail soon after the definition was created (`storage is (re)initializing`). The
/// API server then retries after 5 minutes, or when anything but that condition changes.
async fn trigger_retry(api: &Api<CustomResourceDefinition>, name: &str, uid: &str) -> Result<()> {
    let Some(existing) = api.get_opt(name).await?.filter(has_failed_deletion) else { return Ok(()) };
    let metadata = json!({
        "uid": uid,
        "resourceVersion": existing.resource_version(),
        "annotations": { RETRY_ANNOTATION: existing.resource_version() },
    });
    match api
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(json!({ "metadata": metadata })))
        .await
    {
        Err(error) if !is_not_found(&error) && !is_conflict(&error) => {
            Err(error).with_context(|| format!("cannot annotate the definition {name}"))
        }
        _ => Ok(()),
    }
}

fn has_failed_deletion(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut terminating = conditions.filter(|condition| condition.type_ == "Terminating");
    terminating.any(|condition| condition.reason.as_deref() == Some("InstanceDeletionFailed"))
}
