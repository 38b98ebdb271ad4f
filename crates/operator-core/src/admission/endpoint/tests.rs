use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    admission::{
        BoxError, CREATE, DELETE, Metadata, Mutation, Mutator, Request, SideEffects, UPDATE, Validator,
        Verdict, any_namespaced, target,
    },
    informer::Selection,
};

/// Does what a key of the ConfigMap says.
struct Obedient;

impl Validator for Obedient {
    type Object = ConfigMap;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
        let object = request.states().last().expect("there is an object");
        let orders = object.data.iter().flatten().next();
        Ok(match orders.map(|(order, why)| (order.as_str(), why.as_str())) {
            Some(("deny", why)) => Verdict::deny(Denial::forbidden(why)).warn("be careful"),
            Some(("warn", why)) => Verdict::allow().warn(why),
            Some(("panic", _)) => panic!("it was asked to"),
            Some(("hang", _)) => std::future::pending().await,
            Some(("fail", why)) => return Err(why.into()),
            _ => Verdict::allow(),
        })
    }
}

/// Puts a label onto whatever it sees.
struct Labeller;

impl Mutator for Labeller {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        let Some(mut new) = request.new.clone() else { return Ok(Mutation::keep()) };
        if new.metadata.annotations.is_some() {
            return Ok(Mutation::deny(Denial::invalid("no annotations")));
        }
        new.metadata.labels.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
        Ok(Mutation::change(new))
    }
}

/// Answers from a cache that is never synced.
struct UnsyncedWatch;

impl Validator for UnsyncedWatch {
    type Object = ConfigMap;

    fn build(caches: &mut Caches<'_>) -> Self {
        caches.informer::<ConfigMap>(Selection::All);
        Self
    }

    async fn validate(&self, _: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
        Ok(Verdict::allow())
    }
}

fn environment() -> Environment {
    let service = tower::service_fn(|_| async {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>().await
    });
    Environment::new(kube::Client::new(service, "default"))
}

fn obedient() -> Endpoint {
    let webhook = Webhook::validating::<Obedient>("obedient")
        .on(target::<ConfigMap>(CREATE | UPDATE | DELETE))
        .timeout_seconds(1)
        .build();
    Endpoint::build(webhook, "test", &environment())
}

fn labeller() -> Endpoint {
    Endpoint::build(
        Webhook::mutating::<Labeller>("labeller").on(any_namespaced(CREATE | UPDATE)).build(),
        "test",
        &environment(),
    )
}

fn config_map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1-2-3",
            "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "namespace": "default", "name": "a",
            "operation": operation,
            "userInfo": { "username": "alice", "groups": ["system:authenticated"] },
            "object": object, "oldObject": old,
            "dryRun": false, "options": { "kind": "CreateOptions" },
        },
    })
}

fn create(data: Value) -> Value {
    review("CREATE", config_map(data), Value::Null)
}

async fn answer(endpoint: &Endpoint, review: Value) -> Result<ReviewResponse, ReviewFailure> {
    endpoint.answer(review.to_string().as_bytes()).await
}

async fn response(endpoint: &Endpoint, review: Value) -> Value {
    let answered = answer(endpoint, review).await.unwrap();
    let body: Value = serde_json::from_slice(&answered.body).unwrap();
    assert_eq!((&body["kind"], &body["apiVersion"]), (&json!(KIND), &json!(API_VERSION)));
    body["response"].clone()
}

#[tokio::test]
async fn a_verdict_is_told_in_kubernetes_own_form() {
    let allowed = response(&obedient(), create(json!({}))).await;
    assert_eq!(allowed, json!({ "uid": "1-2-3", "allowed": true }));
    let denied = response(&obedient(), create(json!({ "deny": "not here; ask alice" }))).await;
    let status =
        json!({ "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not here; ask alice" });
    assert_eq!(
        denied,
        json!({ "uid": "1-2-3", "allowed": false, "status": status, "warnings": ["be careful"] })
    );
    let warned = response(&obedient(), create(json!({ "warn": "soon gone" }))).await;
    assert_eq!(warned, json!({ "uid": "1-2-3", "allowed": true, "warnings": ["soon gone"] }));
}

