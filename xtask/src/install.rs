//! `install` and `uninstall`: the custom resource definitions in the cluster that the kubeconfig names.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use operator_core::error::{is_not_found, status};
use operator_runtime::{connect::connect, crds::install as apply};
use serde_json::json;

use crate::{crds::definitions, policies, workstation};

/// Registers the definitions, and the policies that hold whether a manager runs or not.
pub(crate) async fn install() -> Result<()> {
    let (client, definitions) = (connect().await?, definitions());
    apply(&client, &definitions).await?;
    for crd in &definitions {
        println!("installed {}", crd.name_any());
    }
    for name in policies::install(&client).await? {
        println!("installed the policy {name}");
    }
    Ok(())
}

/// Removes the policies and the definitions, and with them all their objects.
///
/// Works whether the manager runs or not: finalizers of objects are taken off, for nobody may be there any
/// more to do it, and what garbage collection cleans up is cleaned up by it.
pub(crate) async fn uninstall() -> Result<()> {
    let client = connect().await?;
    workstation::remove_leftovers(&client).await?;
    for name in policies::remove(&client).await? {
        println!("removed the policy {name}");
    }
    for crd in definitions() {
        remove(&client, &crd).await.with_context(|| format!("cannot remove {}", crd.name_any()))?;
    }
    Ok(())
}

async fn remove(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.name_any();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let Some(present) = api.get_opt(&name).await? else {
        println!("{name} is not installed");
        return Ok(());
    };
    api.delete(&name, &DeleteParams::foreground()).await?;
    let released = release(client, crd).await?;
    await_condition(api, &name, is_deleted(&present.uid().unwrap_or_default())).await?;
    println!("removed {name}{released}");
    Ok(())
}

/// Takes all finalizers off the objects of a definition. Says how many had any.
async fn release(client: &Client, crd: &CustomResourceDefinition) -> Result<String> {
    let Some(version) = crd.spec.versions.iter().find(|version| version.storage) else {
        return Ok(String::new());
    };
    let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
    let objects =
        match Api::<DynamicObject>::all_with(client.clone(), &resource).list(&ListParams::default()).await {
            // A kind that is gone already has no Status in its answer.
            Err(error) if status(&error).is_some_and(|status| status.code == 404) => return Ok(String::new()),
            objects => objects?,
        };
    let held: Vec<_> = objects.iter().filter(|object| !object.finalizers().is_empty()).collect();
    for object in &held {
        let api = match object.namespace() {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        match api.patch(&object.name_any(), &PatchParams::default(), &patch).await {
            Err(error) if !is_not_found(&error) => return Err(error.into()),
            _ => {}
        }
    }
    let count = held.len();
    Ok(if count == 0 { String::new() } else { format!(" (took the finalizers off {count} objects)") })
}
