//! A cluster with Tenants, and a proxy before it.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, Result};
use capsule::Tenant;
use cluster::{Cluster, Companion, Options, wait::eventually};
use futures::{TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use local_manager::{
    launch::prepare,
    proxy::{LocalProxy, start_proxy},
};
use serde_json::{Value, json};

use super::client::Target;
use crate::TIMEOUT;

/// Namespaces of the user, among all.
pub(super) const OWN: usize = 10;
/// Concurrent requests that create objects.
const CONCURRENCY: usize = 16;
/// Namespace and name of the object that is read: 2 KiB.
pub(super) const OBJECT: &str = "/api/v1/namespaces/oil-0/configmaps/object";
/// Objects of together 20 MiB.
pub(super) const LARGE: &str = "/api/v1/namespaces/oil-0/configmaps";

/// A running proxy, and the same user with and without it.
pub(super) struct Environment {
    pub(super) cluster: Cluster,
    pub(super) proxy: Companion,
    pub(super) through: Target,
    pub(super) direct: Target,
    /// Lists the user's namespaces without the proxy, as an administrator.
    pub(super) admin: Target,
}

impl Environment {
    /// Starts a cluster and a proxy.
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let cluster = Cluster::start(Options { nodes: 0, controllers: false, ..Options::default() }).await?;
        prepare(&cluster).await?;
        cluster.apply_yaml(RIGHTS).await?;
        let LocalProxy { process, address, authority } = start_proxy(&cluster, program).await?;
        let api_server = SocketAddr::from(([127, 0, 0, 1], cluster.record().ports.api_server));
        let (token, ca) = (cluster.user_token("alice")?, cluster.certificate_authority()?);
        let through = Target::new(address, &authority, &token)?;
        let direct = Target::new(api_server, &ca, &token)?;
        let admin = Target::new(api_server, &ca, &cluster.user_token("carol")?)?;
        let environment = Self { cluster, proxy: process, through, direct, admin };
        let answers = async || Ok(environment.get_version().await.map_err(|error| format!("{error:#}")));
        eventually("the proxy to answer", TIMEOUT, answers).await?;
        Ok(environment)
    }

    async fn get_version(&self) -> Result<usize> {
        self.through.connect().await?.get("/version").await
    }

    /// Creates Tenants with a namespace each. The first one is the user's, and has more.
    pub(super) async fn create(&self, tenants: usize) -> Result<()> {
        let client = self.cluster.client().await?;
        let all = (0..tenants).map(|number| {
            let (name, owner) =
                if number == 0 { ("oil".to_owned(), "alice") } else { (format!("t-{number}"), "bob") };
            json!({"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": {"name": name},
                "spec": {"owners": [{"kind": "User", "name": owner}]}})
        });
        apply::<Tenant>(&client, None, all).await?;
        let own = (0..OWN).map(|number| ("oil".to_owned(), format!("oil-{number}")));
        let others = (1..tenants).map(|number| (format!("t-{number}"), format!("t-{number}-dev")));
        let namespaces = own.chain(others).map(|(tenant, name)| {
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"capsule.clastix.io/tenant": tenant}}})
        });
        apply::<Namespace>(&client, None, namespaces).await?;
        let large = (0..25).map(|number| (format!("large-{number}"), 800 << 10));
        let maps = large.chain([("object".to_owned(), 1 << 10)]).map(|(name, bytes)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"text": "x".repeat(bytes)}})
        });
        apply::<ConfigMap>(&client, Some("oil-0"), maps).await?;
        let sees = async || Ok(self.namespaces().await.map_err(|error| format!("{error:#}")));
        eventually("the user to see the namespaces", TIMEOUT, sees).await?;
        Ok(())
    }

    async fn namespaces(&self) -> Result<usize> {
        self.through.connect().await?.get("/api/v1/namespaces").await
    }

    /// Makes the user the owner of one more Tenant, or of one less.
    pub(super) async fn set_owner(&self, owner: &str) -> Result<()> {
        let tenants = Api::<Tenant>::all(self.cluster.client().await?);
        let patch = json!({"spec": {"owners": [{"kind": "User", "name": owner}]}});
        tenants.patch("t-1", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

/// alice may read ConfigMaps, and carol may list namespaces.
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench}
rules:
  - {apiGroups: [''], resources: [configmaps], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench-lists}
rules:
  - {apiGroups: [''], resources: [namespaces], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench-lists}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench-lists}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
";

/// Applies objects, several at once.
async fn apply<K>(
    client: &Client,
    namespace: Option<&str>,
    objects: impl Iterator<Item = Value>,
) -> Result<()>
where
    K: operator_core::kind::Kind + serde::Serialize,
{
    let api = K::api(client.clone(), namespace);
    let apply = async |object: Value| {
        let name =
            object.pointer("/metadata/name").and_then(Value::as_str).context("an object has no name")?;
        let name = name.to_owned();
        api.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(object)).await?;
        anyhow::Ok(())
    };
    stream::iter(objects.map(anyhow::Ok)).try_for_each_concurrent(CONCURRENCY, apply).await
}

/// Pause between two measurements, so that what the last one has left behind ends.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
