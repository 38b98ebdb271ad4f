//! Adds a namespace to the sample Tenant, as an administrator does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use capsule::api::{names::TENANT_LABEL, v1beta2::Tenant};
use cluster::{Cluster, wait::eventually};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, PostParams},
};

/// Name of the sample Tenant.
const TENANT: &str = "oil";
/// Name of its namespace.
const NAMESPACE: &str = "oil-development";

/// Creates a namespace with the label and the owner reference of the Tenant, and waits until it is
/// complete.
///
/// Returns a sentence with the elapsed time, or an empty string if the Tenant does not exist.
pub(crate) async fn add_namespace(cluster: &Cluster, timeout: Duration) -> Result<String> {
    let client = cluster.client().await?;
    let tenants = Api::<Tenant>::all(client.clone());
    let Some(tenant) = tenants.get_opt(TENANT).await? else { return Ok(String::new()) };
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    namespace.metadata.labels = Some([(TENANT_LABEL.to_owned(), tenant.name_any())].into());
    namespace.metadata.owner_references = tenant.owner_ref(&()).map(|owner| vec![owner]);
    let began = Instant::now();
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .context("cannot create a namespace")?;
    let bindings = Api::<RoleBinding>::namespaced(client, NAMESPACE);
    eventually("the namespace of the Tenant to be complete", timeout, async || {
        let status = tenants.get(TENANT).await?.status.unwrap_or_default();
        Ok(status.size == 1 && !bindings.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    Ok(format!("namespace {NAMESPACE} of Tenant {TENANT} was complete after {took:.2} s"))
}
