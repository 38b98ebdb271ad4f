//! Subjects that send requests.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::{create_namespace, namespace};
use crate::support::TestEnv;

/// A user or ServiceAccount without administrator rights.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    groups: Vec<String>,
    owner: (&'static str, String),
}

impl Subject {
    /// Returns a Tenant user.
    pub(super) fn user(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: vec!["projectcapsule.dev".to_owned()],
            owner: ("User", name.to_owned()),
        }
    }

    /// Returns a user without groups.
    pub(super) fn without_groups(name: &str) -> Self {
        Self { groups: Vec::new(), ..Self::user(name) }
    }

    /// Returns a Tenant user in a group that owns Tenants.
    pub(super) fn member(name: &str, group: &str) -> Self {
        let groups = vec!["projectcapsule.dev".to_owned(), group.to_owned()];
        Self { name: name.to_owned(), groups, owner: ("Group", group.to_owned()) }
    }

    /// Returns a ServiceAccount that is no Tenant user.
    pub(super) fn account(namespace: &str, name: &str) -> Self {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self { name: user.clone(), groups, owner: ("ServiceAccount", user) }
    }

    /// Adds the group of Tenant users.
    pub(super) fn tenant_user(mut self) -> Self {
        self.groups.push("projectcapsule.dev".to_owned());
        self
    }

    /// Adds a group.
    pub(super) fn in_group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// Returns the owner in the spec of a Tenant.
    pub(super) fn as_owner(&self) -> Value {
        json!({ "kind": self.owner.0, "name": self.owner.1 })
    }

    pub(super) async fn client(&self, env: &TestEnv) -> Client {
        let groups: Vec<_> = self.groups.iter().map(String::as_str).chain(["system:authenticated"]).collect();
        env.cluster.client_as(&self.name, &groups).await.unwrap()
    }

    pub(super) async fn namespaces(&self, env: &TestEnv) -> Api<Namespace> {
        Api::all(self.client(env).await)
    }

    /// Creates a namespace that has only a name.
    pub(super) async fn create(&self, env: &TestEnv, name: &str) -> Result<String, String> {
        self.create_with(env, name, json!({})).await
    }

    /// Creates a namespace with this metadata.
    pub(super) async fn create_with(
        &self,
        env: &TestEnv,
        name: &str,
        metadata: Value,
    ) -> Result<String, String> {
        let namespaces = self.namespaces(env).await;
        let created = create_namespace(&namespaces, &namespace(name, metadata), &PostParams::default()).await;
        created.map_err(|error| {
            if error.contains("did not answer in time") {
                format!("{error}; the API server: {:?}", env.cluster.failed_webhook_calls())
            } else {
                error
            }
        })
    }

    /// Creates a namespace as a dry run.
    pub(super) async fn dry_create(&self, env: &TestEnv, name: &str) -> Result<String, String> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        create_namespace(&self.namespaces(env).await, &namespace(name, json!({})), &params).await
    }

    /// Deletes a namespace.
    pub(super) async fn delete(&self, env: &TestEnv, name: &str) -> Result<(), String> {
        let deleted = self.namespaces(env).await.delete(name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    }
}
