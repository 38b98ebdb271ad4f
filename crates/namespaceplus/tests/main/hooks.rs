//! Hooks call a real HTTP server that accepts, fails, redirects, responds slowly, late, or not at
//! all.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
};
use cluster::audit::Entry;
use k8s_openapi::api::{
    core::v1::Secret,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use namespaceplus::{HookState, HookStatus};
use serde_json::{Value, json};

use crate::{
    events::single_event,
    support::{TestEnv, condition, hook_statuses, until_delivered},
};

/// A received call.
#[derive(Clone, Debug)]
struct Call {
    path: String,
    headers: HeaderMap,
    body: String,
}

impl Call {
    fn key(&self) -> &str {
        self.headers["idempotency-key"].to_str().unwrap()
    }
}

/// A receiver. The path determines its response.
struct HookReceiver {
    address: SocketAddr,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Call>>>;

impl HookReceiver {
    async fn start() -> Self {
        let calls = Calls::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(calls.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, calls }
    }

    fn hook(&self, name: &str, on: &[&str], path: &str) -> Value {
        json!({ "name": name, "on": on, "url": format!("http://{}{path}", self.address), "timeoutSeconds": 1 })
    }

    /// Returns the calls to a path.
    fn at(&self, path: &str) -> Vec<Call> {
        self.calls.lock().unwrap().iter().filter(|call| call.path == path).cloned().collect()
    }
}

async fn answer(State(calls): State<Calls>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
    let call = Call { path: parts.uri.path().to_owned(), headers: parts.headers, body };
    let before = {
        let mut calls = calls.lock().unwrap();
        let before = calls.iter().filter(|one| one.path == call.path && one.key() == call.key()).count();
        calls.push(call.clone());
        before
    };
    match call.path.as_str() {
        "/fails-twice" if before >= 2 => StatusCode::NO_CONTENT.into_response(),
        "/fails-twice" | "/fails" => (StatusCode::SERVICE_UNAVAILABLE, "only-in-the-body").into_response(),
        "/redirects" => (StatusCode::FOUND, [(LOCATION, "/elsewhere")]).into_response(),
        "/hangs" => std::future::pending().await,
        "/is-late-once" if before == 0 => {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            StatusCode::OK.into_response()
        }
        "/is-slow" => {
            tokio::time::sleep(Duration::from_millis(500)).await;
            StatusCode::OK.into_response()
        }
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Returns whether the result of the last attempt is known.
fn was_answered(one: &HookStatus) -> bool {
    one.attempts > 0 && one.attempt_deadline.is_none()
}

#[tokio::test]
async fn calls_each_event_once_despite_other_changes() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let hook = receiver.hook("chat", &["Created", "Ready", "Deleted"], "/takes");
    env.create(json!({ "hooks": [hook] })).await;
    let object = until_delivered(&env).await;
    let statuses = hook_statuses(&object);
    assert_eq!(statuses.len(), 2);
    assert!(
        statuses.values().all(|one| one.state == HookState::Delivered && one.attempts == 1),
        "{statuses:?}"
    );

    env.change(json!({ "labels": { "team": "blue" } })).await;
    env.until_ready().await;
    env.change(json!({ "hooks": [receiver.hook("chat", &["Ready", "Created"], "/takes")] })).await;
    until_delivered(&env).await;
    let mut events: Vec<_> = receiver.at("/takes").iter().map(|call| call.body.clone()).collect();
    events.sort();
    assert_eq!(events.len(), 2, "{events:?}");
    for (body, event) in events.iter().zip(["Created", "Ready"]) {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (body["event"].as_str(), body["namespace"].as_str()),
            (Some(event), Some(env.name.as_str()))
        );
        assert_eq!(body["owner"]["namespace"], env.home.name());
    }
}

#[tokio::test]
async fn retries_call_with_same_key_until_accepted() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let hooks = [
        receiver.hook("fails", &["Created"], "/fails-twice"),
        receiver.hook("late", &["Created"], "/is-late-once"),
        receiver.hook("slow", &["Created"], "/is-slow"),
    ];
    env.create(json!({ "hooks": hooks })).await;
    let statuses = hook_statuses(&until_delivered(&env).await);
    for (name, path, attempts) in
        [("fails", "/fails-twice", 3), ("late", "/is-late-once", 2), ("slow", "/is-slow", 1)]
    {
        let one = &statuses[&(name.to_owned(), "Created")];
        assert_eq!(one.attempts, attempts, "{one:?}");
        let calls = receiver.at(path);
        assert_eq!(calls.len(), usize::try_from(attempts).unwrap());
        assert!(calls.iter().all(|call| call.key() == one.id), "{calls:?}");
    }
}

#[tokio::test]
async fn failing_receivers_block_nothing_else() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let hooks = [
        receiver.hook("hangs", &["Created"], "/hangs"),
        receiver.hook("moved", &["Created"], "/redirects"),
        receiver.hook("refuses", &["Created"], "/fails"),
    ];
    env.create(json!({ "hooks": hooks })).await;
    let object = env
        .until("the status to report all calls", |object| {
            hook_statuses(object).len() == 3 && hook_statuses(object).values().all(was_answered)
        })
        .await;
    let statuses = hook_statuses(&object);
    assert_eq!(statuses[&("hangs".to_owned(), "Created")].message, "no response within 1 s");
    assert!(statuses[&("moved".to_owned(), "Created")].message.contains("redirects are not followed"));
    assert_eq!(statuses[&("refuses".to_owned(), "Created")].message, "the receiver answered 503");
    assert!(!serde_json::to_string(&object).unwrap().contains("only-in-the-body"));
    let (status, reason, _) = condition(&object, "HooksDelivered").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "HookPending"));
    env.change(json!({ "labels": { "team": "blue" } })).await;
    env.until_ready().await;
    assert!(receiver.at("/elsewhere").is_empty());
    env.change(json!({ "hooks": [] })).await;
    let object = until_delivered(&env).await;
    assert!(hook_statuses(&object).is_empty());
}

