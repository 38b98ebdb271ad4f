//! Other proxies beside ours, as far as they forward requests: HAProxy, and Capsule's.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use cluster::{Cluster, Companion, reserve_address, wait::eventually};

use super::client::Target;
use crate::TIMEOUT;

/// Port of capsule-proxy. Those of its probes and metrics are fixed.
const PEER_PORT: u16 = 9001;

/// ServiceAccount of capsule-proxy, and the configuration that it requires.
const ADMINISTRATOR: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: capsule-proxy}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: capsule-proxy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: default, name: capsule-proxy}]
---
apiVersion: capsule.clastix.io/v1beta2
kind: CapsuleConfiguration
metadata: {name: default}
spec: {userGroups: [projectcapsule.dev]}
";

/// Another proxy.
pub(super) struct OtherProxy {
    pub(super) name: &'static str,
    pub(super) process: Companion,
    pub(super) through: Target,
}

/// Files of a serving certificate, and its authority in PEM.
struct Serving {
    chain: PathBuf,
    key: PathBuf,
    /// Both in one file.
    both: PathBuf,
    authority: String,
}

/// Starts the proxies that there are: HAProxy if it is installed, and capsule-proxy if its program is given.
pub(super) async fn start(cluster: &Cluster, peer: Option<&Path>) -> Result<Vec<OtherProxy>> {
    let serving = Serving::new(cluster)?;
    let token = cluster.user_token("alice")?;
    let mut others = Vec::new();
    match ["/usr/sbin/haproxy", "/usr/bin/haproxy"].iter().map(Path::new).find(|path| path.exists()) {
        Some(program) => others.push(haproxy(cluster, program, &serving, &token)?),
        None => println!("HAProxy is not measured: it is not installed (package haproxy)"),
    }
    match peer {
        Some(program) => others.push(capsule_proxy(cluster, program, &serving, &token).await?),
        None => println!("capsule-proxy is not measured: --proxy-peer names no program"),
    }
    for other in &others {
        let answers = async || {
            let answer = async { other.through.connect().await?.get("/version").await };
            Ok(answer.await.map_err(|error| format!("{error:#}: {}", other.process.log_tail())))
        };
        eventually("another proxy to answer", TIMEOUT, answers).await?;
    }
    Ok(others)
}

impl Serving {
    fn new(cluster: &Cluster) -> Result<Self> {
        let generated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let (authority, key) = (generated.cert.pem(), generated.signing_key.serialize_pem());
        let write = |name: &str, text: &str| {
            let path = cluster.record().dir.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            anyhow::Ok(path)
        };
        Ok(Self {
            chain: write("other-proxy.crt", &authority)?,
            key: write("other-proxy.key", &key)?,
            both: write("other-proxy.pem", &format!("{authority}{key}"))?,
            authority,
        })
    }
}

fn haproxy(cluster: &Cluster, program: &Path, serving: &Serving, token: &str) -> Result<OtherProxy> {
    let (address, api_server) = (reserve_address()?, cluster.record().ports.api_server);
    let authority = cluster.record().dir.join("pki/ca.crt");
    let text = format!(
        "defaults\n  mode http\n  http-reuse always\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         frontend users\n  bind {address} ssl crt {} alpn h2,http/1.1\n  default_backend api\n\
         backend api\n  server api 127.0.0.1:{api_server} ssl verify required ca-file {} alpn h2\n",
        serving.both.display(),
        authority.display(),
    );
    let config = cluster.record().dir.join("haproxy.cfg");
    fs::write(&config, text).with_context(|| format!("write {}", config.display()))?;
    let process =
        cluster.companion("haproxy", program, &["-f".to_owned(), config.display().to_string()], &[])?;
    let through = Target::new(address, &serving.authority, token)?;
    Ok(OtherProxy { name: "HAProxy", process, through })
}

/// Starts capsule-proxy with the rights of an administrator, which it needs.
async fn capsule_proxy(
    cluster: &Cluster,
    program: &Path,
    serving: &Serving,
    token: &str,
) -> Result<OtherProxy> {
    let flags = [
        format!("--listening-port={PEER_PORT}"),
        format!("--ssl-cert-path={}", serving.chain.display()),
        format!("--ssl-key-path={}", serving.key.display()),
        "--client-connection-qps=5000".to_owned(),
        "--client-connection-burst=5000".to_owned(),
    ];
    cluster.apply_yaml(ADMINISTRATOR).await?;
    let kubeconfig = cluster.service_account_kubeconfig("default", "capsule-proxy").await?;
    let environment = [
        ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
        ("NAMESPACE".to_owned(), "default".to_owned()),
    ];
    let process = cluster.companion("capsule-proxy", program, &flags, &environment)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PEER_PORT));
    let through = Target::new(address, &serving.authority, token)?;
    Ok(OtherProxy { name: "capsule-proxy", process, through })
}
