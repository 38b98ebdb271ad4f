//! The proxy of Tenants in Pods, from `deploy/proxy`, and what an owner does through it with containers.

use std::{net::SocketAddr, path::PathBuf, process::Stdio};

use ::manager::NAMESPACE;
use cluster::{Cluster, real_nodes::ForwardedPort, wait::eventually};
use local_manager::proxy::deploy_proxy;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
    sync::{OnceCell, RwLock},
};

use crate::{
    manager::install,
    support::{PATIENCE, shared},
};

/// Selects the older protocol of exec, attach, and port-forward.
const SPDY: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];
/// Selects the endpoints of the Service of the proxy.
const SERVICE: &str = "kubernetes.io/service-name=ensemble-proxy";
/// The address and the port of each Pod behind a Service that is ready.
const BACKENDS: &str =
    r#"jsonpath={range .items[0].endpoints[?(@.conditions.ready==true)]}{.addresses[0]}:9443{"\n"}{end}"#;
/// A Tenant of dan, who owns nothing else.
const TENANT: &str = "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {name: sun}
spec: {owners: [{kind: User, name: dan}]}
";

static AUTHORITY: OnceCell<String> = OnceCell::const_new();
/// Held while a test connects through a Pod of the proxy, and exclusively while the Pods are replaced.
static PODS: RwLock<()> = RwLock::const_new(());

/// A program that forwards a port. It ends if nobody reads its output.
struct Forward {
    child: Child,
    _output: BufReader<ChildStdout>,
    port: u16,
}

/// An owner who reaches one Pod of the proxy.
struct Owner {
    cluster: &'static Cluster,
    kubeconfig: PathBuf,
    _port: ForwardedPort,
}

/// Runs a program that forwards a port.
async fn forward(mut command: Command) -> Forward {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).await.unwrap();
    let port = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split_once(' '));
    let Some((port, _)) = port else { panic!("{line:?}: {:?}", child.wait_with_output().await) };
    Forward { port: port.parse().unwrap(), child, _output: output }
}

