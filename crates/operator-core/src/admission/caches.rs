//! Caches and clients of webhook handlers.

use futures::future::join_all;
use kube::Client;
use tokio::sync::watch::Receiver;

use super::side_effects::SideEffects;
use crate::{
    environment::{Environment, Setting},
    events::Events,
    informer::{Informer, Selection},
    kind::Kind,
    self_subject::SelfSubject,
};

/// Gives a handler its informers and clients.
///
/// [`Validator::build`](super::Validator::build) receives it. Reviews wait until the informers that
/// the handler requested have synced. Controllers and handlers share informers.
pub struct Caches<'e> {
    environment: &'e Environment,
    controller: &'e str,
    /// Whether the webhook has side effects.
    may_write: bool,
    synced: Vec<Receiver<bool>>,
}

impl<'e> Caches<'e> {
    /// Returns the caches of a webhook with these side effects.
    pub(super) fn new(environment: &'e Environment, controller: &'e str, side_effects: SideEffects) -> Self {
        let may_write = side_effects == SideEffects::NoneOnDryRun;
        Self { environment, controller, may_write, synced: Vec::new() }
    }

    /// Returns an informer of a kind.
    pub fn informer<K: Kind>(&mut self, selection: Selection) -> Informer<K> {
        let informer = self.environment.informers.get::<K>(selection);
        self.synced.push(informer.synced());
        informer
    }

    /// Returns a client that cannot write. Use it for one live read where a stale cache would deny
    /// wrongly: an uncached read, as with controller-runtime's `APIReader`.
    pub fn reader(&self) -> Client {
        self.client(false)
    }

    /// Returns a client for writes that must precede a response, such as a reservation.
    ///
    /// Its writes fail unless the webhook declares
    /// [`side_effects`](super::WebhookBuilder::side_effects). The handler must not use it in a dry
    /// run. Leadership does not block it, because every replica serves reviews: each write must
    /// contain the resource version that it replaces.
    pub fn writer(&self) -> Client {
        self.client(self.may_write)
    }

    /// Returns the publisher of Events. Publishes nothing unless the webhook declares
    /// [`side_effects`](super::WebhookBuilder::side_effects). The handler must not use it in a dry
    /// run.
    pub fn events(&self) -> Events {
        // Within the limit of the controllers, because no review waits for an Event.
        let client = self.environment.clients.of_webhooks(self.agent(), self.may_write);
        Events::new(client, self.controller, &self.environment.instance)
    }

    fn client(&self, may_write: bool) -> Client {
        self.environment.review_clients.of_webhooks(self.agent(), may_write)
    }

    /// Returns the name for the `User-Agent`.
    fn agent(&self) -> String {
        format!("{} webhooks", self.controller)
    }

    /// Returns the user of the manager, so that a handler can recognize the manager's requests.
    pub fn self_subject(&self) -> SelfSubject {
        self.environment.user.clone()
    }

    /// Returns the value of a setting of the controller.
    pub fn setting(&self, setting: &Setting) -> String {
        let value = self.environment.settings.get(setting.flag).cloned();
        value.unwrap_or_else(|| setting.default.to_owned())
    }

    /// Returns the namespace of the manager.
    pub fn manager_namespace(&self) -> &str {
        &self.environment.namespace
    }

    pub(super) fn into_synced(self) -> SyncedCaches {
        SyncedCaches(self.synced)
    }
}

/// Tracks whether the caches of a handler have synced.
pub(super) struct SyncedCaches(Vec<Receiver<bool>>);

impl SyncedCaches {
    /// Waits until all caches have synced. Never returns if an informer was dropped, which happens
    /// only when the process ends.
    pub(super) async fn wait(&self) {
        if self.0.iter().all(|synced| *synced.borrow()) {
            return;
        }
        let mut waiting = self.0.clone();
        join_all(waiting.iter_mut().map(async |synced| {
            if synced.wait_for(|synced| *synced).await.is_err() {
                std::future::pending::<()>().await;
            }
        }))
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc, time::Duration};

    use http::{Method, Request as HttpRequest, Response, StatusCode};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::PostParams, client::Body};
    use serde_json::{Value, json};
    use tokio::{sync::watch, task::JoinSet, time::timeout};

    use crate::{
        admission::{
            BoxError, CREATE, Caches, Denial, Endpoint, Request, Validator, Verdict, Webhook, target,
        },
        client::MAX_IN_FLIGHT,
        environment::Environment,
        self_subject::SelfSubject,
    };

    /// Looks up the manager's user and an object with the same name.
    struct Lookup {
        user: SelfSubject,
        reader: kube::Client,
    }

    impl Validator for Lookup {
        type Object = ConfigMap;

        fn build(caches: &mut Caches<'_>) -> Self {
            Self { user: caches.self_subject(), reader: caches.reader() }
        }

        async fn validate(&self, _: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
            let manager = self.user.username().await?;
            let found = Api::<ConfigMap>::namespaced(self.reader.clone(), "shop").get_opt("a").await?;
            let is_fine = manager == "manager" && found.is_none();
            Ok(if is_fine { Verdict::allow() } else { Verdict::deny(Denial::forbidden("wrong")) })
        }
    }

    /// Returns an API server that never responds to creates of ConfigMaps.
    fn environment(creates: Arc<watch::Sender<usize>>) -> Environment {
        let service = tower::service_fn(move |request: HttpRequest<Body>| {
            let creates = creates.clone();
            async move {
                let path = request.uri().path().to_owned();
                if request.method() == Method::GET {
                    return Ok::<_, io::Error>(response(StatusCode::NOT_FOUND, not_found()));
                }
                if path.ends_with("/selfsubjectreviews") {
                    return Ok(response(
                        StatusCode::CREATED,
                        json!({ "status": { "userInfo": { "username": "manager" } } }),
                    ));
                }
                creates.send_modify(|creates| *creates += 1);
                std::future::pending().await
            }
        });
        Environment::new(kube::Client::new(service, "default"))
    }

    fn response(code: StatusCode, body: Value) -> Response<Body> {
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = code;
        response
    }

    fn not_found() -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "not found" })
    }

    #[tokio::test]
    async fn review_does_not_wait_for_requests_of_controllers() {
        let creates = Arc::new(watch::Sender::new(0));
        let environment = environment(creates.clone());
        let api = Api::<ConfigMap>::namespaced(environment.clients.named("test"), "shop");
        let mut writes = JoinSet::new();
        for _ in 0..=MAX_IN_FLIGHT {
            let api = api.clone();
            writes.spawn(async move { api.create(&PostParams::default(), &ConfigMap::default()).await });
        }
        creates.subscribe().wait_for(|creates| *creates == MAX_IN_FLIGHT).await.unwrap();

        let webhook = Webhook::validating::<Lookup>("lookup").on(target::<ConfigMap>(CREATE)).build();
        let endpoint = Endpoint::build(webhook, "test", &environment);
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "namespace": "shop", "name": "a", "operation": "CREATE", "dryRun": false,
                "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
                "resource": { "group": "", "version": "v1", "resource": "configmaps" },
                "userInfo": { "username": "alice" },
                "object": { "metadata": { "namespace": "shop", "name": "a" } },
            },
        });
        let review = review.to_string();
        let response = timeout(Duration::from_secs(3), endpoint.answer(review.as_bytes())).await;
        let response = response.expect("no response in time").expect("no response");
        let response: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(response["response"]["allowed"], true, "{response}");
        assert_eq!(*creates.borrow(), MAX_IN_FLIGHT, "the limit of the controllers is unchanged");
    }
}
