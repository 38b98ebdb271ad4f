//! PodSets whose containers start late, fail, or become unready.

use crate::{
    manager::install,
    support::{Kubectl, Shared, shared},
};

/// A PodSet `web` whose Pods leave a node three seconds after it stops responding.
pub(crate) const EVICTED_AFTER_3_SECONDS: &str = "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app: web}}
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
";
/// Arguments of kubectl for the number of Ready Pods of the PodSet `web`.
pub(crate) const READY: &str = "get podset web -o jsonpath={.status.readyReplicas}";
/// The number of Pods, the number of Ready Pods, and the condition Ready.
const STATUS: &str = r#"get podset web -o jsonpath={.status.availableReplicas}/{.status.readyReplicas}/{.status.conditions[?(@.type=="Ready")].reason}"#;

impl Shared {
    /// Returns kubectl, with a PodSet `web` in its namespace that has this spec.
    async fn with_podset(&self, prefix: &str, spec: &str) -> Kubectl {
        install(self.cluster).await;
        let kubectl = Kubectl::new(self.cluster, prefix).await;
        kubectl
            .apply(&format!(
                "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {{name: web, namespace: NAMESPACE}}
spec: {spec}
"
            ))
            .await;
        kubectl
    }
}

impl Kubectl {
    /// Waits until the PodSet has this status.
    async fn podset_is(&self, status: &str) {
        self.until(STATUS, |seen| seen == status).await;
    }

    /// Returns the names of the Pods that the PodSet's status contains.
    async fn pod_names(&self) -> String {
        self.run("get podset web -o jsonpath={.status.podNames[*]}").await.unwrap()
    }
}

#[tokio::test]
async fn init_containers_run_before_the_pod_is_ready() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "init",
            "
  template:
    spec:
      terminationGracePeriodSeconds: 1
      initContainers:
        - name: page
          image: busybox:1.36
          command: [sh, -c, 'until [ -e /page/go ]; do sleep 0.1; done; echo initialized > /page/index.html']
          volumeMounts: [{name: page, mountPath: /page}]
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
          volumeMounts: [{name: page, mountPath: /usr/share/nginx/html}]
      volumes: [{name: page, emptyDir: {}}]",
        )
        .await;
    let running = "get pod web-pod-1 -o jsonpath={.status.initContainerStatuses[0].state.running.startedAt}";
    kubectl.until(running, |started| !started.is_empty()).await;
    kubectl.podset_is("1/0/PodsNotReady").await;
    kubectl.args(&["exec", "web-pod-1", "-c", "page", "--", "touch", "/page/go"]).await.unwrap();
    kubectl.podset_is("1/1/AsSpecified").await;
    let page = kubectl.exec("web-pod-1", "cat /usr/share/nginx/html/index.html").await.unwrap();
    assert_eq!(page, "initialized\n");
}

#[tokio::test]
async fn failing_init_container_is_reported_and_retried_in_the_same_pod() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "init-fails",
            "
  template:
    spec:
      initContainers: [{name: check, image: 'busybox:1.36', command: [sh, -c, 'echo no database; exit 3']}]
      containers: [{name: nginx, image: 'nginx:1.27'}]",
        )
        .await;
    let restarts = "get pod web-pod-1 -o jsonpath={.status.initContainerStatuses[0].restartCount}";
    kubectl.until(restarts, |count| count.parse::<u32>().is_ok_and(|count| count > 0)).await;
    kubectl.podset_is("1/0/PodsNotReady").await;
    assert_eq!(
        kubectl.pod_names().await,
        "web-pod-1",
        "the kubelet retries; the PodSet does not replace the Pod"
    );
    kubectl.until("logs web-pod-1 -c check", |log| log == "no database\n").await;
}

#[tokio::test]
async fn image_that_does_not_exist_is_reported_until_it_is_corrected() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "no-image",
            "{template: {spec: {containers: [{name: web, image: 'ghcr.io/nobody/nothing:1'}]}}}",
        )
        .await;
    kubectl.podset_is("1/0/PodsNotReady").await;
    let message = r#"get podset web -o jsonpath={.status.conditions[?(@.type=="Ready")].message}"#;
    let message = kubectl.run(message).await.unwrap();
    // The command in the message shows the cause.
    let command = message.split('`').nth(1).and_then(|command| command.strip_prefix("kubectl "));
    kubectl
        .until(command.unwrap_or_else(|| panic!("no command in {message:?}")), |description| {
            description.contains("Failed to pull image \"ghcr.io/nobody/nothing:1\"")
        })
        .await;

    let image = r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:1.27"}]"#;
    kubectl.args(&["patch", "podset", "web", "--type=json", "-p", image]).await.unwrap();
    kubectl.run("delete pod web-pod-1 --timeout=60s").await.unwrap();
    kubectl.podset_is("1/1/AsSpecified").await;
}

