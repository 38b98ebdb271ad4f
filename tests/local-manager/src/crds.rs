//! The CustomResourceDefinitions of all controllers.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use manager::{CONTROLLERS, NAMESPACE};
use operator_core::{
    Registration,
    error::status,
    labels,
    manifests::webhooks::{self, ClientConfig},
};
use operator_runtime::crds::install as register;
use tokio::time::{Instant, sleep, timeout_at};

/// Returns the definitions of all controllers for a deployed manager.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    CONTROLLERS.iter().flat_map(|controller| of_controller(controller, &deployed())).collect()
}

/// Returns the client configuration of a deployed manager's webhooks.
pub fn deployed() -> ClientConfig {
    ClientConfig::Service { namespace: NAMESPACE.to_owned() }
}

/// Returns the definitions of a controller.
///
/// Their labels distinguish them from definitions that another program installed for the same
/// kinds.
pub fn of_controller(
    controller: &Registration,
    client_config: &ClientConfig,
) -> Vec<CustomResourceDefinition> {
    let mut definitions = webhooks::definitions(controller, client_config);
    for definition in &mut definitions {
        let own = labels::recommended("ensemble", "ensemble", controller.name);
        labels::add(&mut definition.metadata.labels, own);
    }
    definitions
}

/// Timeout until a new kind can be listed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the attempts to list it.
const POLL: Duration = Duration::from_millis(100);

/// Installs the definitions, and waits until each kind can be listed.
///
/// The condition Established becomes True before the API server has initialized the storage. Until
/// then, lists fail with 404, 429, or 500.
///
/// # Errors
/// Returns an error if the API server rejects a definition, or if a list fails for another reason
/// or until the timeout.
pub async fn install(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<()> {
    register(client, definitions).await?;
    for definition in definitions {
        let failed = || format!("cannot list the objects of {}", definition.name_any());
        until_listed(client, definition).await.with_context(failed)?;
    }
    Ok(())
}

/// Lists a kind until this succeeds, in the storage version, which needs no conversion.
async fn until_listed(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.storage).map_or("", |version| &version.name);
    let kind = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let (deadline, mut last) = (Instant::now() + TIMEOUT, "none".to_owned());
    loop {
        match timeout_at(deadline, api.list_metadata(&ListParams::default().limit(1))).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) if is_initializing(&error) => last = error.to_string(),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => bail!("not possible within {TIMEOUT:?}; last response: {last}"),
        }
        sleep(POLL).await;
    }
}

fn is_initializing(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| matches!(status.code, 404 | 429 | 500 | 503))
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

    /// Returns a fake API server with these responses, which repeats the last one, and its number
    /// of requests.
    fn server(responses: Vec<(u16, Value)>) -> (Client, Arc<AtomicUsize>) {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let index = count.fetch_add(1, Ordering::Relaxed).min(responses.len() - 1);
            let (code, body) = responses[index].clone();
            assert_eq!(request.uri().path(), "/apis/app.example.com/v1alpha1/podsets");
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        (Client::new(service, "default"), requests)
    }

    fn failure(code: u16, message: &str) -> (u16, Value) {
        (
            code,
            json!({ "kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "" }),
        )
    }

    fn pod_sets() -> CustomResourceDefinition {
        definitions().into_iter().find(|definition| definition.spec.names.kind == "PodSet").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_storage_initialization() {
        let empty = json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [] });
        let (client, requests) = server(vec![
            failure(404, "the server could not find the requested resource"),
            failure(429, "storage is (re)initializing"),
            failure(500, "storage is (re)initializing"),
            (200, empty),
        ]);
        until_listed(&client, &pod_sets()).await.unwrap();
        assert_eq!(requests.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_error_contains_the_last_response() {
        let (client, _) = server(vec![failure(429, "storage is (re)initializing")]);
        let error = until_listed(&client, &pod_sets()).await.unwrap_err();
        assert!(error.to_string().contains("(re)initializing"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn fails_immediately_if_list_is_forbidden() {
        let (client, requests) = server(vec![failure(403, "podsets is forbidden")]);
        let error = until_listed(&client, &pod_sets()).await.unwrap_err();
        assert!(error.to_string().contains("forbidden"), "{error}");
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }
}
