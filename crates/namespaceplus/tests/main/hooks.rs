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
    events::only,
    support::{World, called, condition, until_delivered},
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
struct System {
    address: SocketAddr,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Call>>>;

impl System {
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
    one.attempts > 0 && one.under_way_until.is_none()
}

#[tokio::test]
async fn each_event_is_told_once_whatever_else_changes() {
    let (world, system) = (World::new().await, System::start().await);
    let hook = system.hook("chat", &["Created", "Ready", "Deleted"], "/takes");
    world.create(json!({ "hooks": [hook] })).await;
    let object = until_delivered(&world).await;
    let told = called(&object);
    assert_eq!(told.len(), 2);
    assert!(told.values().all(|one| one.state == HookState::Delivered && one.attempts == 1), "{told:?}");

    world.change(json!({ "labels": { "team": "blue" } })).await;
    world.until_ready().await;
    world.change(json!({ "hooks": [system.hook("chat", &["Ready", "Created"], "/takes")] })).await;
    until_delivered(&world).await;
    let mut events: Vec<_> = system.at("/takes").iter().map(|call| call.body.clone()).collect();
    events.sort();
    assert_eq!(events.len(), 2, "{events:?}");
    for (body, event) in events.iter().zip(["Created", "Ready"]) {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (body["event"].as_str(), body["namespace"].as_str()),
            (Some(event), Some(world.name.as_str()))
        );
        assert_eq!(body["owner"]["namespace"], world.home.name());
    }
}

#[tokio::test]
async fn a_call_is_made_again_under_the_same_key_until_it_is_taken() {
    let (world, system) = (World::new().await, System::start().await);
    let hooks = [
        system.hook("fails", &["Created"], "/fails-twice"),
        system.hook("late", &["Created"], "/is-late-once"),
        system.hook("slow", &["Created"], "/is-slow"),
    ];
    world.create(json!({ "hooks": hooks })).await;
    let told = called(&until_delivered(&world).await);
    for (name, path, attempts) in
        [("fails", "/fails-twice", 3), ("late", "/is-late-once", 2), ("slow", "/is-slow", 1)]
    {
        let one = &told[&(name.to_owned(), "Created")];
        assert_eq!(one.attempts, attempts, "{one:?}");
        let calls = system.at(path);
        assert_eq!(calls.len(), usize::try_from(attempts).unwrap());
        assert!(calls.iter().all(|call| call.key() == one.id), "{calls:?}");
    }
}

#[tokio::test]
async fn one_that_does_not_answer_or_redirects_holds_up_nothing_else() {
    let (world, system) = (World::new().await, System::start().await);
    let hooks = [
        system.hook("hangs", &["Created"], "/hangs"),
        system.hook("moved", &["Created"], "/redirects"),
        system.hook("refuses", &["Created"], "/fails"),
    ];
    world.create(json!({ "hooks": hooks })).await;
    let object = world
        .until("the status to report all calls", |object| {
            called(object).len() == 3 && called(object).values().all(was_answered)
        })
        .await;
    let said = called(&object);
    assert_eq!(said[&("hangs".to_owned(), "Created")].message, "no response within 1 s");
    assert!(said[&("moved".to_owned(), "Created")].message.contains("redirects are not followed"));
    assert_eq!(said[&("refuses".to_owned(), "Created")].message, "the receiver answered 503");
    assert!(!serde_json::to_string(&object).unwrap().contains("only-in-the-body"));
    let (status, reason, _) = condition(&object, "HooksDelivered").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "HookPending"));
    world.change(json!({ "labels": { "team": "blue" } })).await;
    world.until_ready().await;
    assert!(system.at("/elsewhere").is_empty());
    world.change(json!({ "hooks": [] })).await;
    let object = until_delivered(&world).await;
    assert!(called(&object).is_empty());
}

#[tokio::test]
async fn the_end_is_told_before_the_namespaceplus_goes() {
    let (world, system) = (World::new().await, System::start().await);
    let hook = system.hook("pipeline", &["Deleted"], "/fails-twice");
    world.ready(json!({ "hooks": [hook], "deletionPolicy": "Delete" })).await;
    assert!(system.at("/fails-twice").is_empty());
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    assert!(world.namespaces().get_opt(&world.name).await.unwrap().is_none());
    let calls = system.at("/fails-twice");
    assert_eq!(calls.len(), 3, "{calls:?}");
}

