//! People who ask.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::{created, namespace};
use crate::support::Stage;

/// Somebody who is no administrator of the cluster.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) name: String,
    groups: Vec<String>,
    owner: (&'static str, String),
}

impl Person {
    /// One of those who may own Tenants.
    pub(super) fn user(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["projectcapsule.dev".to_owned()],
            owner: ("User", name.to_owned()),
        }
    }

    /// Somebody in no group.
    pub(super) fn nobody(name: &str) -> Self {
        Self { groups: Vec::new(), ..Self::user(name) }
    }

    /// One of those who may own Tenants, who owns what this group owns.
    pub(super) fn member(name: &str, group: &str) -> Self {
        let groups = vec!["projectcapsule.dev".to_owned(), group.to_owned()];
        Self { name: name.to_owned(), groups, owner: ("Group", group.to_owned()) }
    }

    /// A ServiceAccount, who may own nothing by itself.
    pub(super) fn account(namespace: &str, name: &str) -> Self {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self { name: user.clone(), groups, owner: ("ServiceAccount", user) }
    }

    /// The same, among those who may own Tenants.
    pub(super) fn who_may_own(mut self) -> Self {
        self.groups.push("projectcapsule.dev".to_owned());
        self
    }

    /// The same in another group.
    pub(super) fn in_group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// As an owner in the spec of a Tenant.
    pub(super) fn as_owner(&self) -> Value {
        json!({ "kind": self.owner.0, "name": self.owner.1 })
    }

    pub(super) async fn client(&self, stage: &Stage) -> Client {
        let groups: Vec<_> = self.groups.iter().map(String::as_str).chain(["system:authenticated"]).collect();
        stage.cluster.client_as(&self.name, &groups).await.unwrap()
    }

    pub(super) async fn namespaces(&self, stage: &Stage) -> Api<Namespace> {
        Api::all(self.client(stage).await)
    }

    /// Creates a namespace of which they say no more than the name.
    pub(super) async fn create(&self, stage: &Stage, name: &str) -> Result<String, String> {
        self.create_with(stage, name, json!({})).await
    }

    /// Creates a namespace with this metadata.
    pub(super) async fn create_with(
        &self,
        stage: &Stage,
        name: &str,
        metadata: Value,
    ) -> Result<String, String> {
        created(&self.namespaces(stage).await, &namespace(name, metadata), &PostParams::default()).await
    }

    /// What would come of it.
    pub(super) async fn dry_create(&self, stage: &Stage, name: &str) -> Result<String, String> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        created(&self.namespaces(stage).await, &namespace(name, json!({})), &params).await
    }

    /// Deletes a namespace.
    pub(super) async fn delete(&self, stage: &Stage, name: &str) -> Result<(), String> {
        let deleted = self.namespaces(stage).await.delete(name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    }
}