#[tokio::test]
async fn liveness_probe_restarts_the_container_and_keeps_the_pod() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "liveness",
            "
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: busybox:1.36
          command: [sh, -c, 'rm -f /state/*; sleep 3600']
          livenessProbe: {exec: {command: [test, '!', -e, /state/hangs]}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 10}
          readinessProbe: {exec: {command: [test, -e, /state/ready]}, periodSeconds: 1}
          volumeMounts: [{name: state, mountPath: /state}]
      volumes: [{name: state, emptyDir: {}}]",
        )
        .await;
    let started = "get pod web-pod-1 -o jsonpath={.metadata.uid}/{.status.containerStatuses[0].restartCount}/{.status.containerStatuses[0].started}";
    let first = kubectl.until(started, |started| started.ends_with("/0/true")).await;
    let make_ready = "until pidof sleep; do sleep 0.1; done; touch /state/ready";
    kubectl.exec("web-pod-1", make_ready).await.unwrap();
    kubectl.podset_is("1/1/AsSpecified").await;
    kubectl.exec("web-pod-1", "touch /state/hangs").await.unwrap();
    let second = kubectl.until(started, |started| started.ends_with("/1/true")).await;
    assert_eq!(second, first.replace("/0/", "/1/"), "the Pod is another one");
    kubectl.podset_is("1/0/PodsNotReady").await;
    kubectl.exec("web-pod-1", make_ready).await.unwrap();
    kubectl.podset_is("1/1/AsSpecified").await;
}

#[tokio::test]
async fn scaling_down_deletes_pods_that_are_not_ready_first() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "order",
            "
  replicas: 4
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: busybox:1.36
          command: [sleep, '3600']
          readinessProbe: {exec: {command: [test, '!', -e, /tmp/unready]}, periodSeconds: 1}",
        )
        .await;
    kubectl.podset_is("4/4/AsSpecified").await;
    // Among Ready Pods, the newest go first, and the first Pods stay.
    for (unready, left) in [("1", "web-pod-2 web-pod-3 web-pod-4"), ("2", "web-pod-3 web-pod-4")] {
        let before = left.split(' ').count();
        kubectl.exec(&format!("web-pod-{unready}"), "touch /tmp/unready").await.unwrap();
        kubectl.podset_is(&format!("{}/{before}/PodsNotReady", before + 1)).await;
        kubectl.run(&format!("scale podset web --replicas={before}")).await.unwrap();
        kubectl.podset_is(&format!("{before}/{before}/AsSpecified")).await;
        assert_eq!(kubectl.pod_names().await, left);
    }
}

#[tokio::test]
async fn scaling_under_load_loses_no_request() {
    let shared = shared().await;
    let kubectl = shared
        .with_podset(
            "load",
            "
  template:
    spec:
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
          lifecycle: {preStop: {sleep: {seconds: 5}}}",
        )
        .await;
    kubectl.podset_is("1/1/AsSpecified").await;
    kubectl.run("create service clusterip web --tcp=80").await.unwrap();
    let load = "run load --image=localhost/client:1 --restart=Never -- sh -c";
    let get = "curl -sS -m 30 -o /dev/null http://web";
    let script = format!(
        "until {get} 2> /dev/null; do sleep 0.1; done; while :; do {get} && echo ok; sleep 0.02; done 2>&1"
    );
    kubectl.args(&load.split(' ').chain([script.as_str()]).collect::<Vec<_>>()).await.unwrap();
    kubectl.until("logs load --tail=1", |line| line == "ok\n").await;

    let history = kubectl.history("podset/web", "{.status.availableReplicas}").await;
    for count in [10, 2] {
        kubectl.run(&format!("scale podset web --replicas={count}")).await.unwrap();
        kubectl.podset_is(&format!("{count}/{count}/AsSpecified")).await;
    }
    kubectl.until(READY, |count| count == "2").await;
    kubectl.until("get pods -l app=web --no-headers", |pods| pods.lines().count() == 2).await;
    let counts = history.values().await;
    assert!(counts.iter().all(|count| count.parse::<u32>().is_ok_and(|count| count <= 10)), "{counts:?}");
    let log = kubectl.run("logs load").await.unwrap();
    let failed: Vec<_> = log.lines().filter(|line| *line != "ok").collect();
    assert!(failed.is_empty(), "{} of {} requests failed: {failed:?}", failed.len(), log.lines().count());
}
