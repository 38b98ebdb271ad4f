//! Pods, which are read in Protobuf.

use std::collections::BTreeMap;

use cluster::wait::eventually;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use operator_core::{
    client::Clients,
    error::is_already_exists,
    informer::{Informer, Informers, Selection},
    pod::{DELETION_COST, PodView},
    protobuf::messages::{MAGIC, TypeMeta, Unknown},
    writer::{DeletePrecondition, Writer},
};
use prost::Message as _;
use serde_json::json;

use crate::support::{Fixture, PATIENCE, config_map};

/// Returns a Pod with all fields that a [`PodView`] has and a client can set.
fn pod(fixture: &Fixture, owner: OwnerReference) -> Pod {
    let texts =
        |texts: [(&str, &str); 2]| Some(BTreeMap::from(texts.map(|(key, value)| (key.into(), value.into()))));
    Pod {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some(fixture.namespace.name().to_owned()),
            labels: texts([("app", "web"), ("empty", "")]),
            annotations: texts([(DELETION_COST, "-5"), ("other", "dropped")]),
            owner_references: Some(vec![owner]),
            finalizers: Some(vec!["example.com/test".to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![Container {
                name: "web".to_owned(),
                image: Some("nginx:1.27".to_owned()),
                ..Container::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

/// Waits until the cached Pod meets the condition, and equals the one that the API server sends as JSON.
async fn until_equal(
    fixture: &Fixture,
    informer: &Informer<PodView>,
    what: &str,
    condition: impl Fn(&PodView) -> bool,
) {
    let pods = Api::<PodView>::namespaced(fixture.client.clone(), &fixture.namespace);
    eventually(what, PATIENCE, async || {
        let live = pods.get("web").await?;
        let cached = informer.store().get(&fixture.key("web"));
        let is_equal = condition(&live) && cached.as_deref() == Some(&live);
        Ok(if is_equal { Ok(()) } else { Err((cached, live)) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn pods_are_the_same_in_protobuf_and_in_json() {
    let fixture = Fixture::new().await;
    let informers = Informers::new(Clients::new(fixture.client.clone()).named("informers"));
    let informer = informers.get_packed::<PodView>(Selection::All);
    tokio::time::timeout(PATIENCE, informer.synced().wait_for(|synced| *synced)).await.unwrap().unwrap();
    let owner = fixture.create(config_map("owner", &[])).await;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap(),
        controller: Some(true),
        block_owner_deletion: None,
    };

    let key = fixture.key("web");
    let writer = Writer::new(fixture.client.clone(), informer.clone());
    writer.create(&key, &pod(&fixture, owner.clone())).await.unwrap();
    assert!(informer.store().contains(&key), "the response to the creation");
    let again = writer.create(&key, &pod(&fixture, owner)).await.unwrap_err();
    assert!(again.api_error().is_some_and(is_already_exists), "{again}");
    let never = writer.read(&fixture.key("other")).await.unwrap();
    assert_eq!(never, None);

    until_equal(&fixture, &informer, "the Pod to run", |pod| pod.is_ready() && !pod.ip.is_empty()).await;
    let restarted = json!({ "status": { "containerStatuses": [{
        "name": "web", "restartCount": 3, "image": "", "imageID": "", "ready": true,
    }] } });
    let pods = Api::<Pod>::namespaced(fixture.client.clone(), &fixture.namespace);
    pods.patch_status("web", &PatchParams::default(), &Patch::Strategic(restarted)).await.unwrap();
    until_equal(&fixture, &informer, "the Pod to be restarted", |pod| pod.restarts == 3).await;

    let cached = informer.store().get(&key).unwrap();
    assert_eq!((cached.deletion_cost(), cached.labels().get("empty")), (-5, Some("")));
    assert!(writer.delete(&cached, DeletePrecondition::Uid).await.unwrap());
    let cached = informer.store().get(&key).unwrap();
    assert!(cached.is_terminating(), "the response to the deletion");
    until_equal(&fixture, &informer, "the Pod to terminate", PodView::is_terminating).await;
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    writer.patch(&key, &patch, "update").await.unwrap();
    eventually("the deletion in the cache", PATIENCE, async || Ok(!informer.store().contains(&key)))
        .await
        .unwrap();
}

/// The parts of a Pod that its creation needs, as a client may send them.
mod message {
    use prost::Message;

    #[derive(Message)]
    pub(super) struct Pod {
        #[prost(message, optional, tag = "1")]
        pub(super) metadata: Option<Metadata>,
        #[prost(message, optional, tag = "2")]
        pub(super) spec: Option<Spec>,
    }

    #[derive(Message)]
    pub(super) struct Metadata {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) name: Vec<u8>,
        #[prost(message, optional, tag = "12")]
        pub(super) annotation: Option<NamedText>,
    }

    #[derive(Message)]
    pub(super) struct NamedText {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) name: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) text: Vec<u8>,
    }

    #[derive(Message)]
    pub(super) struct Spec {
        /// A container with its image.
        #[prost(message, optional, tag = "2")]
        pub(super) container: Option<NamedText>,
    }
}

#[tokio::test]
async fn text_that_is_invalid_utf8_does_not_stop_the_watch() {
    let fixture = Fixture::new().await;
    let pod = message::Pod {
        metadata: Some(message::Metadata {
            name: b"invalid".to_vec(),
            annotation: Some(message::NamedText {
                name: b"example.com/text".to_vec(),
                text: b"\xff".to_vec(),
            }),
        }),
        spec: Some(message::Spec {
            container: Some(message::NamedText { name: b"web".to_vec(), text: b"nginx:1.27".to_vec() }),
        }),
    };
    let types = TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
    let body = [MAGIC, &Unknown { types, raw: pod.encode_to_vec() }.encode_to_vec()].concat();
    let path = format!("/api/v1/namespaces/{}/pods", fixture.namespace.name());
    let request = http::Request::post(path).header("content-type", "application/vnd.kubernetes.protobuf");
    let response = fixture.client.send(request.body(body.into()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 201);
    let raw =
        Api::<Pod>::namespaced(fixture.client.clone(), &fixture.namespace).get("invalid").await.unwrap();
    assert_eq!(raw.annotations()["example.com/text"], "\u{fffd}");

    let informers = Informers::new(Clients::new(fixture.client.clone()).named("informers"));
    let informer = informers.get_packed::<PodView>(Selection::All);
    let key = fixture.key("invalid");
    eventually("the Pod in the cache", PATIENCE, async || Ok(informer.store().contains(&key))).await.unwrap();
}