#[tokio::test]
async fn calls_deletion_hook_before_object_is_deleted() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let hook = receiver.hook("pipeline", &["Deleted"], "/fails-twice");
    env.ready(json!({ "hooks": [hook], "deletionPolicy": "Delete" })).await;
    assert!(receiver.at("/fails-twice").is_empty());
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    assert!(env.namespaces().get_opt(&env.name).await.unwrap().is_none());
    let calls = receiver.at("/fails-twice");
    assert_eq!(calls.len(), 3, "{calls:?}");
}

#[tokio::test]
async fn reads_headers_from_secret_once_permitted() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let secret = json!({ "metadata": { "name": "token" }, "stringData": { "Authorization": "Bearer hidden-in-secret" } });
    let secrets = Api::<Secret>::namespaced(env.client.clone(), &env.home);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut hook = receiver.hook("chat", &["Created"], "/takes");
    hook["headersSecretRef"] = json!({ "name": "token" });
    env.create(json!({ "hooks": [hook] })).await;
    let object = env
        .until("the missing permission to be reported", |object| {
            hook_statuses(object).values().any(|one| one.message.contains("hook-secrets.yaml"))
        })
        .await;
    assert!(hook_statuses(&object).values().all(|one| one.message.contains(env.home.name())));
    assert!(receiver.at("/takes").is_empty());

    let role = json!({
        "metadata": { "name": "hook-secrets" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }],
    });
    let roles = Api::<Role>::namespaced(env.client.clone(), &env.home);
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": { "name": "hook-secrets" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hook-secrets" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": env.harness.user }],
    });
    let bindings = Api::<RoleBinding>::namespaced(env.client.clone(), &env.home);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let object = until_delivered(&env).await;
    let [call] = receiver.at("/takes").try_into().unwrap();
    assert_eq!(call.headers["authorization"], "Bearer hidden-in-secret");
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden-in-secret"));
    let secrets = env.harness.requests().unwrap().filter(|entry| entry.resource == "secrets").entries;
    assert!(secrets.iter().any(|entry| entry.code == 200));
    let is_own =
        |entry: &Entry| entry.verb == "get" && entry.name == "token" && entry.namespace == env.home.name();
    assert!(secrets.iter().all(is_own), "{secrets:?}");
}

#[tokio::test]
async fn fails_deletion_hook_after_last_attempt_with_event() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    env.ready(json!({ "hooks": [receiver.hook("pipeline", &["Deleted"], "/fails")] })).await;
    env.all().delete(&env.name, &DeleteParams::default()).await.unwrap();
    env.until_deleted().await;
    let calls = receiver.at("/fails");
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|call| call.key() == calls[0].key()), "{calls:?}");
    let note = single_event(&env, "HookFailed").await;
    assert_eq!(note, "hook pipeline, event Deleted: gave up after 5 attempts: the receiver answered 503");
}

#[tokio::test]
async fn never_calls_unlisted_hosts_without_tls() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let url = format!("http://localhost:{}/takes", receiver.address.port());
    env.create(json!({ "hooks": [{ "name": "chat", "on": ["Created"], "url": url }] })).await;
    env.until("the error to be reported", |object| {
        hook_statuses(object).values().any(|one| one.message.contains("--namespaceplus-http-hosts"))
    })
    .await;
    assert!(receiver.at("/takes").is_empty());
}

#[tokio::test]
async fn kubectl_applies_quoted_and_unquoted_on() {
    let (env, receiver) = (TestEnv::new().await, HookReceiver::start().await);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for on in ["on", r#""on""#, "on"] {
        let manifest = format!(
            "apiVersion: mygroup.my.domain/v1\nkind: NamespacePlus\nmetadata:\n  name: {}\nspec:\n  hooks:\n    \
             - name: chat\n      {on}: [Created, Ready]\n      url: http://{}/takes\n",
            env.name, receiver.address
        );
        std::fs::write(path, manifest).unwrap();
        env.kubectl(&["apply", "-f", path]).await.unwrap();
        let object = until_delivered(&env).await;
        assert_eq!(hook_statuses(&object).len(), 2);
    }
    assert_eq!(receiver.at("/takes").len(), 2, "another notation triggers no call");
    // The output of kubectl can be applied again.
    let printed = env.kubectl(&["get", "nsp", &env.name, "-o", "yaml"]).await.unwrap();
    std::fs::write(path, printed).unwrap();
    env.kubectl(&["replace", "-f", path]).await.unwrap();
    until_delivered(&env).await;
    assert_eq!(receiver.at("/takes").len(), 2);
}
