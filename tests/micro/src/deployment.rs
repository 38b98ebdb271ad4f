//! Comparison of a child with its desired state.

use k8s_openapi::api::apps::v1::Deployment;
use operator_core::{
    ObjectKey,
    informer::{Informers, Selection},
    owner::Owner,
    write::{Children, OperationResult},
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::offline_client;

/// Compares an unchanged Deployment, which needs no write.
pub(crate) fn compare(runtime: &'static Runtime) -> Box<dyn FnMut()> {
    let _guard = runtime.enter();
    let informer = Informers::new(offline_client()).get::<Deployment>(Selection::All);
    let children = Children::new(offline_client(), informer.clone());
    let key = ObjectKey::namespaced("shop", "cache");
    let owner = Owner::Annotation { key: "example.com/owner", value: "shop/cache".to_owned() };
    let mut present = Deployment::default();
    present.metadata.name = Some("cache".to_owned());
    present.metadata.namespace = Some("shop".to_owned());
    present.metadata.resource_version = Some("1".to_owned());
    owner.set_on(&mut present.metadata);
    deployment(&mut present);
    informer.record_write(informer.store().epoch(), present.clone());
    Box::new(move || {
        let written = runtime.block_on(children.create_or_update(&key, &owner, |child| {
            child.spec.clone_from(&present.spec);
        }));
        assert!(matches!(written, Ok(OperationResult::Unchanged)));
    })
}

fn deployment(deployment: &mut Deployment) {
    let wanted = json!({
        "metadata": deployment.metadata,
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "memcached", "memcached_cr": "cache" } },
            "template": {
                "metadata": { "labels": { "app": "memcached", "memcached_cr": "cache" } },
                "spec": { "containers": [{
                    "name": "memcached", "image": "memcached:1.4.36-alpine", "args": ["-m", "64", "-o", "modern", "-v"],
                    "ports": [{ "name": "memcached", "containerPort": 11211 }],
                    "resources": { "requests": { "memory": "96Mi" }, "limits": { "memory": "96Mi" } },
                }] },
            },
        },
    });
    *deployment = serde_json::from_value(wanted).expect("a Deployment");
}
