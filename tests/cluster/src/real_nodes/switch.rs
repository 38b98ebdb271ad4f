//! The switch: a network namespace with a bridge that connects the nodes, and three servers.
//!
//! - A forwarder: Pods and nodes reach the API server at the switch.
//! - A proxy for HTTP CONNECT: the API server reaches kubelets, webhooks, and aggregated API
//!   servers.
//! - A registry: nodes pull images.
//!
//! So the network of the nodes is separate from that of the host. The host gets no interface, no
//! route, and no listening port beside those on 127.0.0.1.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::log::Log;
use super::namespaces::{Namespaces, enter_network, ip};
use super::{connect_proxy, forwarder};
use crate::addresses;
use crate::lifeline::Lifeline;
use crate::pki::write_private;
use crate::private_dir::private_dir;

const INIT: &str = include_str!("../../manifests/real-nodes/switch-init.sh");

/// The switch of a cluster.
#[derive(Debug)]
pub(super) struct Switch {
    namespaces: Namespaces,
    /// Dropping it stops the servers.
    stop: Option<watch::Sender<()>>,
    servers: Vec<JoinHandle<()>>,
}

impl Switch {
    /// Returns the socket of the proxy in the directory of the cluster.
    pub(super) fn proxy_socket(cluster_dir: &Path) -> PathBuf {
        cluster_dir.join("switch/proxy.sock")
    }

    /// Creates the switch and starts its servers.
    pub(super) fn start(
        cluster_dir: &Path,
        nodes: usize,
        api_server: u16,
        registry: axum::Router,
        lifeline: &Lifeline,
    ) -> Result<Self> {
        let dir = cluster_dir.join("switch");
        private_dir(&dir)?;
        write_private(&dir.join("init.sh"), INIT)?;
        write_private(&dir.join("network"), &network(nodes))?;
        let namespaces = Namespaces::create(
            "the switch",
            &[],
            &dir.join("init.sh"),
            &[&dir.display().to_string()],
            &dir.join("booted"),
            &dir.join("switch.log"),
            lifeline,
        )?;
        let proxy = UnixListener::bind(Self::proxy_socket(cluster_dir))
            .context("listen on the socket of the API server's proxy")?;
        let (stop, stopped) = watch::channel(());
        let init = namespaces.init();
        let (sender, listeners) = std::sync::mpsc::channel();
        let inner_stopped = stopped.clone();
        let log = Log::new(&dir.join("switch.log"));
        let inner_log = log.clone();
        let inside = spawn("switch", move || {
            let listeners = enter_network(init).and_then(|()| listen());
            match listeners {
                Ok((api, registry_listener)) => {
                    // The receiver waits for this message.
                    let _ = sender.send(Ok(api));
                    serve(inner_stopped, &inner_log, async |stopped| {
                        tokio::select! {
                            ended = connect_proxy::serve(proxy) => ended,
                            ended = serve_registry(registry_listener, registry) => ended,
                            () = stopped => Ok(()),
                        }
                    });
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        })?;
        let listener = listeners.recv().map_err(|_| anyhow!("the thread of the switch panicked"))??;
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, api_server));
        let outside = spawn("switch-api", move || {
            serve(stopped, &log, async |stopped| {
                tokio::select! {
                    ended = forwarder::serve(listener, move || TcpStream::connect(target)) => ended,
                    () = stopped => Ok(()),
                }
            });
        })?;
        Ok(Self { namespaces, stop: Some(stop), servers: vec![inside, outside] })
    }

    /// Connects a node.
    pub(super) fn connect(&self, interface: &str, node_init: u32) -> Result<()> {
        let (switch, node) = (self.namespaces.init().to_string(), node_init.to_string());
        ip(&[
            "link", "add", interface, "netns", &switch, "type", "veth", "peer", "name", "eth0", "netns",
            &node,
        ])?;
        self.namespaces.run(
            &["ip", "-batch", "-"],
            &format!("link set {interface} master br0\nlink set {interface} up\n"),
        )
    }

    /// Removes the link of a node that has ended, so that the node can boot at once. The kernel
    /// removes the link too, some time after the last process of the node.
    pub(super) fn disconnect(&self, interface: &str) -> Result<()> {
        let removed = self.namespaces.run(&["ip", "link", "delete", interface], "");
        removed.or_else(
            |error| if format!("{error:#}").contains("Cannot find device") { Ok(()) } else { Err(error) },
        )
    }

    /// Cuts or restores the link of a node. The node keeps its addresses and routes.
    pub(super) fn set_link(&self, interface: &str, up: bool) -> Result<()> {
        self.namespaces.run(&["ip", "link", "set", interface, if up { "up" } else { "down" }], "")
    }

    pub(super) fn ensure_running(&mut self) -> Result<()> {
        self.namespaces.ensure_running()
    }

    /// Stops the servers, and waits for a process that the lifeline has killed.
    pub(super) fn reap(&mut self) {
        drop(self.stop.take());
        for server in self.servers.drain(..) {
            // A panic has been printed by the thread.
            let _ = server.join();
        }
        self.namespaces.reap();
    }
}

fn listen() -> Result<(TcpListener, TcpListener)> {
    let listen = |port| {
        TcpListener::bind((addresses::SWITCH, port))
            .with_context(|| format!("listen on {}:{port} in the switch", addresses::SWITCH))
    };
    Ok((listen(addresses::API_SERVER_PORT)?, listen(addresses::REGISTRY_PORT)?))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .with_context(|| format!("start the thread {name}"))
}

/// Runs `servers` on this thread until the sender of `stopped` is dropped.
fn serve<F>(mut stopped: watch::Receiver<()>, log: &Log, servers: F)
where
    F: AsyncFnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> Result<()>,
{
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let stop = Box::pin(async move { while stopped.changed().await.is_ok() {} });
        runtime.context("start a runtime")?.block_on(servers(stop))
    };
    if let Err(error) = run() {
        log.report(&format!("a server of the switch has ended: {error:#}"));
    }
}

async fn serve_registry(listener: TcpListener, registry: axum::Router) -> Result<()> {
    listener.set_nonblocking(true).context("prepare the listener of the registry")?;
    let listener = tokio::net::TcpListener::from_std(listener).context("listen for the registry")?;
    axum::serve(listener, registry).await.context("serve the registry")
}

/// Returns the commands of `ip` that set up the switch.
fn network(nodes: usize) -> String {
    let mut commands = format!("addr add {}/24 dev br0\nlink set br0 up\n", addresses::SWITCH);
    for index in 0..nodes {
        let _ = writeln!(commands, "route add {} via {}", addresses::pods(index), addresses::node(index));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_routes_to_pods_of_each_node() {
        assert_eq!(
            network(2),
            "addr add 10.89.0.1/24 dev br0\nlink set br0 up\n\
             route add 10.244.0.0/24 via 10.89.0.11\nroute add 10.244.1.0/24 via 10.89.0.12\n"
        );
    }
}
