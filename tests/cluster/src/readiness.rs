//! Waits until the components of a new control plane are ready.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::control_plane::ControlPlane;
use crate::nodes::TAINT;

const POLL: Duration = Duration::from_millis(20);
/// Far longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until etcd reports that it is healthy.
pub(crate) async fn etcd(control_plane: &mut ControlPlane) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, control_plane.ports().etcd));
    poll(control_plane, "etcd to be healthy", async || etcd_is_healthy(address)).await
}

/// Waits until the API server's `/readyz` returns `ok`: its start-up hooks are complete.
pub(crate) async fn api_server(control_plane: &mut ControlPlane, client: &Client) -> Result<()> {
    poll(control_plane, "kube-apiserver to be ready", async || {
        let request = http::Request::get("/readyz").body(Vec::new());
        let Ok(request) = request else { return false };
        client.request_text(request).await.is_ok_and(|answer| answer == "ok")
    })
    .await
}

/// Waits for the default ServiceAccount. When it exists, kube-controller-manager runs and Pods can
/// be created.
pub(crate) async fn default_service_account(control_plane: &mut ControlPlane, client: &Client) -> Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    poll(control_plane, "the ServiceAccount default", async || {
        matches!(accounts.get_opt("default").await, Ok(Some(_)))
    })
    .await
}

/// Waits until every node is Ready and its not-ready taint is removed.
pub(crate) async fn nodes(control_plane: &mut ControlPlane, client: &Client, wanted: usize) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    poll(control_plane, "the nodes to be Ready", async || {
        nodes
            .list(&ListParams::default())
            .await
            .is_ok_and(|list| list.items.iter().filter(|node| is_usable(node)).count() >= wanted)
    })
    .await
}

async fn poll(
    control_plane: &mut ControlPlane,
    what: &str,
    mut done: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let start = Instant::now();
    while !done().await {
        control_plane.ensure_running().with_context(|| format!("waiting for {what}"))?;
        if start.elapsed() > PATIENCE {
            bail!(
                "timed out after {} s waiting for {what}; read the logs in {}",
                PATIENCE.as_secs(),
                control_plane.layout().dir().display()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

fn is_usable(node: &Node) -> bool {
    let ready = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tainted = taints.any(|taint| taint.key != TAINT);
    ready.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") && !tainted
}

/// Returns whether etcd's health check succeeds. Plain HTTP on localhost needs no client library.
fn etcd_is_healthy(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains(r#""health":"true""#))
}
