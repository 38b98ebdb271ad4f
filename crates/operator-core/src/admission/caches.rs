//! What handlers answer from.

use futures::future::join_all;
use kube::Client;
use tokio::sync::watch::Receiver;

use super::webhook::SideEffects;
use crate::{
    environment::{Environment, Setting},
    events::Events,
    fence::Fence,
    informer::{Informer, Selection},
    kind::Kind,
    own_user::OwnUser,
};

/// Handed to [`Validator::build`](super::Validator::build): the informers of the process, which controllers and
/// handlers share. Reviews wait until those that were asked for are synced.
pub struct Caches<'e> {
    environment: &'e Environment,
    controller: &'e str,
    /// Whether what is written by a handler goes out.
    fence: Fence,
    synced: Vec<Receiver<bool>>,
}

impl<'e> Caches<'e> {
    /// For a webhook that says of itself whether it has side effects.
    pub(super) fn new(environment: &'e Environment, controller: &'e str, side_effects: SideEffects) -> Self {
        let fence = match side_effects {
            SideEffects::None => Fence::closed(),
            SideEffects::NoneOnDryRun => Fence::open(),
        };
        Self { environment, controller, fence, synced: Vec::new() }
    }

    /// An informer of a kind.
    pub fn informer<K: Kind>(&mut self, selection: Selection) -> Informer<K> {
        let informer = self.environment.informers.get::<K>(selection);
        self.synced.push(informer.synced());
        informer
    }

    /// A client for the one live read that is allowed where a cache that is behind would deny. It cannot write:
    /// a review has no side effects.
    pub fn reader(&self) -> Client {
        self.client(Fence::closed())
    }

    /// A client for what a review has to write before it may allow, which is next to nothing: a place that is taken
    /// before somebody else takes it. It writes only if the webhook was declared with
    /// [`side_effects`](super::WebhookBuilder::side_effects), and its handler must not use it in a dry run. It is not held
    /// back by leadership, since every replica answers reviews: each write must say which version it replaces.
    pub fn writer(&self) -> Client {
        self.client(self.fence.clone())
    }

    /// Where a webhook that was declared with [`side_effects`](super::WebhookBuilder::side_effects) tells people what it
    /// did, not in a dry run.
    pub fn events(&self) -> Events {
        // Within the common limit: no review waits for an Event.
        let client = self.environment.clients.fenced(&self.agent(), self.fence.clone());
        Events::new(client, self.controller, &self.environment.instance)
    }

    fn client(&self, fence: Fence) -> Client {
        self.environment.review_clients.fenced(&self.agent(), fence)
    }

    /// What requests of the webhooks call themselves.
    fn agent(&self) -> String {
        format!("{} webhooks", self.controller)
    }

    /// Who this process is to the API server, so that a handler knows its own requests.
    pub fn own_user(&self) -> OwnUser {
        self.environment.user.clone()
    }

    /// The value of one of the controller's settings.
    pub fn setting(&self, setting: &Setting) -> String {
        let given = self.environment.settings.get(setting.flag).cloned();
        given.unwrap_or_else(|| setting.default.to_owned())
    }

    /// The namespace that the manager itself runs in.
    pub fn manager_namespace(&self) -> &str {
        &self.environment.namespace
    }

    pub(super) fn into_synced(self) -> SyncedInformers {
        SyncedInformers(self.synced)
    }
}

/// Whether all informers that a handler answers from have been synced.
pub(super) struct SyncedInformers(Vec<Receiver<bool>>);

impl SyncedInformers {
    /// Waits until they are; for ever if one of them has ended, which takes the process with it.
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
        own_user::OwnUser,
    };

    /// Looks up who the process is, and whether there is an object of the same name already.
    struct Lookup {
        user: OwnUser,
        reader: kube::Client,
    }

    impl Validator for Lookup {
        type Object = ConfigMap;

        fn build(caches: &mut Caches<'_>) -> Self {
            Self { user: caches.own_user(), reader: caches.reader() }
        }

        async fn validate(&self, _: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
            let manager = self.user.name().await?;
            let found = Api::<ConfigMap>::namespaced(self.reader.clone(), "shop").get_opt("a").await?;
            let is_fine = manager == "manager" && found.is_none();
            Ok(if is_fine { Verdict::allow() } else { Verdict::deny(Denial::forbidden("wrong")) })
        }
    }

    /// An API server that asks for reviews before it answers creates of ConfigMaps, so they hang as long as reviews do.
    fn environment(creates: Arc<watch::Sender<usize>>) -> Environment {
        let service = tower::service_fn(move |request: HttpRequest<Body>| {
            let creates = creates.clone();
            async move {
                let path = request.uri().path().to_owned();
                if request.method() == Method::GET {
                    return Ok::<_, io::Error>(answer(StatusCode::NOT_FOUND, missing()));
                }
                if path.ends_with("/selfsubjectreviews") {
                    return Ok(answer(
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

    fn answer(code: StatusCode, body: Value) -> Response<Body> {
        let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
        *answer.status_mut() = code;
        answer
    }

    fn missing() -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
            "message": "there is none" })
    }

    #[tokio::test]
    async fn a_review_is_answered_while_controllers_have_all_their_requests_in_flight() {
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
        let answered = timeout(Duration::from_secs(3), endpoint.answer(review.as_bytes())).await;
        let answered = answered.expect("no answer in time").expect("no answer");
        let answered: Value = serde_json::from_slice(&answered.body).unwrap();
        assert_eq!(answered["response"]["allowed"], true, "{answered}");
        assert_eq!(*creates.borrow(), MAX_IN_FLIGHT, "controllers keep to their own limit");
    }
}
