//! The manager's image in Pods, installed from `deploy/install.yaml` unchanged.

use cluster::Cluster;
use local_manager::in_cluster;
use tokio::sync::OnceCell;

use crate::support::{Kubectl, image, shared};

static INSTALLED: OnceCell<()> = OnceCell::const_new();

/// Installs the manager once, and waits until both replicas are Ready.
pub(crate) async fn install(cluster: &'static Cluster) {
    INSTALLED
        .get_or_init(async || {
            in_cluster::install(cluster, &image()).await.unwrap();
        })
        .await;
}

#[tokio::test]
async fn podset_runs_containers_and_reports_crash_loops() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "podset").await;
    kubectl
        .apply(
            "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
---
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: crashing, namespace: NAMESPACE}
spec:
  replicas: 1
  template:
    spec:
      containers: [{name: crashing, image: 'busybox:1.36', command: ['false']}]
",
        )
        .await;
    let ready = |name: &str| format!("get podset {name} -o jsonpath={{.status.readyReplicas}}");
    kubectl.until(&ready("web"), |count| count == "3").await;
    kubectl.run("scale podset web --replicas=5").await.unwrap();
    kubectl.until(&ready("web"), |count| count == "5").await;
    kubectl.run("scale podset web --replicas=1").await.unwrap();
    kubectl.until(&ready("web"), |count| count == "1").await;

    kubectl.until("get pods", |pods| pods.contains("CrashLoopBackOff")).await;
    // Without a readiness probe, a container is Ready in the moment that it runs. It waits for longer each time.
    kubectl.until(&ready("crashing"), |count| count.is_empty() || count == "0").await;
}

#[tokio::test]
async fn memcached_stores_and_returns_values() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "memcached").await;
    kubectl
        .apply(
            "
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache, namespace: NAMESPACE}
spec: {size: 2}
",
        )
        .await;
    kubectl.run("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();
    kubectl.client("client").await;
    // Each name of the headless Service is one instance: both commands go to the same.
    let script = r#"
server=$(getent hosts cache 2> /dev/null || drill cache.$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace).svc.cluster.local)
server=$(echo "$server" | grep -oE '10\.244\.[0-9]+\.[0-9]+' | head -1)
printf 'set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n' | nc -w 5 "$server" 11211"#;
    let answer = kubectl.exec("client", script).await.unwrap();
    assert!(answer.starts_with("STORED\r\nVALUE k 0 5\r\nhello\r\nEND"), "{answer}");
}

#[tokio::test]
async fn webhooks_answer_through_their_service() {
    let shared = shared().await;
    install(shared.cluster).await;
    let error = shared
        .cluster
        .apply_yaml(
            "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {name: not-valid}
spec: {owners: [{kind: User, name: alice}], nodeSelector: {'bad key!': x}}
",
        )
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("a key must be a name"), "{error:#}");
}

#[tokio::test]
async fn manager_runs_restricted_and_small() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "manager").await;
    // The kubelet rejects what violates the Pod's security context; the namespace enforces the level.
    let level =
        "get namespace ensemble-system -o jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
    assert_eq!(kubectl.run(level).await.unwrap(), "restricted");
    let pods = "top pods -n ensemble-system -l app.kubernetes.io/component=manager --no-headers";
    let usage = kubectl.until(pods, |usage| usage.lines().count() == 2).await;
    println!("usage of the manager's Pods:\n{usage}");
    for line in usage.lines() {
        let memory = line.split_whitespace().nth(2).and_then(|memory| memory.strip_suffix("Mi")).unwrap();
        assert!(memory.parse::<u32>().unwrap() < 64, "{usage}");
    }
}

#[tokio::test]
async fn memcached_is_updated_one_by_one_and_admits_named_clients_only() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "tuned").await;
    kubectl
        .apply(
            "
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache, namespace: NAMESPACE}
spec:
  size: 3
  image: memcached:1.6
  memoryMegabytes: 32
  maxConnections: 100
  metrics: {}
  networkPolicy:
    from: [{podSelector: {matchLabels: {run: friend}}}]
    metricsFrom: [{podSelector: {matchLabels: {run: friend}}}]
",
        )
        .await;
    kubectl.run("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();
    for client in ["friend", "stranger"] {
        kubectl.client(client).await;
    }
    let address =
        kubectl.run("get pods -l app=memcached -o jsonpath={.items[0].status.podIP}").await.unwrap();
    let settings = format!("printf 'stats settings\\r\\nquit\\r\\n' | nc -w 3 {address} 11211");
    let settings = kubectl.exec("friend", &settings).await.unwrap();
    for expected in ["STAT maxbytes 33554432", "STAT maxconns 100"] {
        assert!(settings.contains(expected), "{settings}");
    }
    let metrics =
        kubectl.exec("friend", &format!("curl -sS -m 5 http://{address}:9150/metrics")).await.unwrap();
    assert!(metrics.contains("memcached_up 1"), "{metrics}");
    for port in [11211, 9150] {
        assert!(kubectl.connects("friend", &address, port).await.unwrap());
        let is_admitted = kubectl.connects("stranger", &address, port).await.unwrap();
        assert!(!is_admitted, "a client that the policy does not name reaches port {port}");
    }

    let watching = async {
        loop {
            let words = "get deployment cache -o jsonpath={.status.availableReplicas}";
            let available = kubectl.run(words).await.unwrap();
            assert!(available.parse::<u32>().unwrap_or(0) >= 2, "{available} of 3 instances are available");
        }
    };
    kubectl
        .run("patch memcached cache --type=merge -p {\"spec\":{\"image\":\"memcached:1.5\"}}")
        .await
        .unwrap();
    let images =
        "get pods -l app=memcached -o jsonpath={.items[*].spec.containers[?(@.name==\"memcached\")].image}";
    let updated = kubectl.until(images, |images| images.split(' ').all(|image| image == "memcached:1.5"));
    tokio::select! {
        _ = updated => {}
        () = watching => {}
    }
}
