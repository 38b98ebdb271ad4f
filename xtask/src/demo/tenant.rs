//! A namespace for the tenant of the samples, joined to it as an administrator does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cluster::{Cluster, wait::eventually};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, PostParams},
};
use tenant::api::{names::TENANT_LABEL, v1beta2::Tenant};

/// The tenant of the samples.
const TENANT: &str = "oil";
/// The namespace that joins it.
const NAMESPACE: &str = "oil-development";

/// Creates a namespace with the tenant's label and an owner reference to it, and waits until it has all that the
/// tenant gives. Says how long that took.
pub(crate) async fn join(cluster: &Cluster, patience: Duration) -> Result<String> {
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
        .context("create a namespace")?;
    let bindings = Api::<RoleBinding>::namespaced(client, NAMESPACE);
    eventually("the tenant to take in its namespace", patience, async || {
        let status = tenants.get(TENANT).await?.status.unwrap_or_default();
        Ok(status.size == 1 && !bindings.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    Ok(format!("namespace {NAMESPACE} joined tenant {TENANT} and had all that it gives after {took:.2} s"))
}
