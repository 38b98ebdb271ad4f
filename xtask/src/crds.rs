//! `deploy/crds`: the custom resource definitions of all controllers.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use manager::CONTROLLERS;
use operator_core::{
    Registration,
    admission::configuration::{self, ClientConfig},
    error::status,
    labels,
};
use operator_runtime::crds::install as register;
use tokio::time::{sleep, timeout};

use crate::{
    generate::{Generated, document, settle},
    rbac::NAMESPACE,
};

/// The definitions of all controllers, for a manager that runs in the cluster.
pub(crate) fn definitions() -> Vec<CustomResourceDefinition> {
    CONTROLLERS.iter().flat_map(|controller| of_controller(controller, &deployed())).collect()
}

/// How the API server reaches a manager that runs in the cluster.
pub(crate) fn deployed() -> ClientConfig {
    ClientConfig::Service { namespace: NAMESPACE.to_owned() }
}

/// The definitions of a controller, of a manager that is reached so. Their labels tell them from those that somebody else
/// brought for the same kinds.
pub(crate) fn of_controller(
    controller: &Registration,
    reach: &ClientConfig,
) -> Vec<CustomResourceDefinition> {
    let mut definitions = configuration::definitions(controller, reach);
    for definition in &mut definitions {
        let own = labels::recommended("ensemble", "ensemble", controller.name);
        labels::add(&mut definition.metadata.labels, own);
    }
    definitions
}

/// How long the API server may take to list a kind that is new to it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked meanwhile.
const POLL: Duration = Duration::from_millis(100);

/// Registers the definitions and waits until each kind can be listed.
///
/// The API server says that a definition is established before it can read objects: until it has initialized the storage
/// it answers with 404, 429 or 500.
///
/// # Errors
/// Returns an error if the API server refuses a definition, or refuses to list a kind for another reason or for longer.
pub(crate) async fn install(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<()> {
    register(client, definitions).await?;
    for definition in definitions {
        let listed = timeout(PATIENCE, until_listed(client, definition)).await;
        let cannot = || format!("cannot list the objects of {}", definition.name_any());
        listed.with_context(cannot)?.with_context(cannot)?;
    }
    Ok(())
}

/// Lists a kind in the version that is stored, which takes no conversion, until that works.
async fn until_listed(client: &Client, definition: &CustomResourceDefinition) -> kube::Result<()> {
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.storage).map_or("", |version| &version.name);
    let kind = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    loop {
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return Ok(()),
            Err(error) if is_initializing(&error) => sleep(POLL).await,
            Err(error) => return Err(error),
        }
    }
}

fn is_initializing(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| matches!(status.code, 404 | 429 | 500 | 503))
}

/// A file for each definition.
pub(crate) fn files() -> Result<Vec<Generated>> {
    let file = |crd: &CustomResourceDefinition| {
        Generated::manifest(format!("{}.yaml", crd.name_any()), "gen-crds", &[document(crd)?])
    };
    definitions().iter().map(file).collect()
}

/// Writes `deploy/crds`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut files = files()?;
    files.push(Generated::kustomization("gen-crds", &files));
    settle("deploy/crds", &files, "gen-crds", check)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that gives these answers, the last one for good; and how many requests it got.
    fn server(answers: Vec<(u16, Value)>) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let place = count.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
            let (code, body) = answers[place].clone();
            assert_eq!(request.uri().path(), "/apis/app.example.com/v1alpha1/podsets");
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        (Client::new(service, "default"), asked)
    }

    fn refusal(code: u16, message: &str) -> (u16, Value) {
        (
            code,
            json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "" }),
        )
    }

    fn pod_sets() -> CustomResourceDefinition {
        definitions().into_iter().find(|definition| definition.spec.names.kind == "PodSet").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_whose_storage_is_being_initialized_is_waited_for() {
        let none = json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [] });
        let (client, asked) = server(vec![
            refusal(404, "the server could not find the requested resource"),
            refusal(429, "storage is (re)initializing"),
            refusal(500, "storage is (re)initializing"),
            (200, none),
        ]);
        until_listed(&client, &pod_sets()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_one_may_not_list_is_not_waited_for() {
        let (client, asked) = server(vec![refusal(403, "podsets is forbidden")]);
        let error = until_listed(&client, &pod_sets()).await.unwrap_err();
        assert!(error.to_string().contains("forbidden"), "{error}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
