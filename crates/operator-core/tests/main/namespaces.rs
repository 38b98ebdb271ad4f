//! Informers of a process that looks into some namespaces only.

use std::{collections::BTreeSet, sync::Arc};

use cluster::{TestNamespace, wait::eventually};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    core::ObjectMeta,
};
use operator_core::{
    ObjectKey,
    client::Clients,
    informer::{Informer, Informers, Scope, Selection},
    metrics::NoMetrics,
    rbac::{Grant, LIST, WATCH, rule},
};

use crate::{
    gate::Gate,
    support::{PATIENCE, World, config_map, synced},
};

fn within(client: Client, names: &[&str]) -> Informers {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Informers::with_scope(client, Arc::new(NoMetrics), Scope::Namespaces(names))
}

async fn create(client: &Client, namespace: &str, name: &str) {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &config_map(name, &[])).await.unwrap();
}

/// The managed ConfigMaps that an informer knows, by namespace and name.
fn known(informer: &Informer<ConfigMap>) -> BTreeSet<String> {
    informer.store().list().iter().map(|object| ObjectKey::of(object.as_ref()).to_string()).collect()
}

async fn until_known(informer: &Informer<ConfigMap>, want: &[(&str, &str)]) {
    let want: BTreeSet<_> = want.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    eventually("the informer to know", PATIENCE, async || {
        let known = known(informer);
        Ok(if known == want { Ok(()) } else { Err(known) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn two_namespaces_feed_one_store_and_a_third_is_not_asked_for() {
    let world = World::new().await;
    let (one, two) = (&world.namespace, world.cluster.namespace("two").await.unwrap());
    let (third, later) = (world.cluster.namespace("third").await.unwrap(), format!("{}-later", one.name()));
    for namespace in [one.name(), two.name(), third.name()] {
        create(&world.client, namespace, "present").await;
    }
    let agent = format!("within-{}", one.name());
    let client = Clients::new(world.client.clone()).named(&agent);
    let informers = within(client, &[one.name(), two.name(), &later]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    synced(&informer).await;
    until_known(&informer, &[(one, "present"), (&two, "present")]).await;

    // A namespace that did not exist when the watch began.
    let metadata = ObjectMeta { name: Some(later.clone()), ..ObjectMeta::default() };
    let namespaces = Api::<Namespace>::all(world.client.clone());
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    create(&world.client, &later, "new").await;
    create(&world.client, &third, "new").await;
    until_known(&informer, &[(one, "present"), (&two, "present"), (&later, "new")]).await;
    namespaces.delete(&later, &DeleteParams::default()).await.unwrap();

    drop(informers);
    let agent = format!("ensemble/{} ({agent})", env!("CARGO_PKG_VERSION"));
    let log = eventually("the watches to be in the audit log", PATIENCE, async || {
        let log = world.cluster.audit_since(world.began)?.by_user_agent(&agent);
        let namespaces: BTreeSet<_> = log.entries.iter().map(|entry| entry.namespace.clone()).collect();
        Ok(if namespaces.len() == 3 { Ok(namespaces) } else { Err(namespaces) })
    });
    assert_eq!(
        log.await.unwrap(),
        BTreeSet::from([one.name().to_owned(), two.name().to_owned(), later]),
        "no request is about the whole cluster"
    );
}

#[tokio::test]
async fn a_watch_that_lists_anew_concerns_the_objects_of_its_namespace_only() {
    let world = World::new().await;
    let (one, two) = (&world.namespace, world.cluster.namespace("two").await.unwrap());
    for namespace in [one.name(), two.name()] {
        create(&world.client, namespace, "stays").await;
        create(&world.client, namespace, "goes").await;
    }
    let gate = Gate::new();
    let informers = within(gate.client(&world.client), &[one, &two]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    synced(&informer).await;

    gate.cut();
    for namespace in [one.name(), two.name()] {
        let api = Api::<ConfigMap>::namespaced(world.client.clone(), namespace);
        api.delete("goes", &DeleteParams::default()).await.unwrap();
    }
    let gone = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = gone.clone();
    let _subscription = informer.subscribe(move |change| {
        if change.new.is_none() {
            sink.lock().unwrap().push(change.key.name().to_owned());
        }
    });
    // One of the watches lists anew; the other goes on where it was.
    gate.restore_expired();
    until_known(&informer, &[(one, "stays"), (&two, "stays")]).await;
    assert_eq!(*gone.lock().unwrap(), ["goes", "goes"]);
}

#[tokio::test]
async fn a_namespace_that_gives_no_rights_is_named_and_does_not_stop_the_others() {
    let world = World::new().await;
    let (one, two) = (&world.namespace, world.cluster.namespace("two").await.unwrap());
    for namespace in [one.name(), two.name()] {
        create(&world.client, namespace, "present").await;
    }
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(world.client.clone(), one);
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let client = world.cluster.client_for_service_account(one, "reader").await.unwrap();
    let informers = within(client, &[one, &two]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    let (in_one, in_two) = (format!("ConfigMap in {}", one.name()), format!("ConfigMap in {}", two.name()));
    until_refused(&informers, &[&in_one, &in_two]).await;
    assert_eq!(informers.unsynced().len(), 2, "nothing at all can be watched");

    allow(&world.client, one, one).await;
    until_known(&informer, &[(one, "present")]).await;
    until_refused(&informers, &[&in_two]).await;
    assert_eq!(informers.unsynced(), Vec::<String>::new(), "it is ready for the one that it knows");
    assert!(!informer.is_synced());

    allow(&world.client, &two, one).await;
    synced(&informer).await;
    until_known(&informer, &[(one, "present"), (&two, "present")]).await;
    assert_eq!(informers.forbidden(), Vec::<String>::new());
}

async fn until_refused(informers: &Informers, want: &[&str]) {
    let want: BTreeSet<_> = want.iter().map(|want| (*want).to_owned()).collect();
    eventually("the refusals to be known", PATIENCE, async || {
        let refused: BTreeSet<_> = informers.forbidden().into_iter().collect();
        Ok(if refused == want { Ok(()) } else { Err(refused) })
    })
    .await
    .unwrap();
}

/// Lets the ServiceAccount `reader` of another namespace watch ConfigMaps.
async fn allow(client: &Client, namespace: &TestNamespace, of: &TestNamespace) {
    let grant = Grant::new("reader", vec![rule::<ConfigMap>(LIST | WATCH)]);
    let roles = Api::<Role>::namespaced(client.clone(), namespace);
    roles.create(&PostParams::default(), &grant.role(None)).await.unwrap();
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings.create(&PostParams::default(), &grant.role_binding(None, of, "reader")).await.unwrap();
}
