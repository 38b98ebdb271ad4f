//! Test environment and helpers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use cluster::{TestNamespace, wait::eventually};
use harness::Harness;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use namespaceplus::{CA_BUNDLE, HTTP_HOSTS, HookStatus, NamespacePlus, NamespacePlusController};
use operator_core::conditions::{find, is_true};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::tls;

/// Timeout for a single step on a slow machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A namespace for one test on the shared cluster on which the controller runs. `name` is the name
/// of the NamespacePlus in it, and of the namespace that the NamespacePlus creates.
pub(crate) struct TestEnv {
    pub(crate) harness: Arc<Harness>,
    pub(crate) home: TestNamespace,
    pub(crate) name: String,
    pub(crate) client: Client,
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        let bundle = tls::bundle().display().to_string();
        let settings = [(HTTP_HOSTS.flag, "127.0.0.1".to_owned()), (CA_BUNDLE.flag, bundle)].into();
        let harness = harness::controller_with::<NamespacePlusController>(settings).await.unwrap();
        let home = harness.cluster.namespace("teams").await.unwrap();
        let client = harness.cluster.client().await.unwrap();
        let name = home.replace("teams", "plus");
        Self { harness, home, name, client }
    }

    pub(crate) fn all(&self) -> Api<NamespacePlus> {
        Api::namespaced(self.client.clone(), &self.home)
    }

    pub(crate) fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    /// Returns the API for the objects in the created namespace.
    pub(crate) fn inside<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) async fn create(&self, spec: Value) -> NamespacePlus {
        self.all().create(&PostParams::default(), &namespace_plus(&self.name, spec)).await.unwrap()
    }

    /// Creates the NamespacePlus and waits until it is ready.
    pub(crate) async fn ready(&self, spec: Value) -> NamespacePlus {
        self.create(spec).await;
        self.until_ready().await
    }

    pub(crate) async fn change(&self, spec: Value) {
        merge(&self.all(), &self.name, json!({"spec": spec})).await;
    }

    /// Waits until `is_so` holds for the NamespacePlus.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&NamespacePlus) -> bool) -> NamespacePlus {
        eventually(what, TIMEOUT, async || {
            let object = self.all().get(&self.name).await?;
            Ok(if is_so(&object) { Ok(object) } else { Err(object.status) })
        })
        .await
        .unwrap()
    }

    /// Waits until the NamespacePlus is ready for its current spec.
    pub(crate) async fn until_ready(&self) -> NamespacePlus {
        self.until("the NamespacePlus to be ready", is_ready).await
    }

    /// Waits until a condition is False with this reason. Returns its message.
    pub(crate) async fn until_false(&self, type_: &str, reason: &str) -> String {
        let what = format!("{type_} to be False, {reason}");
        let object = self
            .until(&what, |object| {
                condition(object, type_)
                    .is_some_and(|(status, found, _)| status == "False" && found == reason)
            })
            .await;
        condition(&object, type_).unwrap().2
    }

    pub(crate) async fn namespace(&self) -> Namespace {
        self.namespaces().get(&self.name).await.unwrap()
    }

    pub(crate) async fn until_namespace_is_deleted(&self) {
        eventually("the namespace to be deleted", 2 * TIMEOUT, async || {
            Ok(self.namespaces().get_opt(&self.name).await?.is_none())
        })
        .await
        .unwrap();
    }

    pub(crate) async fn until_deleted(&self) {
        eventually("the NamespacePlus to be deleted", 2 * TIMEOUT, async || {
            Ok(self.all().get_opt(&self.name).await?.is_none())
        })
        .await
        .unwrap();
    }

    /// Creates a foreign namespace with the name of the NamespacePlus.
    pub(crate) async fn foreign_namespace(&self, annotations: Value) -> Namespace {
        let namespace = json!({"metadata": {"name": self.name, "annotations": annotations}});
        let namespace = serde_json::from_value(namespace).unwrap();
        self.namespaces().create(&PostParams::default(), &namespace).await.unwrap()
    }

    /// Runs kubectl in the home namespace.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let args = [&["--namespace", self.home.name()], args].concat();
        self.harness.cluster.kubectl(&args).await
    }
}

pub(crate) fn namespace_plus(name: &str, spec: Value) -> NamespacePlus {
    serde_json::from_value(json!({
        "apiVersion": "mygroup.my.domain/v1", "kind": "NamespacePlus", "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

/// Returns whether the NamespacePlus is ready for its current spec.
pub(crate) fn is_ready(object: &NamespacePlus) -> bool {
    let status = object.status.clone().unwrap_or_default();
    status.observed_generation == object.metadata.generation && is_true(&status.conditions, "Ready")
}

/// Returns status, reason, and message of a condition.
pub(crate) fn condition(object: &NamespacePlus, type_: &str) -> Option<(String, String, String)> {
    let found = find(&object.status.as_ref()?.conditions, type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Returns the hook statuses by hook and event.
pub(crate) fn hook_statuses(object: &NamespacePlus) -> HashMap<(String, &'static str), HookStatus> {
    let hooks = object.status.iter().flat_map(|status| status.hooks.clone());
    hooks.map(|one| ((one.name.clone(), one.event.as_str()), one)).collect()
}

/// Waits until all calls that are due are accepted.
pub(crate) async fn until_delivered(env: &TestEnv) -> NamespacePlus {
    env.until("all calls to be accepted", |object| {
        let status = object.status.clone().unwrap_or_default();
        status.observed_generation == object.metadata.generation
            && is_true(&status.conditions, "Ready")
            && is_true(&status.conditions, "HooksDelivered")
    })
    .await
}

/// Applies a merge patch as the administrator.
pub(crate) async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> K
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Returns UID and resource version, to detect writes to the object.
pub(crate) fn version<K: ResourceExt>(object: &K) -> (Option<String>, Option<String>) {
    (object.uid(), object.resource_version())
}
