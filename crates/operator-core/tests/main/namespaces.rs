//! Informers of a process that watches only some namespaces.

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
    manifests::Grant,
    metrics::NoMetrics,
    rbac::{LIST, WATCH, rule},
};

use crate::{
    gate::Gate,
    support::{Fixture, PATIENCE, config_map, synced},
};

fn within(client: Client, names: &[&str]) -> Informers {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Informers::with_scope(client, Arc::new(NoMetrics), Scope::Namespaces(names))
}

async fn create(client: &Client, namespace: &str, name: &str) {
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &config_map(name, &[])).await.unwrap();
}

/// Returns the keys of the managed ConfigMaps in the cache of an informer.
fn cached(informer: &Informer<ConfigMap>) -> BTreeSet<String> {
    informer.store().list().iter().map(|object| ObjectKey::of(object.as_ref()).to_string()).collect()
}

async fn until_cached(informer: &Informer<ConfigMap>, want: &[(&str, &str)]) {
    let want: BTreeSet<_> = want.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    eventually("the informer to contain the objects", PATIENCE, async || {
        let cached = cached(informer);
        Ok(if cached == want { Ok(()) } else { Err(cached) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn watches_only_the_given_namespaces() {
    let fixture = Fixture::new().await;
    let (one, two) = (&fixture.namespace, fixture.cluster.namespace("two").await.unwrap());
    let (third, later) = (fixture.cluster.namespace("third").await.unwrap(), format!("{}-later", one.name()));
    for namespace in [one.name(), two.name(), third.name()] {
        create(&fixture.client, namespace, "present").await;
    }
    let agent = format!("within-{}", one.name());
    let client = Clients::new(fixture.client.clone()).named(&agent);
    let informers = within(client, &[one.name(), two.name(), &later]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    synced(&informer).await;
    until_cached(&informer, &[(one, "present"), (&two, "present")]).await;

    // A namespace that is created after the start of the watch.
    let metadata = ObjectMeta { name: Some(later.clone()), ..ObjectMeta::default() };
    let namespaces = Api::<Namespace>::all(fixture.client.clone());
    let namespace = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    create(&fixture.client, &later, "new").await;
    create(&fixture.client, &third, "new").await;
    until_cached(&informer, &[(one, "present"), (&two, "present"), (&later, "new")]).await;
    namespaces.delete(&later, &DeleteParams::default()).await.unwrap();

    drop(informers);
    let agent = format!("ensemble/{} ({agent})", env!("CARGO_PKG_VERSION"));
    let log = eventually("the watches to be in the audit log", PATIENCE, async || {
        let log = fixture.cluster.audit_since(fixture.began)?.by_user_agent(&agent);
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
async fn relist_affects_only_objects_of_its_namespace() {
    let fixture = Fixture::new().await;
    let (one, two) = (&fixture.namespace, fixture.cluster.namespace("two").await.unwrap());
    for namespace in [one.name(), two.name()] {
        create(&fixture.client, namespace, "kept").await;
        create(&fixture.client, namespace, "deleted").await;
    }
    let gate = Gate::new();
    let informers = within(gate.client(&fixture.client), &[one, &two]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    synced(&informer).await;

    gate.cut();
    for namespace in [one.name(), two.name()] {
        let api = Api::<ConfigMap>::namespaced(fixture.client.clone(), namespace);
        api.delete("deleted", &DeleteParams::default()).await.unwrap();
    }
    let deleted = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = deleted.clone();
    let _subscription = informer.subscribe(move |change| {
        if change.new.is_none() {
            log.lock().unwrap().push(change.key.name().to_owned());
        }
    });
    // One of the watches lists again, the other resumes.
    gate.restore_expired();
    until_cached(&informer, &[(one, "kept"), (&two, "kept")]).await;
    assert_eq!(*deleted.lock().unwrap(), ["deleted", "deleted"]);
}

#[tokio::test]
async fn forbidden_namespace_is_reported_and_does_not_affect_others() {
    let fixture = Fixture::new().await;
    let (one, two) = (&fixture.namespace, fixture.cluster.namespace("two").await.unwrap());
    for namespace in [one.name(), two.name()] {
        create(&fixture.client, namespace, "present").await;
    }
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(fixture.client.clone(), one);
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let client = fixture.cluster.client_for_service_account(one, "reader").await.unwrap();
    let informers = within(client, &[one, &two]);
    let informer = informers.get::<ConfigMap>(Selection::Managed);
    let (in_one, in_two) = (format!("ConfigMap in {}", one.name()), format!("ConfigMap in {}", two.name()));
    until_forbidden(&informers, &[&in_one, &in_two]).await;
    assert_eq!(informers.unsynced().len(), 2, "no namespace can be watched");

    allow(&fixture.client, one, one).await;
    until_cached(&informer, &[(one, "present")]).await;
    until_forbidden(&informers, &[&in_two]).await;
    assert_eq!(informers.unsynced(), Vec::<String>::new(), "ready with the accessible namespace");
    assert!(!informer.is_synced());

    allow(&fixture.client, &two, one).await;
    synced(&informer).await;
    until_cached(&informer, &[(one, "present"), (&two, "present")]).await;
    assert_eq!(informers.forbidden(), Vec::<String>::new());
}

async fn until_forbidden(informers: &Informers, want: &[&str]) {
    let want: BTreeSet<_> = want.iter().map(|want| (*want).to_owned()).collect();
    eventually("the forbidden watches", PATIENCE, async || {
        let forbidden: BTreeSet<_> = informers.forbidden().into_iter().collect();
        Ok(if forbidden == want { Ok(()) } else { Err(forbidden) })
    })
    .await
    .unwrap();
}

/// Allows the ServiceAccount `reader` of another namespace to watch ConfigMaps.
async fn allow(client: &Client, namespace: &TestNamespace, of: &TestNamespace) {
    let grant = Grant::new("reader", vec![rule::<ConfigMap>(LIST | WATCH)]);
    let roles = Api::<Role>::namespaced(client.clone(), namespace);
    roles.create(&PostParams::default(), &grant.role(None)).await.unwrap();
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), namespace);
    bindings.create(&PostParams::default(), &grant.role_binding(None, of, "reader")).await.unwrap();
}