#[tokio::test]
async fn what_it_was_about_is_told_without_the_object() {
    let ReviewResponse { about, ended, denial, .. } =
        answer(&obedient(), create(json!({ "deny": "no" }))).await.unwrap();
    assert_eq!(about.to_string(), "CREATE of configmaps of v1 default/a");
    assert_eq!((about.uid.as_str(), about.user.as_str(), about.dry_run), ("1-2-3", "alice", false));
    assert_eq!((ended, denial), (ReviewResult::Denied, Some(Denial::forbidden("no"))));
}

#[tokio::test]
async fn a_delete_is_judged_by_the_object_as_it_is() {
    let denied = review("DELETE", Value::Null, config_map(json!({ "deny": "keep it" })));
    assert_eq!(response(&obedient(), denied).await["allowed"], false);
    // What somebody else put there is not looked at.
    let disguised = review("DELETE", config_map(json!({})), config_map(json!({ "deny": "keep it" })));
    assert_eq!(response(&obedient(), disguised).await["allowed"], false);
}

#[tokio::test]
async fn a_change_is_a_patch_that_keeps_what_the_type_does_not_know() {
    let mut object = config_map(json!({ "key": "value" }));
    object["metadata"]["novelty"] = json!([1]);
    let reply = response(&labeller(), review("CREATE", object.clone(), Value::Null)).await;
    assert_eq!((&reply["allowed"], &reply["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch: ByteString = serde_json::from_value(reply["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["metadata"], json!({ "name": "a", "labels": { "seen": "yes" }, "novelty": [1] }));
    assert_eq!(object["data"], json!({ "key": "value" }));
    // What is as it should be is left alone.
    let again = response(&labeller(), review("UPDATE", object.clone(), object)).await;
    assert_eq!(again, json!({ "uid": "1-2-3", "allowed": true }));
}

#[tokio::test]
async fn a_mutator_may_deny() {
    let mut object = config_map(json!({}));
    object["metadata"]["annotations"] = json!({ "a": "b" });
    let reply = response(&labeller(), review("CREATE", object, Value::Null)).await;
    assert_eq!((&reply["allowed"], &reply["status"]["code"]), (&json!(false), &json!(422)));
    assert!(reply["patch"].is_null());
}

#[tokio::test]
async fn a_handler_that_panics_hangs_or_fails_gives_no_answer() {
    for (order, says) in [
        ("panic", "by a bug of the manager"),
        ("hang", "not done within 500ms"),
        ("fail", "could not be done: the API server is away"),
    ] {
        let unanswered =
            answer(&obedient(), create(json!({ order: "the API server is away" }))).await.unwrap_err();
        assert!(unanswered.to_string().contains(says), "{unanswered}");
        assert!(!unanswered.cause.is_senders());
        assert_eq!(unanswered.about.unwrap().uid, "1-2-3");
    }
}

#[tokio::test]
async fn a_handler_is_not_asked_before_its_caches_are_filled() {
    let webhook = Webhook::validating::<UnsyncedWatch>("unsynced").on(target::<ConfigMap>(CREATE)).build();
    let endpoint = Endpoint::build(webhook, "test", &environment());
    let unanswered = answer(&endpoint, create(json!({}))).await.unwrap_err();
    assert!(matches!(unanswered.cause, ReviewError::NotFilled), "{unanswered}");
}

/// A review with a change made to it.
fn but(change: impl Fn(&mut Value)) -> Value {
    let mut review = create(json!({}));
    change(&mut review);
    review
}

#[tokio::test]
async fn a_review_that_makes_no_sense_is_refused_with_what_was_expected() {
    let cases = [
        (json!("AdmissionReview"), "no AdmissionReview in JSON"),
        (json!({}), "found an object without kind and version"),
        (
            but(|review| review["kind"] = json!("ConversionReview")),
            "found kind ConversionReview of admission.k8s.io/v1",
        ),
        (
            but(|review| review["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            "list v1 in admissionReviewVersions",
        ),
        (but(|review| review["request"] = Value::Null), "has no request"),
        (but(|review| review["request"]["operation"] = json!("PATCH")), "no AdmissionReview in JSON"),
        (but(|review| review["request"]["userInfo"] = Value::Null), "no AdmissionReview in JSON"),
        (
            but(|review| review["request"]["operation"] = json!("CONNECT")),
            "reviews CREATE, UPDATE, DELETE of configmaps of v1",
        ),
        (
            but(|review| review["request"]["resource"]["resource"] = json!("secrets")),
            "this is CREATE of secrets of v1",
        ),
        (
            but(|review| review["request"]["resource"]["version"] = json!("v2")),
            "this is CREATE of configmaps of v2",
        ),
        (but(|review| review["request"]["kind"]["kind"] = json!("Secret")), "(kind Secret)"),
        (but(|review| review["request"]["subResource"] = json!("status")), "configmaps/status"),
        (but(|review| review["request"]["object"] = Value::Null), "a review of CREATE needs object"),
        (but(|review| review["request"]["object"]["kind"] = json!("Secret")), "found kind Secret"),
        (
            but(|review| review["request"]["object"] = json!(7)),
            "object is not as this version of the manager knows",
        ),
        (
            but(|review| review["request"]["operation"] = json!("UPDATE")),
            "a review of UPDATE needs oldObject",
        ),
        (
            but(|review| review["request"]["operation"] = json!("DELETE")),
            "a review of DELETE needs oldObject",
        ),
    ];
    for (review, says) in cases {
        let unanswered = answer(&obedient(), review.clone()).await.expect_err(&review.to_string());
        assert!(unanswered.to_string().contains(says), "{unanswered} should say {says:?}");
        assert!(unanswered.cause.is_senders());
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_not_quoted() {
    let review = but(|review| review["request"]["object"]["data"] = json!("the secret"));
    let unanswered = answer(&obedient(), review).await.unwrap_err();
    assert!(unanswered.to_string().contains("object is not as this version"), "{unanswered}");
    assert!(!format!("{unanswered:?}").contains("the secret"), "{unanswered:?}");
}

#[tokio::test]
async fn an_empty_subresource_is_none() {
    let review = but(|review| review["request"]["subResource"] = json!(""));
    assert!(answer(&obedient(), review).await.is_ok());
}

#[test]
fn the_whole_of_a_truncated_review_is_needed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let (endpoint, whole) = (obedient(), create(json!({ "key": "value" })).to_string());
    for end in 0..whole.len() {
        let answered = runtime.block_on(endpoint.answer(&whole.as_bytes()[..end]));
        assert!(answered.is_err(), "{}", &whole[..end]);
    }
}

proptest! {
    #[test]
    fn no_bytes_are_allowed_by_mistake(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        prop_assert!(runtime.block_on(obedient().answer(&bytes)).is_err());
    }
}

#[test]
fn a_handler_sees_name_namespace_and_user() {
    let asked = create(json!({})).to_string();
    let asked = parse(asked.as_bytes()).unwrap();
    let request: Request<ConfigMap> = crate::admission::handler::read(&asked).unwrap();
    assert_eq!(
        (request.user_name(), request.name.as_str(), request.namespace.as_deref()),
        ("alice", "a", Some("default"))
    );
    assert_eq!(request.options, json!({ "kind": "CreateOptions" }));
    assert_eq!(request.new.unwrap().name_any(), "a");
    assert!(request.old.is_none());
}

#[tokio::test]
async fn a_handler_writes_only_if_its_webhook_says_so() {
    let environment = environment();
    let written = async |side_effects| {
        let caches = Caches::new(&environment, "test", side_effects);
        let api = kube::Api::<ConfigMap>::default_namespaced(caches.writer());
        let (object, params) = (ConfigMap::default(), kube::api::PostParams::default());
        let sent = api.create(&params, &object);
        timeout(Duration::from_millis(100), sent).await.map(|ended| crate::error::chain(&ended.unwrap_err()))
    };
    let held_back = written(SideEffects::None).await.unwrap();
    assert!(held_back.contains("not sent"), "{held_back}");
    assert!(
        written(SideEffects::NoneOnDryRun).await.is_err(),
        "it is on its way to an API server that is silent"
    );
}
