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

/// Behaves as a key of the ConfigMap says.
struct Scripted;

impl Validator for Scripted {
    type Object = ConfigMap;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
        let object = request.states().last().expect("a request has an object");
        let command = object.data.iter().flatten().next();
        Ok(match command.map(|(command, text)| (command.as_str(), text.as_str())) {
            Some(("deny", text)) => Verdict::deny(Denial::forbidden(text)).warn("be careful"),
            Some(("warn", text)) => Verdict::allow().warn(text),
            Some(("panic", _)) => panic!("the object requests a panic"),
            Some(("hang", _)) => std::future::pending().await,
            Some(("fail", text)) => return Err(text.into()),
            _ => Verdict::allow(),
        })
    }
}

/// Adds a label to every object.
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

/// Reads a cache that never syncs.
struct Unsynced;

impl Validator for Unsynced {
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

fn scripted() -> Endpoint {
    let webhook = Webhook::validating::<Scripted>("scripted")
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
async fn encodes_verdicts_as_admission_responses() {
    let allowed = response(&scripted(), create(json!({}))).await;
    assert_eq!(allowed, json!({ "uid": "1-2-3", "allowed": true }));
    let denied = response(&scripted(), create(json!({ "deny": "not here; ask alice" }))).await;
    let status =
        json!({ "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not here; ask alice" });
    assert_eq!(
        denied,
        json!({ "uid": "1-2-3", "allowed": false, "status": status, "warnings": ["be careful"] })
    );
    let warned = response(&scripted(), create(json!({ "warn": "deprecated" }))).await;
    assert_eq!(warned, json!({ "uid": "1-2-3", "allowed": true, "warnings": ["deprecated"] }));
}

#[tokio::test]
async fn response_contains_the_summary_of_the_request() {
    let ReviewResponse { info, result, denial, .. } =
        answer(&scripted(), create(json!({ "deny": "no" }))).await.unwrap();
    assert_eq!(info.to_string(), "CREATE of configmaps of v1 default/a");
    assert_eq!((info.uid.as_str(), info.user.as_str(), info.dry_run), ("1-2-3", "alice", false));
    assert_eq!((result, denial), (ReviewResult::Denied, Some(Denial::forbidden("no"))));
}

#[tokio::test]
async fn delete_is_reviewed_with_the_old_object() {
    let denied = review("DELETE", Value::Null, config_map(json!({ "deny": "keep it" })));
    assert_eq!(response(&scripted(), denied).await["allowed"], false);
    // The new object is ignored.
    let both = review("DELETE", config_map(json!({})), config_map(json!({ "deny": "keep it" })));
    assert_eq!(response(&scripted(), both).await["allowed"], false);
}

#[tokio::test]
async fn patch_preserves_fields_that_the_type_does_not_have() {
    let mut object = config_map(json!({ "key": "value" }));
    object["metadata"]["novelty"] = json!([1]);
    let reply = response(&labeller(), review("CREATE", object.clone(), Value::Null)).await;
    assert_eq!((&reply["allowed"], &reply["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch: ByteString = serde_json::from_value(reply["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(object["metadata"], json!({ "name": "a", "labels": { "seen": "yes" }, "novelty": [1] }));
    assert_eq!(object["data"], json!({ "key": "value" }));
    // An object that has the label is not patched.
    let again = response(&labeller(), review("UPDATE", object.clone(), object)).await;
    assert_eq!(again, json!({ "uid": "1-2-3", "allowed": true }));
}

#[tokio::test]
async fn mutator_can_deny() {
    let mut object = config_map(json!({}));
    object["metadata"]["annotations"] = json!({ "a": "b" });
    let reply = response(&labeller(), review("CREATE", object, Value::Null)).await;
    assert_eq!((&reply["allowed"], &reply["status"]["code"]), (&json!(false), &json!(422)));
    assert!(reply["patch"].is_null());
}

#[tokio::test]
async fn handler_that_panics_hangs_or_fails_never_allows() {
    for (command, message) in [
        ("panic", "a bug of the manager"),
        ("hang", "not finish within 500ms"),
        ("fail", "cannot review the request: the API server is away"),
    ] {
        let failure =
            answer(&scripted(), create(json!({ command: "the API server is away" }))).await.unwrap_err();
        assert!(failure.to_string().contains(message), "{failure}");
        assert!(!failure.cause.is_client_error());
        assert_eq!(failure.info.unwrap().uid, "1-2-3");
    }
}

#[tokio::test]
async fn handler_is_not_called_before_its_caches_have_synced() {
    let webhook = Webhook::validating::<Unsynced>("unsynced").on(target::<ConfigMap>(CREATE)).build();
    let endpoint = Endpoint::build(webhook, "test", &environment());
    let failure = answer(&endpoint, create(json!({}))).await.unwrap_err();
    assert!(matches!(failure.cause, ReviewError::NotSynced), "{failure}");
}

/// Returns a review with a change.
fn modified(change: impl Fn(&mut Value)) -> Value {
    let mut review = create(json!({}));
    change(&mut review);
    review
}

#[tokio::test]
async fn rejects_invalid_reviews() {
    let cases = [
        (json!("AdmissionReview"), "no AdmissionReview in JSON"),
        (json!({}), "found an object without kind and version"),
        (
            modified(|review| review["kind"] = json!("ConversionReview")),
            "found kind ConversionReview of admission.k8s.io/v1",
        ),
        (
            modified(|review| review["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            "list v1 in admissionReviewVersions",
        ),
        (modified(|review| review["request"] = Value::Null), "has no request"),
        (modified(|review| review["request"]["operation"] = json!("PATCH")), "no AdmissionReview in JSON"),
        (modified(|review| review["request"]["userInfo"] = Value::Null), "no AdmissionReview in JSON"),
        (
            modified(|review| review["request"]["operation"] = json!("CONNECT")),
            "reviews CREATE, UPDATE, DELETE of configmaps of v1",
        ),
        (
            modified(|review| review["request"]["resource"]["resource"] = json!("secrets")),
            "found CREATE of secrets of v1",
        ),
        (
            modified(|review| review["request"]["resource"]["version"] = json!("v2")),
            "found CREATE of configmaps of v2",
        ),
        (modified(|review| review["request"]["kind"]["kind"] = json!("Secret")), "(kind Secret)"),
        (modified(|review| review["request"]["subResource"] = json!("status")), "configmaps/status"),
        (modified(|review| review["request"]["object"] = Value::Null), "a review of CREATE requires object"),
        (modified(|review| review["request"]["object"]["kind"] = json!("Secret")), "found kind Secret"),
        (
            modified(|review| review["request"]["object"] = json!(7)),
            "object does not match the schema of this version of the manager",
        ),
        (
            modified(|review| review["request"]["operation"] = json!("UPDATE")),
            "a review of UPDATE requires oldObject",
        ),
        (
            modified(|review| review["request"]["operation"] = json!("DELETE")),
            "a review of DELETE requires oldObject",
        ),
    ];
    for (review, message) in cases {
        let failure = answer(&scripted(), review.clone()).await.expect_err(&review.to_string());
        assert!(failure.to_string().contains(message), "{failure} should contain {message:?}");
        assert!(failure.cause.is_client_error());
    }
}

#[tokio::test]
async fn does_not_quote_objects_that_cannot_be_decoded() {
    let review = modified(|review| review["request"]["object"]["data"] = json!("the secret"));
    let failure = answer(&scripted(), review).await.unwrap_err();
    assert!(failure.to_string().contains("object does not match the schema"), "{failure}");
    assert!(!format!("{failure:?}").contains("the secret"), "{failure:?}");
}

#[tokio::test]
async fn empty_subresource_is_none() {
    let review = modified(|review| review["request"]["subResource"] = json!(""));
    assert!(answer(&scripted(), review).await.is_ok());
}

#[test]
fn rejects_truncated_reviews() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    let (endpoint, review) = (scripted(), create(json!({ "key": "value" })).to_string());
    for end in 0..review.len() {
        let response = runtime.block_on(endpoint.answer(&review.as_bytes()[..end]));
        assert!(response.is_err(), "{}", &review[..end]);
    }
}

proptest! {
    #[test]
    fn rejects_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        prop_assert!(runtime.block_on(scripted().answer(&bytes)).is_err());
    }
}

#[test]
fn handler_receives_name_namespace_and_user() {
    let review = create(json!({})).to_string();
    let request = parse(review.as_bytes()).unwrap();
    let request: Request<ConfigMap> = crate::admission::handler::decode(&request).unwrap();
    assert_eq!(
        (request.user_name(), request.name.as_str(), request.namespace.as_deref()),
        ("alice", "a", Some("default"))
    );
    assert_eq!(request.options, json!({ "kind": "CreateOptions" }));
    assert_eq!(request.new.unwrap().name_any(), "a");
    assert!(request.old.is_none());
}

#[tokio::test]
async fn handler_writes_only_with_declared_side_effects() {
    let environment = environment();
    let written = async |side_effects| {
        let caches = Caches::new(&environment, "test", side_effects);
        let api = kube::Api::<ConfigMap>::default_namespaced(caches.writer());
        let (object, params) = (ConfigMap::default(), kube::api::PostParams::default());
        let sent = api.create(&params, &object);
        timeout(Duration::from_millis(100), sent)
            .await
            .map(|result| crate::error::chain(&result.unwrap_err()))
    };
    let blocked = written(SideEffects::None).await.unwrap();
    assert!(blocked.contains("not sent"), "{blocked}");
    assert!(
        written(SideEffects::NoneOnDryRun).await.is_err(),
        "the request is in flight to an API server that does not respond"
    );
}