/// Installs the proxy once. Returns the certificate authority of its certificate.
async fn install_proxy(cluster: &'static Cluster) -> &'static String {
    install(cluster).await;
    AUTHORITY
        .get_or_init(async || {
            let authority = deploy_proxy(cluster).await.unwrap();
            cluster.apply_yaml(TENANT).await.unwrap();
            authority
        })
        .await
}

impl Owner {
    /// Connects through one Pod of the proxy.
    async fn new(cluster: &'static Cluster) -> Self {
        let authority = install_proxy(cluster).await;
        let backends =
            cluster.kubectl(&["get", "endpointslices", "-n", NAMESPACE, "-l", SERVICE, "-o", BACKENDS]);
        let backends = backends.await.unwrap();
        let backend: SocketAddr =
            backends.lines().next().expect("a Pod of the proxy is ready").parse().unwrap();
        let port = cluster.forward_port(backend).unwrap();
        let token = cluster.user_token("dan").unwrap();
        let server = format!("https://{}", port.address());
        let kubeconfig = cluster.kubeconfig_through("dan", &token, &server, authority).unwrap();
        Self { cluster, kubeconfig, _port: port }
    }

    /// Creates a namespace of the owner's Tenant, with a Pod `web` in it.
    async fn with_pod(&self, namespace: &str) {
        let create = async || {
            let created = self.kubectl(&format!("create namespace {namespace}")).await;
            Ok(created.map_err(|error| format!("{error:#}")))
        };
        eventually("the owner to create a namespace", PATIENCE, create).await.unwrap();
        let run = async || {
            let line = format!("run web -n {namespace} --image=nginx:1.27 --port=80");
            Ok(self.kubectl(&line).await.map_err(|error| format!("{error:#}")))
        };
        eventually("the rights of the owner", PATIENCE, run).await.unwrap();
        let wait = format!("wait -n {namespace} --for=condition=Ready pod/web --timeout=120s");
        self.kubectl(&wait).await.unwrap();
    }

    async fn kubectl(&self, line: &str) -> anyhow::Result<String> {
        self.cluster.kubectl_with(&self.kubeconfig, &line.split(' ').collect::<Vec<_>>()).await
    }

    fn command(&self, line: &str, environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.cluster.record().kubectl());
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(line.split(' '));
        command.envs(environment.iter().copied()).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs kubectl with an input. Returns its exit code and its output.
    async fn with_input(&self, line: &str, environment: &[(&str, &str)], input: &[u8]) -> (i32, Vec<u8>) {
        let mut child = self.command(line, environment).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writing = tokio::spawn(async move { stdin.write_all(&input).await });
        let output = child.wait_with_output().await.unwrap();
        writing.await.unwrap().unwrap();
        (output.status.code().unwrap(), output.stdout)
    }
}

#[tokio::test]
async fn owner_works_with_containers_through_the_proxy() {
    let shared = shared().await;
    let _pods = PODS.read().await;
    let owner = Owner::new(shared.cluster).await;
    owner.with_pod("sun-dev").await;
    let seen = owner.kubectl("get namespaces --output=name").await.unwrap();
    assert!(seen.lines().any(|name| name == "namespace/sun-dev"), "{seen}");

    let large: Vec<u8> =
        (0..100_000_000_u32).map(|index| index.to_le_bytes()[(index % 3) as usize]).collect();
    for environment in [&[][..], &SPDY] {
        let (code, output) = owner.with_input("exec -n sun-dev -i web -- cat", environment, &large).await;
        assert!(code == 0 && output == large, "{code}: {} bytes", output.len());
        let (code, _) = owner.with_input("exec -n sun-dev -i web -- sh", environment, b"exit 7\n").await;
        assert_eq!(code, 7);
        let mut forward = forward(owner.command("port-forward -n sun-dev pod/web :80", environment)).await;
        let mut stream = TcpStream::connect(("127.0.0.1", forward.port)).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        forward.child.kill().await.unwrap();
    }

    let dir = tempfile::tempdir().unwrap();
    let (there, back) = (dir.path().join("there"), dir.path().join("back"));
    std::fs::write(&there, &large).unwrap();
    owner.kubectl(&format!("cp -n sun-dev {} web:/tmp/file", there.display())).await.unwrap();
    owner.kubectl(&format!("cp -n sun-dev web:/tmp/file {}", back.display())).await.unwrap();
    assert!(std::fs::read(back).unwrap() == large, "the copy differs");
    assert!(owner.kubectl("logs -n sun-dev web").await.is_ok());

    let (code, _) = owner.with_input("exec -n oil-dev -i web -- cat", &[], b"").await;
    assert_ne!(code, 0, "nothing of another Tenant can be reached");
    owner.kubectl("delete namespace sun-dev").await.unwrap();
    let seen = owner.kubectl("get namespaces --output=name").await.unwrap();
    assert!(!seen.contains("sun-dev"), "{seen}");
}

/// Asks the proxy who the user is, each time by a new connection to its Service.
const LOAD: &str = "
get() { curl -sS -m 5 -o /dev/null -w '%{http_code}' --cacert /proxy/tls.crt -H \"Authorization: Bearer $0\" \
  --connect-to 127.0.0.1:443:ensemble-proxy.ensemble-system.svc:443 https://127.0.0.1/version; }
while :; do echo \"$(get)\"; sleep 0.02; done 2>&1";

#[tokio::test]
async fn rolling_update_of_the_proxy_fails_no_request_and_ends_no_shell() {
    let shared = shared().await;
    let _pods = PODS.write().await;
    let owner = Owner::new(shared.cluster).await;
    owner.with_pod("sun-shell").await;
    let mut shell = owner.command("exec -n sun-shell -i web -- cat", &[]).spawn().unwrap();
    let (mut stdin, mut stdout) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
    let mut echo = async || {
        stdin.write_all(b"still here\n").await.unwrap();
        let mut line = String::new();
        tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await.unwrap().unwrap();
        line
    };
    assert_eq!(echo().await, "still here\n");

    let admin = async |args: &[&str]| shared.cluster.kubectl(args).await.unwrap();
    admin(&[
        "create",
        "configmap",
        "proxy-authority",
        &format!("--from-literal=tls.crt={}", AUTHORITY.get().unwrap()),
    ])
    .await;
    let token = shared.cluster.user_token("dan").unwrap();
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "proxy-load", "namespace": "default"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "proxy", "configMap": {"name": "proxy-authority"}}],
            "containers": [{
                "name": "load", "image": "localhost/client:1", "command": ["sh", "-c", LOAD, token],
                "volumeMounts": [{"name": "proxy", "mountPath": "/proxy"}],
            }],
        },
    });
    shared.cluster.apply_yaml(&pod.to_string()).await.unwrap();
    let answers = async || {
        let log = shared.cluster.kubectl(&["logs", "proxy-load", "--tail=1"]).await;
        Ok(log
            .map_err(|error| format!("{error:#}"))
            .and_then(|log| if log == "200\n" { Ok(()) } else { Err(log) }))
    };
    eventually("the proxy to answer in the cluster", PATIENCE, answers).await.unwrap();

    admin(&["rollout", "restart", "deployment/ensemble-proxy", "-n", NAMESPACE]).await;
    admin(&["rollout", "status", "deployment/ensemble-proxy", "-n", NAMESPACE, "--timeout=120s"]).await;
    // The old Pods no longer get requests, and have not ended: the shell goes through one of them.
    assert_eq!(echo().await, "still here\n");
    let log = admin(&["logs", "proxy-load"]).await;
    let failed: Vec<_> = log.lines().filter(|line| *line != "200").collect();
    assert!(failed.is_empty(), "{} of {} requests failed: {failed:?}", failed.len(), log.lines().count());
    drop(stdin);
    assert!(shell.wait().await.unwrap().success());
    admin(&["delete", "pod", "proxy-load", "--now"]).await;
}

