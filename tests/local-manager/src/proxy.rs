//! Starts the proxy of Tenants beside a test cluster, with its generated permissions, or in its Pods.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context, Result};
use cluster::{Cluster, Companion, program::workspace, reserve_address};
use manager::NAMESPACE;

/// ServiceAccount of a deployed proxy.
const ACCOUNT: &str = "ensemble-proxy";

/// A running proxy.
pub struct LocalProxy {
    /// The process.
    pub process: Companion,
    /// Address of the API that it serves.
    pub address: SocketAddr,
    /// Authority of its certificate, in PEM.
    pub authority: String,
}

/// Starts the proxy on a [prepared](crate::launch::prepare) cluster.
///
/// # Errors
/// Returns an error if the permissions cannot be applied, or if the program cannot be started.
pub async fn start_proxy(cluster: &Cluster, program: &Path) -> Result<LocalProxy> {
    let rbac = workspace().join("deploy/proxy/rbac.yaml").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", &rbac]).await?;
    let address = reserve_address()?;
    let files = [("tls.crt", "--tls-cert-file"), ("tls.key", "--tls-private-key-file")];
    let generated = rcgen::generate_simple_self_signed([address.ip().to_string()])
        .context("create a certificate for the proxy")?;
    let contents = [generated.cert.pem(), generated.signing_key.serialize_pem()];
    let mut flags = vec![
        format!("--bind-address={address}"),
        "--health-probe-bind-address=0".to_owned(),
        "--metrics-bind-address=0".to_owned(),
    ];
    for ((name, flag), contents) in files.into_iter().zip(&contents) {
        // Only the owner can read the directory of the cluster.
        let path = cluster.record().dir.join(format!("proxy-{name}"));
        std::fs::write(&path, contents).with_context(|| format!("write {}", path.display()))?;
        flags.push(format!("{flag}={}", path.display()));
    }
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT).await?;
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
    let process = cluster.companion("proxy", program, &flags, &environment)?;
    Ok(LocalProxy { process, address, authority: generated.cert.pem() })
}

/// Deploys the proxy with `deploy/proxy` beside a [deployed](crate::in_cluster::install) manager, and waits until its
/// Pods are ready. Returns the authority of its certificate, in PEM.
///
/// # Errors
/// Returns an error if the manifests cannot be applied, or if the Pods do not become ready.
pub async fn deploy_proxy(cluster: &Cluster) -> Result<String> {
    let generated = rcgen::generate_simple_self_signed([IpAddr::from(Ipv4Addr::LOCALHOST).to_string()])
        .context("create a certificate for the proxy")?;
    let authority = generated.cert.pem();
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"namespace": NAMESPACE, "name": "ensemble-proxy-tls"},
        "stringData": {"tls.crt": authority, "tls.key": generated.signing_key.serialize_pem()},
    });
    cluster.apply_yaml(&secret.to_string()).await?;
    let folder = workspace().join("deploy/proxy").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-k", &folder]).await?;
    let deployment = format!("deployment/{ACCOUNT}");
    cluster.kubectl(&["rollout", "status", &deployment, "-n", NAMESPACE, "--timeout=120s"]).await?;
    Ok(authority)
}

/// Forwards a port of this machine to the Service of a [deployed](deploy_proxy) proxy.
///
/// # Errors
/// Returns an error if kubectl cannot be started.
pub fn forward_to_proxy(cluster: &Cluster, authority: String) -> Result<LocalProxy> {
    let address = reserve_address()?;
    let service = format!("service/{ACCOUNT}");
    let ports = format!("{}:443", address.port());
    let args = ["port-forward", "--namespace", NAMESPACE, &service, &ports].map(str::to_owned);
    let environment = [("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string())];
    let process = cluster.companion("proxy-forward", &cluster.record().kubectl(), &args, &environment)?;
    Ok(LocalProxy { process, address, authority })
}