#[tokio::test]
async fn a_secret_gives_headers_once_an_administrator_lets_it_be_read() {
    let (world, system) = (World::new().await, System::start().await);
    let secret = json!({ "metadata": { "name": "token" }, "stringData": { "Authorization": "Bearer hidden-in-secret" } });
    let secrets = Api::<Secret>::namespaced(world.client.clone(), &world.home);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut hook = system.hook("chat", &["Created"], "/takes");
    hook["headersSecretRef"] = json!({ "name": "token" });
    world.create(json!({ "hooks": [hook] })).await;
    let object = world
        .until("the missing permission to be reported", |object| {
            called(object).values().any(|one| one.message.contains("hook-secrets.yaml"))
        })
        .await;
    assert!(called(&object).values().all(|one| one.message.contains(world.home.name())));
    assert!(system.at("/takes").is_empty());

    let role = json!({
        "metadata": { "name": "hook-secrets" },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }],
    });
    let roles = Api::<Role>::namespaced(world.client.clone(), &world.home);
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": { "name": "hook-secrets" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hook-secrets" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": world.harness.user }],
    });
    let bindings = Api::<RoleBinding>::namespaced(world.client.clone(), &world.home);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    let object = until_delivered(&world).await;
    let [call] = system.at("/takes").try_into().unwrap();
    assert_eq!(call.headers["authorization"], "Bearer hidden-in-secret");
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden-in-secret"));
    let secrets = world.harness.requests().unwrap().filter(|entry| entry.resource == "secrets").entries;
    assert!(secrets.iter().any(|entry| entry.code == 200));
    let is_own =
        |entry: &Entry| entry.verb == "get" && entry.name == "token" && entry.namespace == world.home.name();
    assert!(secrets.iter().all(is_own), "{secrets:?}");
}

#[tokio::test]
async fn a_last_call_that_nobody_takes_is_given_up_and_told_of_in_an_event() {
    let (world, system) = (World::new().await, System::start().await);
    world.ready(json!({ "hooks": [system.hook("pipeline", &["Deleted"], "/fails")] })).await;
    world.all().delete(&world.name, &DeleteParams::default()).await.unwrap();
    world.until_gone().await;
    let calls = system.at("/fails");
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|call| call.key() == calls[0].key()), "{calls:?}");
    let note = only(&world, "HookFailed").await;
    assert_eq!(note, "hook pipeline, event Deleted: gave up after 5 attempts: the receiver answered 503");
}

#[tokio::test]
async fn hosts_that_are_not_listed_are_not_called_without_tls() {
    let (world, system) = (World::new().await, System::start().await);
    let url = format!("http://localhost:{}/takes", system.address.port());
    world.create(json!({ "hooks": [{ "name": "chat", "on": ["Created"], "url": url }] })).await;
    world
        .until("the error to be reported", |object| {
            called(object).values().any(|one| one.message.contains("--namespaceplus-http-hosts"))
        })
        .await;
    assert!(system.at("/takes").is_empty());
}

#[tokio::test]
async fn a_bare_on_and_a_quoted_on_are_the_same_to_those_who_use_kubectl() {
    let (world, system) = (World::new().await, System::start().await);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for on in ["on", r#""on""#, "on"] {
        let manifest = format!(
            "apiVersion: mygroup.my.domain/v1\nkind: NamespacePlus\nmetadata:\n  name: {}\nspec:\n  hooks:\n    \
             - name: chat\n      {on}: [Created, Ready]\n      url: http://{}/takes\n",
            world.name, system.address
        );
        std::fs::write(path, manifest).unwrap();
        world.kubectl(&["apply", "-f", path]).await.unwrap();
        let object = until_delivered(&world).await;
        assert_eq!(called(&object).len(), 2);
    }
    assert_eq!(system.at("/takes").len(), 2, "another notation triggers no call");
    // The output of kubectl can be applied again.
    let printed = world.kubectl(&["get", "nsp", &world.name, "-o", "yaml"]).await.unwrap();
    std::fs::write(path, printed).unwrap();
    world.kubectl(&["replace", "-f", path]).await.unwrap();
    until_delivered(&world).await;
    assert_eq!(system.at("/takes").len(), 2);
}
