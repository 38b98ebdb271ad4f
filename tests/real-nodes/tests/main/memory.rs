//! The memory of the manager's container under hostile reviews.

use std::net::SocketAddr;

use ::manager::NAMESPACE as MANAGER;
use cluster::Cluster;
use harness::hostile_reviews::{self, WebhookRule, WebhookServer};
use serde_json::{Value, json};

use crate::{manager::install, support::shared};

/// Concurrent connections.
const CONNECTIONS: usize = 16;
/// Sizes of the bodies: small ones, and the largest that are accepted.
const SIZES: [usize; 2] = [96 * 1024, 4 * 1024 * 1024 - 8 * 1024];
const LISTS: [usize; 2] = [96 * 1024, 16 * 1024 * 1024 - 8 * 1024];
/// Sends every n-th body. `cargo xtask bench hostile-reviews` sends all.
const STEP: usize = 47;
/// Path that takes conversion reviews.
const CONVERSION: &str = "/tenant/convert/tenants";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_reviews_stay_below_the_memory_limit_of_the_container() {
    let shared = shared().await;
    install(shared.cluster).await;
    let (cluster, pod) = (shared.cluster, Replica::any(shared.cluster).await);
    let usage = cluster.container_usage(MANAGER, &pod.name).await.unwrap();
    let (restarts, at_rest) = (pod.restarts(cluster).await, usage.memory().unwrap());

    let webhooks = webhooks(cluster).await;
    let tenants = webhooks.iter().find(|webhook| webhook.path == "/tenant/tenants").unwrap();
    let valid = tenants.review("spec", &json!({ "owners": [{ "kind": "User", "name": "a" }] }).to_string());
    let reviews = webhooks.clone().into_iter().flat_map(|webhook| {
        let path = webhook.path.clone();
        hostile_reviews::admission(webhook, &SIZES).map(move |body| (path.clone(), body))
    });
    let conversions = hostile_reviews::conversion(&LISTS).map(|body| (CONVERSION.to_owned(), body));
    let bodies = reviews.chain(conversions).step_by(STEP);
    let server = pod.webhook_server(cluster).await;
    let outcome =
        hostile_reviews::attack(&server, CONNECTIONS, bodies, (&tenants.path, &valid)).await.unwrap();

    let (peak, limit) = (usage.peak_memory().unwrap(), memory_limit(cluster).await);
    println!("{outcome:?}; at rest {at_rest:.1} MiB, at most {peak:.1} MiB of {limit} MiB");
    assert!(outcome.real > 0 && outcome.answers.contains_key(&200), "{outcome:?}");
    assert!(peak < limit, "the container used {peak:.1} MiB of {limit} MiB");
    assert_eq!(pod.restarts(cluster).await, restarts, "the container restarted");
}

/// A Pod of the manager.
struct Replica {
    name: String,
    address: SocketAddr,
    node: String,
}

impl Replica {
    async fn any(cluster: &Cluster) -> Self {
        let pods = "jsonpath={.items[0].metadata.name} {.items[0].status.podIP} {.items[0].spec.nodeName}";
        let selector = "app.kubernetes.io/component=manager";
        let pod = cluster.kubectl(&["-n", MANAGER, "get", "pods", "-l", selector, "-o", pods]).await.unwrap();
        let [name, address, node] = *pod.split(' ').collect::<Vec<_>>() else { panic!("{pod}") };
        let address = format!("{address}:9443").parse().unwrap();
        Self { name: name.to_owned(), address, node: node.to_owned() }
    }

    /// Returns the webhook server of this Pod. The API server selects one by itself.
    async fn webhook_server(&self, cluster: &Cluster) -> WebhookServer {
        let authority = "go-template={{index .data \"ca.crt\" | base64decode}}";
        let secret = ["-n", MANAGER, "get", "secret", "ensemble-certificates", "-o", authority];
        let authority = cluster.kubectl(&secret).await.unwrap().into_bytes();
        let host = format!("ensemble-webhook.{MANAGER}.svc");
        let network = cluster.node_network(&self.node).unwrap();
        WebhookServer::in_pods(network, self.address, &host, authority).unwrap()
    }

    async fn restarts(&self, cluster: &Cluster) -> String {
        let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
        cluster.kubectl(&["-n", MANAGER, "get", "pod", &self.name, "-o", restarts]).await.unwrap()
    }
}

/// Returns the path and a rule of each webhook.
async fn webhooks(cluster: &Cluster) -> Vec<WebhookRule> {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let ours = "app.kubernetes.io/part-of=ensemble";
    let configurations = cluster.kubectl(&["get", kinds, "-l", ours, "-o", "json"]).await.unwrap();
    let configurations: Value = serde_json::from_str(&configurations).unwrap();
    let items = configurations["items"].as_array().unwrap();
    let webhooks: Vec<_> = items.iter().flat_map(WebhookRule::from_configuration).collect();
    assert!(webhooks.len() >= 8, "{webhooks:?}");
    webhooks
}

/// Returns the memory limit of the Deployment in MiB.
async fn memory_limit(cluster: &Cluster) -> f64 {
    let limit = "jsonpath={.spec.template.spec.containers[0].resources.limits.memory}";
    let deployment = ["-n", MANAGER, "get", "deployment", "ensemble-manager", "-o", limit];
    let limit = cluster.kubectl(&deployment).await.unwrap();
    limit.strip_suffix("Mi").unwrap().parse().unwrap()
}
