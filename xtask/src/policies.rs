//! Admission policies of the controllers, which are installed with the definitions and need no
//! manager.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::ClusterResourceScope,
};
use local_manager::FIELD_MANAGER;
use manager::CONTROLLERS;
use operator_core::manifests::webhooks;
use serde::{Serialize, de::DeserializeOwned};

use crate::rbac::NAMESPACE;

fn all() -> Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)> {
    CONTROLLERS.iter().flat_map(|controller| webhooks::policies(controller, NAMESPACE)).collect()
}

/// Installs the policies, and returns their names.
pub(crate) async fn install(client: &Client) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (policy, binding) in all() {
        apply(client, &policy).await?;
        apply(client, &binding).await?;
        names.push(policy.name_any());
    }
    Ok(names)
}

async fn apply<K>(client: &Client, object: &K) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied =
        Api::<K>::all(client.clone()).patch(&object.name_any(), &params, &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| format!("cannot apply the {} {}", K::kind(&()), object.name_any()))
}
