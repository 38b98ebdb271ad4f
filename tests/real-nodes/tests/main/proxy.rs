//! The proxy of Tenants in Pods, from `deploy/proxy`, and what an owner does through it with containers.

use std::{path::PathBuf, process::Stdio};

use ::manager::NAMESPACE;
use cluster::{Cluster, program::workspace, wait::eventually};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
    sync::OnceCell,
};

use crate::{
    manager::install,
    support::{PATIENCE, shared},
};

/// Selects the older protocol of exec, attach, and port-forward.
const SPDY: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];
/// A Tenant of dan, who owns nothing else.
const TENANT: &str = "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {name: sun}
spec: {owners: [{kind: User, name: dan}]}
";

static AUTHORITY: OnceCell<String> = OnceCell::const_new();

/// A program that forwards a port. It ends if nobody reads its output.
struct Forward {
    child: Child,
    _output: BufReader<ChildStdout>,
    port: u16,
}

/// An owner who reaches the proxy through a forwarded port of its Service.
struct Owner {
    cluster: &'static Cluster,
    kubeconfig: PathBuf,
    _forward: Forward,
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
            let generated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let files = ["tls.crt", "tls.key"].map(|name| dir.path().join(name));
            std::fs::write(&files[0], generated.cert.pem()).unwrap();
            std::fs::write(&files[1], generated.signing_key.serialize_pem()).unwrap();
            let [certificate, key] = files.map(|file| file.to_str().unwrap().to_owned());
            let (certificate, key) = (format!("--cert={certificate}"), format!("--key={key}"));
            let secret =
                ["create", "secret", "tls", "ensemble-proxy-tls", "-n", NAMESPACE, &certificate, &key];
            cluster.kubectl(&secret).await.unwrap();
            let folder = workspace().join("deploy/proxy");
            cluster.kubectl(&["apply", "--server-side", "-k", folder.to_str().unwrap()]).await.unwrap();
            let status =
                ["rollout", "status", "deployment/ensemble-proxy", "-n", NAMESPACE, "--timeout=120s"];
            cluster.kubectl(&status).await.unwrap();
            cluster.apply_yaml(TENANT).await.unwrap();
            generated.cert.pem()
        })
        .await
}

impl Owner {
    async fn new(cluster: &'static Cluster) -> Self {
        let authority = install_proxy(cluster).await;
        let mut command = Command::new(cluster.record().kubectl());
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        command.args(["port-forward", "-n", NAMESPACE, "service/ensemble-proxy", ":443"]);
        let forward = forward(command).await;
        let token = cluster.user_token("dan").unwrap();
        let server = format!("https://127.0.0.1:{}", forward.port);
        let kubeconfig = cluster.kubeconfig_through("dan", &token, &server, authority).unwrap();
        Self { cluster, kubeconfig, _forward: forward }
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
    let owner = Owner::new(shared.cluster).await;
    let create = async || {
        let created = owner.kubectl("create namespace sun-dev").await;
        Ok(created.map_err(|error| format!("{error:#}")))
    };
    eventually("the owner to create a namespace", PATIENCE, create).await.unwrap();
    let seen = async || Ok(owner.kubectl("get namespaces --output=name").await? == "namespace/sun-dev\n");
    eventually("the namespace to be visible", PATIENCE, seen).await.unwrap();
    let run = async || {
        let line = "run web -n sun-dev --image=nginx:1.27 --port=80";
        Ok(owner.kubectl(line).await.map_err(|error| format!("{error:#}")))
    };
    eventually("the rights of the owner", PATIENCE, run).await.unwrap();
    owner.kubectl("wait -n sun-dev --for=condition=Ready pod/web --timeout=120s").await.unwrap();

    let large: Vec<u8> = (0..32_u32 << 20).map(|index| index.to_le_bytes()[(index % 3) as usize]).collect();
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
    assert_eq!(owner.kubectl("get namespaces --output=name").await.unwrap(), "");
}
