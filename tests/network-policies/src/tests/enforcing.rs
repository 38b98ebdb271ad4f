//! Tests of the loop, with an API server that answers from memory.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use futures::{
    StreamExt,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Body, Bytes, Frame};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{pod, policy};
use crate::enforce;

const PODS: &str = "/api/v1/pods";
const POLICIES: &str = "/apis/networking.k8s.io/v1/networkpolicies";

/// The objects and the watch of one kind.
struct Kind {
    objects: Vec<Value>,
    events: UnboundedSender<Bytes>,
    watch: Option<UnboundedReceiver<Bytes>>,
}

impl Kind {
    fn new(objects: Vec<Value>) -> Self {
        let (events, watch) = unbounded();
        Self { objects, events, watch: Some(watch) }
    }
}

/// An API server that lists and watches three kinds.
#[derive(Clone)]
struct Server {
    kinds: Arc<Mutex<BTreeMap<String, Kind>>>,
}

impl Server {
    /// Creates a server with one Pod on each of the nodes `n1` and `n2`.
    fn new() -> Self {
        let pods = [("n1", "10.0.1.2"), ("n2", "10.0.2.2")].map(|(node, address)| pod_on(node, address));
        let kinds = [(PODS, pods.to_vec()), ("/api/v1/namespaces", vec![]), (POLICIES, vec![])];
        let kinds = kinds.map(|(path, objects)| (path.to_owned(), Kind::new(objects)));
        Self { kinds: Arc::new(Mutex::new(kinds.into())) }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request| {
            let response = server.answer(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn answer<B>(
        &self,
        request: &Request<B>,
    ) -> Response<impl Body<Data = Bytes, Error = Infallible> + use<B>> {
        let mut kinds = self.kinds.lock().unwrap();
        let kind = kinds.get_mut(request.uri().path()).unwrap();
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let body = if is_watch {
            kind.watch.take().expect("a kind is watched once")
        } else {
            let (list, body) = unbounded();
            let items = json!({"metadata": {"resourceVersion": "1"}, "items": kind.objects});
            list.unbounded_send(Bytes::from(items.to_string())).unwrap();
            body
        };
        Response::new(StreamBody::new(body.map(|bytes| Ok(Frame::data(bytes)))))
    }

    /// Sends watch events for the objects, all at once.
    fn send(&self, path: &str, event: &str, objects: impl IntoIterator<Item = Value>) {
        let lines =
            objects.into_iter().map(|object| format!("{}\n", json!({"type": event, "object": object})));
        let events = &self.kinds.lock().unwrap()[path].events;
        events.unbounded_send(Bytes::from(lines.collect::<String>())).unwrap();
    }
}

/// A running loop and what it applied.
struct Loop {
    task: JoinHandle<Infallible>,
    applied: UnboundedReceiver<(String, String)>,
}

impl Loop {
    /// Starts the loop. The first calls for a node fail.
    fn start(server: &Server, failures: usize) -> Self {
        let (sender, applied) = unbounded();
        let calls = Mutex::new(BTreeMap::<String, usize>::new());
        let apply = move |node: String, script: String| {
            let mut calls = calls.lock().unwrap();
            let calls = calls.entry(node.clone()).or_default();
            *calls += 1;
            let result = if *calls > failures { Ok(()) } else { Err("the node is down") };
            sender.unbounded_send((node, script)).unwrap();
            async move { result }
        };
        Self { task: tokio::spawn(enforce(server.client(), ["n1", "n2"], apply)), applied }
    }

    async fn next(&mut self) -> (String, String) {
        self.applied.next().await.unwrap()
    }

    /// Returns the next two calls by node.
    async fn next_of_both(&mut self) -> BTreeMap<String, String> {
        [self.next().await, self.next().await].into()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn pod_on(node: &str, address: &str) -> Value {
    let mut pod = pod("default", node, address, json!({"node": node}));
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod.metadata.resource_version = Some("1".to_owned());
    json!(pod)
}

fn deny(name: &str, node: &str) -> Value {
    let mut policy = policy("default", name, json!({"podSelector": {"matchLabels": {"node": node}}}));
    policy.metadata.resource_version = Some("2".to_owned());
    json!(policy)
}

#[tokio::test]
async fn only_nodes_whose_script_changed_are_updated() {
    let server = Server::new();
    let mut enforcing = Loop::start(&server, 0);
    let open = enforcing.next_of_both().await;
    assert_eq!(open.keys().collect::<Vec<_>>(), ["n1", "n2"]);

    server.send(POLICIES, "ADDED", [deny("first", "n2")]);
    let (node, script) = enforcing.next().await;
    assert_eq!(node, "n2");
    assert!(script.contains("chain ingress-10.0.2.2"), "{script}");

    server.send(POLICIES, "ADDED", [deny("second", "n1")]);
    assert_eq!(enforcing.next().await.0, "n1");

    server.send(POLICIES, "DELETED", [deny("first", "n2")]);
    assert_eq!(enforcing.next().await, ("n2".to_owned(), open["n2"].clone()));
}

#[tokio::test]
async fn changes_at_the_same_time_are_applied_together() {
    let server = Server::new();
    let mut enforcing = Loop::start(&server, 0);
    enforcing.next_of_both().await;
    server.send(
        PODS,
        "ADDED",
        (3..30).map(|host| {
            let mut pod = pod_on("n1", &format!("10.0.1.{host}"));
            pod["metadata"]["name"] = json!(format!("pod-{host}"));
            pod
        }),
    );
    server.send(POLICIES, "ADDED", [deny("policy", "n1")]);
    let (_, script) = enforcing.next().await;
    assert_eq!(script.matches("chain ingress-").count(), 28, "{script}");
}

#[tokio::test]
async fn a_failed_application_is_repeated() {
    let server = Server::new();
    let mut enforcing = Loop::start(&server, 1);
    let first = enforcing.next_of_both().await;
    assert_eq!(enforcing.next_of_both().await, first);
    server.send(POLICIES, "ADDED", [deny("policy", "n1")]);
    assert_eq!(enforcing.next().await.0, "n1");
}