/// A chart of one Deployment.
const CHART: [(&str, &str); 2] = [
    ("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
    (
        "templates/deployment.yaml",
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: web, image: 'nginx:1.27'}]}
",
    ),
];

#[tokio::test]
async fn owner_installs_a_chart_through_the_proxy() {
    let shared = shared().await;
    let _pods = PODS.read().await;
    let owner = Owner::new(shared.cluster).await;
    owner.with_pod("sun-chart").await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("templates")).unwrap();
    for (name, text) in CHART {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let (program, chart) = (go_tools::HELM.locate().unwrap(), dir.path().to_str().unwrap());
    let helm = async |line: &str| {
        let mut command = Command::new(&program);
        command.args(line.split(' ')).args(["--namespace", "sun-chart"]).env("KUBECONFIG", &owner.kubeconfig);
        let output = command.env("HOME", dir.path()).kill_on_drop(true).output().await.unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // The namespace exists, which a chart may ask for all the same.
    helm(&format!("install shop {chart} --set replicas=1 --create-namespace --wait --timeout 120s")).await;
    helm(&format!("upgrade --install shop {chart} --set replicas=2 --wait --timeout 120s")).await;
    let ready = "get deployment shop -n sun-chart --output=jsonpath={.status.readyReplicas}";
    assert_eq!(owner.kubectl(ready).await.unwrap(), "2");
    assert!(helm("list").await.contains("shop") && helm("history shop").await.contains("superseded"));
    helm("rollback shop 1 --wait --timeout 120s").await;
    helm("uninstall shop --wait --timeout 120s").await;
    assert_eq!(owner.kubectl("get deployments -n sun-chart --output=name").await.unwrap(), "");
}
