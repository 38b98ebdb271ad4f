//! `install` and `uninstall`: the custom resource definitions in the cluster that the kubeconfig names.

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
use manager::CONTROLLERS;
use operator_core::{
    error::{is_conflict, is_not_found},
    informer::Scope,
};
use operator_runtime::{
    connect::connect,
    release::{self, Report},
};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    crds::{self, definitions},
    policies, workstation,
};

/// How long a definition may take to go. What holds it longer is nothing of ours.
const PATIENCE: Duration = Duration::from_mins(2);
/// After how long it is said what is waited for.
const SOON: Duration = Duration::from_secs(10);
/// How often an API server is reminded of a definition whose objects it could not look for.
const REMIND: Duration = Duration::from_secs(2);
/// Is changed to remind it.
const REMINDED: &str = "ensemble.example.com/reminded";

/// Registers the definitions, waits until each kind can be listed, and registers the policies that hold whether a manager
/// runs or not.
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

/// Removes the definitions, with them all their objects, and what is left of the controllers then. Webhook configurations
/// of a manager that is deployed stay.
///
/// Works whether the manager runs or not: its finalizers are taken off, for nobody may be there any more to do it, and
/// what garbage collection cleans up is cleaned up by it.
pub(crate) async fn uninstall() -> Result<()> {
    let client = connect().await?;
    let mut leaving = Vec::new();
    for crd in definitions() {
        let name = crd.name_any();
        let gone = begin_removal(&client, &crd).await.with_context(|| format!("cannot remove {name}"))?;
        leaving.extend(gone.map(|uid| (crd, uid)));
    }
    let mut report = Report::default();
    // Now that their objects are being deleted, no manager puts them on again.
    release::finalizers(&client, CONTROLLERS, &Scope::Cluster, &mut report).await;
    for (crd, uid) in leaving {
        end_removal(&client, &crd, &uid).await?;
    }
    release::leftovers(&client, CONTROLLERS, &mut report).await;
    workstation::remove_leftovers(&client).await?;
    release::policies(&client, CONTROLLERS, &mut report).await;
    for done in &report.done {
        println!("{done}");
    }
    match report.failed.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Deletes a definition; it goes when its objects have gone. Returns its UID, if it was there.
async fn begin_removal(client: &Client, crd: &CustomResourceDefinition) -> Result<Option<String>> {
    let name = crd.name_any();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let Some(present) = api.get_opt(&name).await? else {
        println!("{name} is not installed");
        return Ok(None);
    };
    let this = Preconditions { uid: present.uid(), resource_version: None };
    match api.delete(&name, &DeleteParams::foreground().preconditions(this)).await {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(present.uid()),
    }
}

/// Waits until a definition is gone.
async fn end_removal(client: &Client, crd: &CustomResourceDefinition, uid: &str) -> Result<()> {
    let (api, name) = (Api::<CustomResourceDefinition>::all(client.clone()), crd.name_any());
    let mut gone = pin!(await_condition(api.clone(), &name, is_deleted(uid)));
    let (began, mut is_told) = (Instant::now(), false);
    let gone = loop {
        if let Ok(gone) = timeout(REMIND, &mut gone).await {
            break gone;
        }
        let look = format!(
            "`kubectl get {name} --all-namespaces --output=yaml` shows the objects that are left, and whose finalizers hold them"
        );
        ensure!(began.elapsed() < PATIENCE, "{name} is still there: {look}");
        if began.elapsed() >= SOON && !is_told {
            println!("waiting for {name} to go: {look}");
            is_told = true;
        }
        remind(&api, &name, uid).await?;
    };
    gone.with_context(|| format!("cannot watch the definition {name}"))?;
    println!("removed {name}");
    Ok(())
}

/// An API server that could not look for the objects of a definition, which happens soon after it was made (`storage is
/// (re)initializing`), looks again after 5 minutes, or when anything but that very condition changes.
async fn remind(api: &Api<CustomResourceDefinition>, name: &str, uid: &str) -> Result<()> {
    let Some(present) = api.get_opt(name).await?.filter(is_forgotten) else { return Ok(()) };
    let metadata = json!({
        "uid": uid,
        "resourceVersion": present.resource_version(),
        "annotations": { REMINDED: present.resource_version() },
    });
    match api
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(json!({ "metadata": metadata })))
        .await
    {
        Err(error) if !is_not_found(&error) && !is_conflict(&error) => {
            Err(error).with_context(|| format!("cannot remind the API server of the definition {name}"))
        }
        _ => Ok(()),
    }
}

fn is_forgotten(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut terminating = conditions.filter(|condition| condition.type_ == "Terminating");
    terminating.any(|condition| condition.reason.as_deref() == Some("InstanceDeletionFailed"))
}
