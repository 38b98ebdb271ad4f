//! Fixture of the tests: a namespace, an informer, and children.

use std::{collections::BTreeMap, time::Duration};

use cluster::{Cluster, TestNamespace, audit::Mark};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use operator_core::{
    ObjectKey,
    client::Clients,
    informer::{Informer, Informers, Selection},
    labels::{MANAGED_BY, MANAGER},
    owner::Owner,
    write::Children,
};

/// Timeout of waits. Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A namespace with ConfigMaps as children.
pub(crate) struct Fixture {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: TestNamespace,
    pub(crate) client: Client,
    pub(crate) informer: Informer<ConfigMap>,
    /// Children with a user agent of this test.
    pub(crate) children: Children<ConfigMap>,
    pub(crate) agent: String,
    pub(crate) began: Mark,
    _informers: Informers,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let cluster = cluster::shared().await.unwrap();
        let began = cluster.audit_mark().unwrap();
        let namespace = cluster.namespace("core").await.unwrap();
        let client = cluster.client().await.unwrap();
        let clients = Clients::new(client.clone());
        let informers = Informers::new(clients.named("informers"));
        let informer = informers.get::<ConfigMap>(Selection::Managed);
        synced(&informer).await;
        let children = Children::new(clients.named(namespace.name()), informer.clone());
        let agent = format!("ensemble/{} ({})", env!("CARGO_PKG_VERSION"), namespace.name());
        Self { cluster, namespace, client, informer, children, agent, began, _informers: informers }
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.namespace, name)
    }

    /// Creates an object that can own others.
    pub(crate) async fn owner(&self, name: &str) -> Owner {
        let owner = self.create(config_map(name, &[])).await;
        Owner::controller(&owner, Some(&self.namespace)).unwrap()
    }

    pub(crate) async fn create(&self, object: ConfigMap) -> ConfigMap {
        self.config_maps().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Returns the verbs of all requests of the children's client so far.
    pub(crate) fn verbs(&self) -> Vec<String> {
        let log = self.cluster.audit_since(self.began).unwrap().by_user_agent(&self.agent);
        log.entries.into_iter().map(|entry| entry.verb).collect()
    }
}

pub(crate) async fn synced(informer: &Informer<ConfigMap>) {
    tokio::time::timeout(PATIENCE, informer.synced().wait_for(|synced| *synced)).await.unwrap().unwrap();
}

pub(crate) fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        data: Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
        ..ConfigMap::default()
    }
}

/// Returns a function that sets one key and the managed-by label.
pub(crate) fn set(key: &str, value: &str) -> impl Fn(&mut ConfigMap) {
    let (key, value) = (key.to_owned(), value.to_owned());
    move |object| {
        object.metadata.labels.get_or_insert_default().insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
        object.data.get_or_insert_default().insert(key.clone(), value.clone());
    }
}
