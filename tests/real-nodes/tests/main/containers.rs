//! What a kubelet does: containers, Services, volumes, and the streams of kubectl.

use tokio::{io::AsyncBufReadExt as _, io::BufReader, process::Command};

use crate::support::{Kubectl, shared};

#[tokio::test]
async fn pods_on_each_node_answer_through_their_service() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "service").await;
    kubectl
        .apply(
            "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: web}}
      initContainers:
        - name: page
          image: busybox:1.36
          command: [sh, -c, 'hostname > /page/index.html']
          volumeMounts: [{name: page, mountPath: /page}]
      containers:
        - name: nginx
          image: nginx:1.27
          ports: [{name: http, containerPort: 80}]
          readinessProbe: {httpGet: {port: http}, periodSeconds: 1}
          volumeMounts: [{name: page, mountPath: /usr/share/nginx/html}]
      volumes: [{name: page, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
",
        )
        .await;
    kubectl.run("rollout status deployment/web --timeout=120s").await.unwrap();
    let nodes = kubectl.run("get pods -o jsonpath={.items[*].spec.nodeName}").await.unwrap();
    let mut nodes: Vec<_> = nodes.split(' ').collect();
    nodes.sort_unstable();
    assert_eq!(nodes, crate::support::NODES);

    kubectl.client("client").await;
    let pages =
        kubectl.exec("client", "for i in $(seq 60); do curl -sS -m 10 http://web; done").await.unwrap();
    let pages: std::collections::BTreeSet<_> = pages.lines().collect();
    assert_eq!(pages.len(), 3, "each Pod answers with its name: {pages:?}");
    let logs = kubectl.run("logs deployment/web -c nginx").await.unwrap();
    assert!(logs.contains("GET / HTTP/1.1"), "{logs}");
}

#[tokio::test]
async fn kubectl_streams_work() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "streams").await;
    kubectl.run("run web --image=nginx:1.27 --port=80").await.unwrap();
    kubectl.ready("web").await;

    let failed = kubectl.exec("web", "echo out; exit 3").await.unwrap_err();
    assert!(format!("{failed:#}").contains("exit code 3"), "{failed:#}");

    let dir = tempfile::tempdir().unwrap();
    let (sent, received) = (dir.path().join("sent"), dir.path().join("received"));
    let content: Vec<u8> = (0..10_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&sent, &content).unwrap();
    kubectl.run(&format!("cp {} web:/tmp/file", sent.display())).await.unwrap();
    kubectl.run(&format!("cp web:/tmp/file {}", received.display())).await.unwrap();
    assert!(std::fs::read(&received).unwrap() == content, "10 MB arrive unchanged");

    let mut forward = kubectl
        .command()
        .args(["port-forward", "pod/web", ":80"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let address = line.split(' ').find(|word| word.starts_with("127.0.0.1:")).unwrap().to_owned();
    let page = Command::new("curl").args(["-sS", "-m", "10", &format!("http://{address}")]).output().await;
    assert!(String::from_utf8_lossy(&page.unwrap().stdout).contains("nginx"), "{address}");

    let debug = "debug web --image=busybox:1.36 --target=web --container=debugger -- sh -c";
    let args: Vec<_> = debug.split(' ').chain(["ps; echo debugged"]).collect();
    kubectl.args(&args).await.unwrap();
    let logs = kubectl.until("logs web -c debugger", |logs| logs.contains("debugged")).await;
    assert!(logs.contains("nginx"), "the debugger sees the processes of its target: {logs}");
}

#[tokio::test]
async fn container_above_its_memory_limit_is_killed() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "memory").await;
    kubectl
        .apply(
            "
apiVersion: v1
kind: Pod
metadata: {name: greedy, namespace: NAMESPACE}
spec:
  restartPolicy: Never
  containers:
    - name: greedy
      image: busybox:1.36
      command: [sh, -c, 'head -c 100000000 /dev/zero | tail']
      resources: {limits: {memory: 20Mi}}
",
        )
        .await;
    let reason = "get pod greedy -o jsonpath={.status.containerStatuses[0].state.terminated.reason}";
    assert_eq!(kubectl.until(reason, |reason| !reason.is_empty()).await, "OOMKilled");
}

#[tokio::test]
async fn volume_outlives_its_pod() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "volume").await;
    let pod = |command: &str| {
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: pod, namespace: NAMESPACE}}
spec:
  restartPolicy: Never
  securityContext: {{runAsUser: 1000, runAsNonRoot: true, fsGroup: 1000}}
  containers:
    - name: pod
      image: busybox:1.36
      command: [sh, -c, '{command}']
      volumeMounts: [{{name: data, mountPath: /data}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]
"
        )
    };
    kubectl
        .apply(
            "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: NAMESPACE}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
",
        )
        .await;
    for (command, output) in [("echo kept > /data/file", ""), ("cat /data/file", "kept\n")] {
        kubectl.apply(&pod(command)).await;
        kubectl.until("get pod pod -o jsonpath={.status.phase}", |phase| phase == "Succeeded").await;
        assert_eq!(kubectl.run("logs pod").await.unwrap(), output);
        kubectl.run("delete pod pod --wait --timeout=60s").await.unwrap();
    }
}

#[tokio::test]
async fn unknown_image_is_reported_at_once() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "unknown").await;
    kubectl.run("run pod --image=ghcr.io/nobody/nothing:1").await.unwrap();
    let reason = "get pod pod -o jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    kubectl.until(reason, |reason| reason == "ErrImagePull" || reason == "ImagePullBackOff").await;
}

#[tokio::test]
async fn kubectl_top_shows_usage() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "top").await;
    let nodes = kubectl.until("top nodes --no-headers", |nodes| !nodes.contains("<unknown>")).await;
    assert_eq!(nodes.lines().count(), crate::support::NODES.len(), "{nodes}");
    kubectl.until("top pods --no-headers -n kube-system", |pods| pods.contains("coredns")).await;
}
