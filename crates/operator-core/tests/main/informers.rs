//! Informers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cluster::{Cluster, Options, wait::eventually};
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResource, CustomResourceExt, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use operator_core::{
    ObjectKey,
    client::Clients,
    informer::{Change, Informers, Selection},
    metrics::{Metrics, WatchRestart},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    gate::Gate,
    support::{Fixture, PATIENCE, config_map, synced},
};

/// Changes that a subscriber received.
type Changes = Arc<Mutex<Vec<String>>>;

/// Returns a subscriber that records the changes in one namespace as `+name`, `~name`, `-name`.
fn subscriber(fixture: &Fixture) -> (Changes, impl Fn(&Change<ConfigMap>) + Send + Sync + use<>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (sink, namespace) = (log.clone(), fixture.namespace.name().to_owned());
    let record = move |change: &Change<ConfigMap>| {
        if change.key.namespace() == Some(&namespace) && change.key.name() != "kube-root-ca.crt" {
            let sign = match (&change.old, &change.new) {
                (None, _) => "+",
                (Some(_), Some(_)) => "~",
                (Some(_), None) => "-",
            };
            sink.lock().unwrap().push(format!("{sign}{}", change.key.name()));
        }
    };
    (log, record)
}

async fn until_changes(log: &Mutex<Vec<String>>, want: &[&str]) {
    eventually("the subscriber to receive the changes", PATIENCE, async || {
        let log = log.lock().unwrap().clone();
        Ok(if log == want { Ok(()) } else { Err(log) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn subscriber_receives_cached_objects_and_every_change() {
    let fixture = Fixture::new().await;
    fixture.create(config_map("first", &[])).await;
    eventually("the informer to contain the object", PATIENCE, async || {
        Ok(fixture.informer.store().get(&fixture.key("first")).is_some())
    })
    .await
    .unwrap();
    let (log, record) = subscriber(&fixture);
    let subscription = fixture.informer.subscribe(record);
    until_changes(&log, &["+first"]).await;
    let mut changed = fixture.config_maps().get("first").await.unwrap();
    changed.data = Some([("a".to_owned(), "b".to_owned())].into());
    fixture.config_maps().replace("first", &PostParams::default(), &changed).await.unwrap();
    until_changes(&log, &["+first", "~first"]).await;
    fixture.config_maps().delete("first", &DeleteParams::default()).await.unwrap();
    until_changes(&log, &["+first", "~first", "-first"]).await;

    drop(subscription);
    let (other, record) = subscriber(&fixture);
    let _other = fixture.informer.subscribe(record);
    fixture.create(config_map("second", &[])).await;
    until_changes(&other, &["+second"]).await;
    assert_eq!(log.lock().unwrap().len(), 3, "a dropped subscription receives nothing");
}

#[tokio::test]
async fn relist_reports_deletions_during_an_interruption() {
    let fixture = Fixture::new().await;
    let gate = Gate::new();
    let watches = Arc::new(Watches::default());
    let informers = Informers::with_metrics(gate.client(&fixture.client), watches.clone());
    let informer = informers.get::<ConfigMap>(Selection::All);
    synced(&informer).await;
    let (log, record) = subscriber(&fixture);
    let _subscription = informer.subscribe(record);
    fixture.create(config_map("kept", &[])).await;
    fixture.create(config_map("deleted", &[])).await;
    until_changes(&log, &["+kept", "+deleted"]).await;

    gate.cut();
    fixture.config_maps().delete("deleted", &DeleteParams::default()).await.unwrap();
    fixture.create(config_map("created", &[])).await;
    gate.restore_expired();
    eventually("the relist", PATIENCE, async || Ok(informer.store().get(&fixture.key("created")).is_some()))
        .await
        .unwrap();
    eventually("the deletion to be reported", PATIENCE, async || {
        let log = log.lock().unwrap().clone();
        Ok(if log.contains(&"-deleted".to_owned()) { Ok(()) } else { Err(log) })
    })
    .await
    .unwrap();
    assert!(!log.lock().unwrap().iter().any(|entry| entry == "-kept" || entry == "~kept"));

    let restarts = watches.restarts.lock().unwrap().clone();
    assert!(restarts.iter().all(|(kind, _)| kind == "ConfigMap"), "{restarts:?}");
    let listed = restarts.iter().filter(|(_, reason)| *reason == WatchRestart::Listed).count();
    assert_eq!(listed, 2, "at the start and after the expiry: {restarts:?}");
    assert!(restarts.iter().any(|(_, reason)| *reason == WatchRestart::Failed), "{restarts:?}");
    assert_eq!(watches.objects(), [("ConfigMap".to_owned(), informer.store().len())]);
    drop(informers);
    assert_eq!(watches.objects(), []);
}

/// Records the metrics of watches.
#[derive(Default)]
struct Watches {
    restarts: Mutex<Vec<(String, WatchRestart)>>,
    objects: Mutex<Option<Objects>>,
}

/// Function that returns the number of cached objects by kind.
type Objects = Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>;

impl Watches {
    fn objects(&self) -> Vec<(String, usize)> {
        self.objects.lock().unwrap().as_ref().unwrap()()
    }
}

impl Metrics for Watches {
    fn watch_restarted(&self, kind: &str, reason: WatchRestart) {
        self.restarts.lock().unwrap().push((kind.to_owned(), reason));
    }

    fn informers(&self, objects: Objects) {
        *self.objects.lock().unwrap() = Some(objects);
    }
}

#[tokio::test]
async fn informers_of_a_kind_and_selection_share_one_watch() {
    let fixture = Fixture::new().await;
    let agent = format!("informers-{}", fixture.namespace.name());
    let informers = Informers::new(Clients::new(fixture.client.clone()).named(&agent));
    let (one, two) = (informers.get::<ConfigMap>(Selection::All), informers.get::<ConfigMap>(Selection::All));
    synced(&one).await;
    synced(&two).await;
    assert_eq!(informers.unsynced(), Vec::<String>::new());
    fixture.create(config_map("shared", &[])).await;
    eventually("both informers to contain the object", PATIENCE, async || {
        let key = fixture.key("shared");
        Ok(one.store().get(&key).is_some() && two.store().get(&key).is_some())
    })
    .await
    .unwrap();
    let agent = format!("ensemble/{} ({agent})", env!("CARGO_PKG_VERSION"));
    drop(informers);
    // The audit log contains a watch when it ends.
    eventually("the watch to be in the audit log", PATIENCE, async || {
        Ok(fixture
            .cluster
            .audit_since(fixture.began)?
            .by_user_agent(&agent)
            .entries
            .iter()
            .any(|entry| entry.verb == "watch"))
    })
    .await
    .unwrap();
    let watches = fixture
        .cluster
        .audit_since(fixture.began)
        .unwrap()
        .by_user_agent(&agent)
        .filter(|entry| entry.verb == "watch");
    let paths: Vec<_> = watches.entries.iter().map(|entry| entry.resource.as_str()).collect();
    assert!(paths.len() <= 2, "one streamed list and the watch after it: {watches:?}");
}

#[tokio::test]
async fn managed_selection_contains_only_labelled_objects() {
    let fixture = Fixture::new().await;
    let mut unlabelled = config_map("unlabelled", &[]);
    unlabelled.metadata.labels = None;
    fixture.create(unlabelled).await;
    fixture.create(config_map("labelled", &[])).await;
    eventually("the labelled object", PATIENCE, async || {
        Ok(fixture.informer.store().get(&fixture.key("labelled")).is_some())
    })
    .await
    .unwrap();
    let names: Vec<_> = fixture.informer.store().list().iter().map(|object| object.name_any()).collect();
    assert!(!names.contains(&"unlabelled".to_owned()));
    assert!(fixture.config_maps().list(&ListParams::default()).await.unwrap().items.len() > 1);
}

/// Kind that the API server does not know before the test installs it.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "optional.example.com", version = "v1", kind = "Plugin")]
struct PluginSpec {}

#[tokio::test]
async fn kind_that_is_not_served_has_no_objects_until_it_is_installed() {
    let fixture = Fixture::new().await;
    let watches = Arc::new(Watches::default());
    let informers = Informers::with_metrics(fixture.client.clone(), watches.clone());
    let informer = informers.get::<Plugin>(Selection::IfServed);
    tokio::time::timeout(PATIENCE, informer.synced().wait_for(|synced| *synced)).await.unwrap().unwrap();
    assert_eq!(informers.unsynced(), Vec::<String>::new());
    assert!(informer.store().list().is_empty() && !informer.has_failed_for(Duration::ZERO));
    assert_eq!(watches.restarts.lock().unwrap().as_slice(), [], "a missing kind is no failure");

    let definitions: Api<CustomResourceDefinition> = Api::all(fixture.client.clone());
    definitions.create(&PostParams::default(), &Plugin::crd()).await.unwrap();
    let plugins: Api<Plugin> = Api::all(fixture.client.clone());
    eventually("the kind to be served", PATIENCE, async || {
        Ok(plugins.create(&PostParams::default(), &Plugin::new("one", PluginSpec {})).await)
    })
    .await
    .unwrap();
    let key = ObjectKey::cluster("one");
    eventually("the informer to find the kind", PATIENCE * 2, async || {
        Ok(informer.store().get(&key).is_some())
    })
    .await
    .unwrap();
    definitions.delete(&Plugin::crd().name_any(), &DeleteParams::default()).await.unwrap();
    eventually("the cache to be empty", PATIENCE * 2, async || Ok(informer.store().list().is_empty()))
        .await
        .unwrap();
}

#[tokio::test]
async fn lists_in_pages_if_the_server_cannot_stream_lists() {
    let options =
        Options { api_server_args: vec!["--feature-gates=WatchList=false".into()], ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let client = cluster.client().await.unwrap();
    let informers = Informers::new(client.clone());
    let informer = informers.get::<ConfigMap>(Selection::All);
    synced(&informer).await;
    let created = Api::default_namespaced(client)
        .create(&PostParams::default(), &config_map("new", &[]))
        .await
        .unwrap();
    eventually("the new object", PATIENCE, async || {
        Ok(informer.store().get(&ObjectKey::of(&created)).is_some())
    })
    .await
    .unwrap();
    let lists =
        cluster.audit().unwrap().filter(|entry| entry.verb == "list" && entry.resource == "configmaps");
    assert!(lists.entries.iter().any(|entry| entry.request_uri.contains("limit=100")), "{lists:?}");
    cluster.stop().unwrap();
}
