//! The fields of a Memcached, and what its containers do with them.

use cluster::wait::eventually;

use crate::{
    manager::install,
    support::{Kubectl, PATIENCE, Shared, shared},
};

impl Shared {
    /// Returns kubectl, with a Memcached `cache` that has this spec, and a Pod `client`.
    async fn with_memcached(&self, prefix: &str, spec: &str) -> Kubectl {
        install(self.cluster).await;
        let kubectl = Kubectl::new(self.cluster, prefix).await;
        kubectl
            .apply(&format!(
                "
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {{name: cache, namespace: NAMESPACE}}
spec: {spec}
"
            ))
            .await;
        kubectl.client("client").await;
        kubectl.run("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();
        kubectl
    }
}

impl Kubectl {
    /// Sends a command to memcached, and returns the answer.
    async fn ask(&self, host: &str, port: u16, command: &str) -> String {
        let script = format!("printf '{command}\\r\\nquit\\r\\n' | nc -w 5 {host} {port}");
        self.exec("client", &script).await.unwrap()
    }

    /// Returns how often memcached was restarted.
    async fn restarts(&self) -> String {
        self.run("get pods -l app=memcached -o jsonpath={.items[*].status.containerStatuses[*].restartCount}")
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn endpoint_in_the_status_serves_what_the_spec_says() {
    let shared = shared().await;
    let kubectl = shared
        .with_memcached(
            "fields",
            "
  containerPort: 12345
  memoryMegabytes: 40
  maxItemSize: 2m
  maxConnections: 60
  threads: 2
  extraArgs: [-R, '10']
  metrics: {port: 9999}
  networkPolicy:
    from: [{podSelector: {matchLabels: {run: client}}}]
    metricsFrom: [{podSelector: {matchLabels: {run: prometheus}}}]",
        )
        .await;
    let endpoint = kubectl.run("get memcached cache -o jsonpath={.status.endpoints[0]}").await.unwrap();
    let (host, port) = endpoint.rsplit_once(':').unwrap();
    assert_eq!(port, "12345");
    let settings = kubectl.ask(host, 12345, "stats settings").await;
    for setting in [
        "maxbytes 41943040",
        "item_size_max 2097152",
        "maxconns 60",
        "num_threads 2",
        "reqs_per_event 10",
        "udpport 0",
    ] {
        assert!(settings.contains(&format!("STAT {setting}\r\n")), "{setting} is not in {settings}");
    }

    // Prometheus reaches the exporter only.
    kubectl.client("prometheus").await;
    assert_eq!(kubectl.ask(host, 12345, "set key 0 0 2\\r\\nab").await, "STORED\r\n");
    let scrape = "curl -sS -m 5 http://cache-metrics:9999/metrics";
    let metrics = kubectl.exec("prometheus", scrape).await.unwrap();
    for metric in ["memcached_up 1", "memcached_current_items 1", "memcached_limit_bytes 4.194304e+07"] {
        assert!(metrics.contains(metric), "{metric} is not in {metrics}");
    }
    let reaches = kubectl.connects("prometheus", host, 12345).await.unwrap();
    assert!(!reaches, "Prometheus reaches memcached itself");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_and_the_pod_stays_ready() {
    let shared = shared().await;
    let kubectl = shared.with_memcached("connections", "{maxConnections: 64, threads: 4}").await;
    let open = "for i in $(seq 80); do (sleep 60 | nc cache 11211 > /dev/null) & done; wait";
    let open = ["exec", "client", "--", "timeout", "40", "sh", "-c", open];
    let mut clients = kubectl.command().args(open).spawn().unwrap();
    let ask = "printf 'version\\r\\nquit\\r\\n' | nc -w 5 cache 11211 || true";
    eventually("memcached to refuse a connection", PATIENCE, async || {
        let answer = kubectl.exec("client", ask).await?;
        Ok(if answer.contains("Too many open connections") { Ok(()) } else { Err(answer) })
    })
    .await
    .unwrap();
    let ready = "get memcached cache -o jsonpath={.status.readyReplicas}";
    assert_eq!(kubectl.run(ready).await.unwrap(), "1");
    clients.kill().await.unwrap();
    kubectl.run("delete pod client --now").await.unwrap();
    kubectl.client("client").await;
    assert!(kubectl.ask("cache", 11211, "version").await.starts_with("VERSION"));
    assert_eq!(kubectl.restarts().await, "0");
}

#[tokio::test]
async fn full_cache_evicts_items_and_stays_below_its_memory_limit() {
    let shared = shared().await;
    let kubectl = shared.with_memcached("full", "{memoryMegabytes: 16}").await;
    // First large items, then small ones, each far more than the cache holds.
    for fill in [
        "i=0; while [ $i -lt 80 ]; do i=$((i+1)); printf 'set l%d 0 0 500000 noreply\\r\\n' $i; head -c 500000 /dev/zero; printf '\\r\\n'; done",
        "seq 200000 | awk '{printf \"set s%d 0 0 100 noreply\\r\\n%0100d\\r\\n\", $1, 0}'",
    ] {
        let fill = format!("({fill}; printf 'version\\r\\nquit\\r\\n') | nc -w 30 cache 11211");
        let answer = kubectl.exec("client", &fill).await.unwrap();
        assert!(answer.starts_with("VERSION"), "{answer}");
    }
    let stats = kubectl.ask("cache", 11211, "stats").await;
    let stat = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {stats}")).trim().parse::<u64>().unwrap()
    };
    assert_eq!(stat("total_items"), 200_080, "{stats}");
    assert!(stat("evictions") > 0, "{stats}");
    assert_eq!(kubectl.restarts().await, "0", "the container was killed");
}
