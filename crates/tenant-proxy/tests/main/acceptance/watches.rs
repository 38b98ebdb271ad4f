//! Watches of views.

use futures::{AsyncBufRead, AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::support::{PATIENCE, shared};

/// A watch in JSON.
struct Watch(futures::io::Lines<Box<dyn AsyncBufRead + Send + Unpin>>);

impl Watch {
    /// Opens a watch, and waits until it has shown the present objects.
    async fn open(client: &Client, path: &str) -> Self {
        let query =
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let request = http::Request::get(format!("{path}?{query}")).body(Vec::new()).unwrap();
        let stream = client.request_stream(request).await.unwrap();
        let mut watch = Self((Box::new(stream) as Box<dyn AsyncBufRead + Send + Unpin>).lines());
        while watch.line().await.unwrap()["type"] != "BOOKMARK" {}
        watch
    }

    async fn line(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.0.next()).await.expect("an event must come")?;
        Some(serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// Returns the next event that is no bookmark: its type, and the name or the reason of its object.
    async fn next(&mut self) -> Option<(String, String)> {
        loop {
            let event = self.line().await?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap() {
                "BOOKMARK" => {}
                "ERROR" => return Some(("ERROR".to_owned(), text(&event["object"]["reason"]))),
                kind => return Some((kind.to_owned(), text(&event["object"]["metadata"]["name"]))),
            }
        }
    }
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn watch_shows_new_namespaces_and_never_those_of_others() {
    let proxy = shared().await;
    let owner = proxy.owner(&["watched"]).await;
    proxy.namespace_of("watched", "watched-a", &[]).await;
    owner.until_namespaces(&["watched-a"]).await;
    let mut watch = Watch::open(&owner.client().await, "/api/v1/namespaces").await;
    proxy.namespace_of("others", "watched-other", &[]).await;
    proxy.namespace_of("watched", "watched-b", &[]).await;
    assert_eq!(watch.next().await.unwrap(), event("ADDED", "watched-b"));
}

#[tokio::test]
async fn watch_ends_when_its_user_owns_less_or_more() {
    let proxy = shared().await;
    let owner = proxy.owner(&["less"]).await;
    proxy.namespace_of("less", "less-dev", &[]).await;
    owner.until_namespaces(&["less-dev"]).await;
    let client = owner.client().await;
    let (mut namespaces, mut tenants) = (
        Watch::open(&client, "/api/v1/namespaces").await,
        Watch::open(&client, "/apis/capsule.clastix.io/v1beta2/tenants").await,
    );
    owner.give("more").await;
    for watch in [&mut namespaces, &mut tenants] {
        assert_eq!(watch.next().await.unwrap(), event("ERROR", "Expired"));
        assert_eq!(watch.next().await, None);
    }
    owner.until_namespaces(&["less-dev"]).await;
    let mut namespaces = Watch::open(&client, "/api/v1/namespaces").await;
    proxy.tenant("less", &[("User", "nobody")]).await;
    assert_eq!(namespaces.next().await.unwrap(), event("ERROR", "Expired"));
    owner.until_namespaces(&[]).await;
}

#[tokio::test]
async fn informer_shows_the_namespaces_of_a_new_tenant_without_a_restart() {
    let proxy = shared().await;
    let owner = proxy.owner(&["informed"]).await;
    for tenant in ["informed", "later"] {
        proxy.namespace_of(tenant, &format!("{tenant}-dev"), &[]).await;
    }
    owner.until_namespaces(&["informed-dev"]).await;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        proxy.tenant("later", &[("User", "nobody")]).await;
        owner.until_namespaces(&["informed-dev"]).await;
        let namespaces = Api::<Namespace>::all(owner.client().await);
        let mut events = std::pin::pin!(watcher(namespaces, config).default_backoff().applied_objects());
        // An expired version is an error, after which the informer lists again.
        let mut next = async || {
            let next = async {
                loop {
                    match events.try_next().await {
                        Ok(object) => return object.unwrap().name_any(),
                        Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            };
            timeout(PATIENCE, next).await.unwrap()
        };
        assert_eq!(next().await, "informed-dev");
        owner.give("later").await;
        let mut seen = vec![next().await, next().await];
        seen.sort();
        assert_eq!(seen, ["informed-dev", "later-dev"]);
    }
}

#[tokio::test]
async fn watch_in_protocol_buffers_ends_with_an_error_too() {
    let proxy = shared().await;
    let owner = proxy.owner(&["proto"]).await;
    proxy.namespace_of("proto", "proto-dev", &[]).await;
    owner.until_namespaces(&["proto-dev"]).await;
    let client = owner.client().await;
    let request = http::Request::get("/api/v1/namespaces?watch=true&resourceVersion=0")
        .header("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
        .body(kube::client::Body::empty())
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    let contains = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    while !contains(&bytes, "proto-dev") {
        let frame = timeout(PATIENCE, http_body_util::BodyExt::frame(&mut body)).await.unwrap();
        bytes.extend(frame.unwrap().unwrap().into_data().unwrap());
    }
    owner.give("proto-more").await;
    let rest = timeout(PATIENCE, http_body_util::BodyExt::collect(body)).await.unwrap().unwrap().to_bytes();
    assert!(contains(&rest, "ERROR") && contains(&rest, "Expired"), "{rest:?}");
    bytes.extend(&rest);
    // Every event has its length.
    let mut left = bytes.as_slice();
    let mut events = 0;
    while let Some((length, rest)) = left.split_first_chunk::<4>() {
        left = &rest[usize::try_from(u32::from_be_bytes(*length)).unwrap()..];
        events += 1;
    }
    assert!(left.is_empty() && events >= 2, "{events}");
}

#[tokio::test]
async fn watch_with_the_parameters_of_client_go_is_shown() {
    let proxy = shared().await;
    let owner = proxy.owner(&["go"]).await;
    proxy.namespace_of("go", "go-dev", &[]).await;
    owner.until_namespaces(&["go-dev"]).await;
    let list = owner.get("/api/v1/namespaces?limit=500&resourceVersion=0&timeout=32s", &[]).await;
    assert_eq!(list.status(), 200);
    let query = "allowWatchBookmarks=true&resourceVersion=0&timeout=1s&timeoutSeconds=1&watch=true";
    let watch = owner.get(&format!("/api/v1/namespaces?{query}"), &[]).await;
    let text = String::from_utf8_lossy(watch.body()).into_owned();
    assert!(watch.status() == 200 && text.contains("\"ADDED\"") && text.contains("go-dev"), "{text}");
}
