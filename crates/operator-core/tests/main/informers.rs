//! What informers promise.

use std::sync::{Arc, Mutex};

use cluster::{Cluster, Options, wait::eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use operator_core::{
    ObjectKey,
    client::Clients,
    informer::{Change, Informers, Selection},
    metrics::{Metrics, WatchRestart},
};

use crate::{
    gate::Gate,
    support::{PATIENCE, World, config_map, synced},
};

/// What a subscriber was told.
type Told = Arc<Mutex<Vec<String>>>;

/// Collects what happens in one namespace as `+name`, `~name`, `-name`.
fn told(world: &World) -> (Told, impl Fn(&Change<ConfigMap>) + Send + Sync + use<>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (sink, namespace) = (log.clone(), world.namespace.name().to_owned());
    let tell = move |change: &Change<ConfigMap>| {
        if change.key.namespace() == Some(&namespace) && change.key.name() != "kube-root-ca.crt" {
            let sign = match (&change.old, &change.new) {
                (None, _) => "+",
                (Some(_), Some(_)) => "~",
                (Some(_), None) => "-",
            };
            sink.lock().unwrap().push(format!("{sign}{}", change.key.name()));
        }
    };
    (log, tell)
}

async fn until_told(log: &Mutex<Vec<String>>, want: &[&str]) {
    eventually("the subscriber to be told", PATIENCE, async || {
        let log = log.lock().unwrap().clone();
        Ok(if log == want { Ok(()) } else { Err(log) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_subscriber_is_told_of_what_is_there_and_of_every_change_and_delete() {
    let world = World::new().await;
    world.create(config_map("first", &[])).await;
    eventually("the informer to know", PATIENCE, async || {
        Ok(world.informer.store().get(&world.key("first")).is_some())
    })
    .await
    .unwrap();
    let (log, tell) = told(&world);
    let subscription = world.informer.subscribe(tell);
    until_told(&log, &["+first"]).await;
    let mut changed = world.config_maps().get("first").await.unwrap();
    changed.data = Some([("a".to_owned(), "b".to_owned())].into());
    world.config_maps().replace("first", &PostParams::default(), &changed).await.unwrap();
    until_told(&log, &["+first", "~first"]).await;
    world.config_maps().delete("first", &DeleteParams::default()).await.unwrap();
    until_told(&log, &["+first", "~first", "-first"]).await;

    drop(subscription);
    let (other, tell) = told(&world);
    let _other = world.informer.subscribe(tell);
    world.create(config_map("second", &[])).await;
    until_told(&other, &["+second"]).await;
    assert_eq!(log.lock().unwrap().len(), 3, "a dropped subscription is told nothing more");
}

#[tokio::test]
async fn what_vanished_while_the_watch_was_down_is_reported_after_the_relist() {
    let world = World::new().await;
    let gate = Gate::new();
    let watches = Arc::new(Watches::default());
    let informers = Informers::with_metrics(gate.client(&world.client), watches.clone());
    let informer = informers.get::<ConfigMap>(Selection::All);
    synced(&informer).await;
    let (log, tell) = told(&world);
    let _subscription = informer.subscribe(tell);
    world.create(config_map("stays", &[])).await;
    world.create(config_map("goes", &[])).await;
    until_told(&log, &["+stays", "+goes"]).await;

    gate.cut();
    world.config_maps().delete("goes", &DeleteParams::default()).await.unwrap();
    world.create(config_map("comes", &[])).await;
    gate.restore_expired();
    eventually("the relist", PATIENCE, async || Ok(informer.store().get(&world.key("comes")).is_some()))
        .await
        .unwrap();
    eventually("the vanished object to be reported", PATIENCE, async || {
        let log = log.lock().unwrap().clone();
        Ok(if log.contains(&"-goes".to_owned()) { Ok(()) } else { Err(log) })
    })
    .await
    .unwrap();
    assert!(!log.lock().unwrap().iter().any(|entry| entry == "-stays" || entry == "~stays"));

    let restarts = watches.restarts.lock().unwrap().clone();
    assert!(restarts.iter().all(|(kind, _)| kind == "ConfigMap"), "{restarts:?}");
    let listed = restarts.iter().filter(|(_, why)| *why == WatchRestart::Listed).count();
    assert_eq!(listed, 2, "at the start and after it expired: {restarts:?}");
    assert!(restarts.iter().any(|(_, why)| *why == WatchRestart::Failed), "{restarts:?}");
    assert_eq!(watches.objects(), [("ConfigMap".to_owned(), informer.store().len())]);
    drop(informers);
    assert_eq!(watches.objects(), []);
}

/// What is told about watches.
#[derive(Default)]
struct Watches {
    restarts: Mutex<Vec<(String, WatchRestart)>>,
    objects: Mutex<Option<Objects>>,
}

/// How many objects the informers hold, by kind.
type Objects = Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>;

impl Watches {
    fn objects(&self) -> Vec<(String, usize)> {
        self.objects.lock().unwrap().as_ref().unwrap()()
    }
}

impl Metrics for Watches {
    fn watch_restarted(&self, kind: &str, why: WatchRestart) {
        self.restarts.lock().unwrap().push((kind.to_owned(), why));
    }

    fn informers(&self, objects: Objects) {
        *self.objects.lock().unwrap() = Some(objects);
    }
}

#[tokio::test]
async fn there_is_one_watch_for_a_kind_and_selection_however_many_ask() {
    let world = World::new().await;
    let agent = format!("informers-{}", world.namespace.name());
    let informers = Informers::new(Clients::new(world.client.clone()).named(&agent));
    let (one, two) = (informers.get::<ConfigMap>(Selection::All), informers.get::<ConfigMap>(Selection::All));
    synced(&one).await;
    synced(&two).await;
    assert_eq!(informers.unsynced(), Vec::<String>::new());
    world.create(config_map("seen", &[])).await;
    eventually("both to know", PATIENCE, async || {
        let key = world.key("seen");
        Ok(one.store().get(&key).is_some() && two.store().get(&key).is_some())
    })
    .await
    .unwrap();
    let agent = format!("ensemble/{} ({agent})", env!("CARGO_PKG_VERSION"));
    drop(informers);
    // The audit log has a watch when it ends.
    eventually("the watch to be in the audit log", PATIENCE, async || {
        Ok(world
            .cluster
            .audit_since(world.began)?
            .by_user_agent(&agent)
            .entries
            .iter()
            .any(|entry| entry.verb == "watch"))
    })
    .await
    .unwrap();
    let watches = world
        .cluster
        .audit_since(world.began)
        .unwrap()
        .by_user_agent(&agent)
        .filter(|entry| entry.verb == "watch");
    let paths: Vec<_> = watches.entries.iter().map(|entry| entry.resource.as_str()).collect();
    assert!(paths.len() <= 2, "one streamed list and the watch after it: {watches:?}");
}

#[tokio::test]
async fn the_managed_selection_holds_only_what_carries_the_label() {
    let world = World::new().await;
    let mut unlabelled = config_map("unlabelled", &[]);
    unlabelled.metadata.labels = None;
    world.create(unlabelled).await;
    world.create(config_map("labelled", &[])).await;
    eventually("the labelled one", PATIENCE, async || {
        Ok(world.informer.store().get(&world.key("labelled")).is_some())
    })
    .await
    .unwrap();
    let names: Vec<_> = world.informer.store().list().iter().map(|object| object.name_any()).collect();
    assert!(!names.contains(&"unlabelled".to_owned()));
    assert!(world.config_maps().list(&ListParams::default()).await.unwrap().items.len() > 1);
}

#[tokio::test]
async fn a_server_that_does_not_stream_lists_is_read_in_pages() {
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
