//! A running cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use images::Image;
use kube::{Client, Config};

use crate::binaries::{Binaries, Locator};
use crate::components::{Component, Layout};
use crate::control_plane::ControlPlane;
use crate::load::IMAGES;
use crate::options::Options;
use crate::progress::Progress;
use crate::real_nodes::{ForwardedPort, NodeNetwork, NodeProgram, image_store};
use crate::record::Record;
use crate::state::StateRoot;
use crate::versions::Versions;
use crate::{kubeconfig, nodes, readiness, real_nodes};

/// A usable cluster: its nodes are Ready, and namespaces get their ServiceAccounts.
///
/// A cluster that this process started stops when it is dropped or when the process ends.
/// [`Cluster::stop`] stops it gracefully. An attached cluster belongs to another process and keeps
/// running.
#[derive(Debug)]
pub struct Cluster {
    record: Record,
    control_plane: Option<Mutex<ControlPlane>>,
}

impl Cluster {
    /// Starts a cluster and returns when it is usable. If the programs and images are built, this
    /// takes about five seconds, or twelve with real nodes.
    ///
    /// # Errors
    /// Returns an error if the programs cannot be located or built, if a cluster of this name runs
    /// already, or if a component does not start. The error contains the end of the component's
    /// log. All processes and files are removed.
    pub async fn start(options: Options) -> Result<Self> {
        if options.real_nodes > 0 {
            real_nodes::check()?;
        }
        let (binaries, images) = locate(&options).await?;
        let start = Instant::now();
        let (name, mut control_plane) = prepare(options.clone(), binaries.clone())?;
        options.progress.report(describe(&name, &binaries)?);
        start_components(&mut control_plane, &options, &images, start).await?;
        let record = record(name, &control_plane, &binaries, &options)?;
        let mut cluster = Self { record, control_plane: Some(Mutex::new(control_plane)) };
        if options.real_nodes > 0 {
            real_nodes::apply_add_ons(&cluster).await?;
            options.progress.report(format!("nodes ready after {:.1} s", start.elapsed().as_secs_f64()));
            Box::pin(real_nodes::wait_for_add_ons(&cluster)).await?;
        }
        let elapsed = start.elapsed();
        cluster.record.start_milliseconds = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        cluster.record.write()?;
        options.progress.report(format!(
            "usable after {:.1} s; KUBECONFIG={}",
            elapsed.as_secs_f64(),
            cluster.record.kubeconfig.display()
        ));
        Ok(cluster)
    }

    pub(crate) fn attached(record: Record) -> Self {
        Self { record, control_plane: None }
    }

    /// Returns the record of the cluster.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns whether the cluster stops with this process.
    pub fn is_owned(&self) -> bool {
        self.control_plane.is_some()
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.record.kubeconfig
    }

    /// Returns a client configuration for the administrator.
    pub async fn config(&self) -> Result<Config> {
        kubeconfig::load(&self.record.kubeconfig).await
    }

    /// Returns a client for the administrator. A client works only on the runtime that created it.
    pub async fn client(&self) -> Result<Client> {
        Client::try_from(self.config().await?).context("create a client for the administrator")
    }

    /// Stops all components in order and removes the directory. Does nothing if the cluster belongs
    /// to another process.
    pub fn stop(self) -> Result<()> {
        match self.control_plane {
            Some(control_plane) => {
                control_plane.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down()
            }
            None => Ok(()),
        }
    }

    /// Returns the messages of the API server about webhooks that it could not call, oldest first. It
    /// tells its clients nothing if the failure policy of the webhook is `Ignore`.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn failed_webhook_calls(&self) -> Result<Vec<String>> {
        let path = Layout::new(&self.record.dir).log(Component::KubeApiserver);
        let log = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let log = String::from_utf8_lossy(&log);
        Ok(log.lines().filter(|line| line.contains("Failed calling webhook")).map(str::to_owned).collect())
    }

    /// Stops a component. Its port and data remain.
    ///
    /// # Errors
    /// Returns an error if the component does not run, or the cluster belongs to another process.
    pub fn stop_component(&self, component: Component) -> Result<()> {
        self.owned()?.stop(component)
    }

    /// Kills a component with SIGKILL. Its port and data remain. Errors as in
    /// [`Cluster::stop_component`].
    pub fn kill_component(&self, component: Component) -> Result<()> {
        self.owned()?.kill(component)
    }

    /// Starts a stopped component on the same port and data. Does not wait until it is ready, see
    /// [`Cluster::ready`].
    ///
    /// # Errors
    /// Returns an error if the component runs, or the cluster belongs to another process.
    pub fn start_component(&self, component: Component) -> Result<()> {
        self.owned()?.start(component)
    }

    /// Restarts the components that exited on their own, as a kubelet does. Does not start
    /// components that were stopped or killed through this type.
    ///
    /// # Errors
    /// Returns an error if a component cannot be started, or the cluster belongs to another
    /// process.
    pub fn restart_exited_components(&self) -> Result<()> {
        self.owned()?.restart_exited()
    }

    /// Waits until the API server is ready.
    ///
    /// # Errors
    /// Returns an error if the API server is not ready after `patience`.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let client = self.client().await?;
        crate::wait::eventually("kube-apiserver to be ready", patience, async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        })
        .await
    }

    /// Checks that all components of this process's cluster run.
    ///
    /// # Errors
    /// Returns an error with the end of the log if a component has exited.
    pub fn ensure_running(&self) -> Result<()> {
        self.control_plane.as_ref().map_or(Ok(()), |_| self.owned()?.ensure_running())
    }

    /// Cuts the link between a real node and all others, the API server included. Its Pods go on
    /// running.
    ///
    /// # Errors
    /// Returns an error if there is no such node, or the cluster belongs to another process.
    pub fn cut_node(&self, node: &str) -> Result<()> {
        self.owned()?.real_nodes()?.0.set_link(node, false)
    }

    /// Restores the link of a node. Errors as in [`Cluster::cut_node`].
    pub fn heal_node(&self, node: &str) -> Result<()> {
        self.owned()?.real_nodes()?.0.set_link(node, true)
    }

    /// Returns the network of a real node. Errors as in [`Cluster::cut_node`], also if the node is off.
    pub fn node_network(&self, node: &str) -> Result<NodeNetwork> {
        self.owned()?.real_nodes()?.0.network(node)
    }

    /// Opens a port of this machine that leads to a Pod of a real node. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if no port can be opened. A connection ends if the server cannot be reached.
    pub fn forward_port(&self, server: SocketAddr) -> Result<ForwardedPort> {
        ForwardedPort::listen(&self.record.dir, server)
    }

    /// Kills a program of a real node with SIGKILL. Its Pods go on running.
    ///
    /// # Errors
    /// Returns an error if the program does not run, there is no such node, or the cluster belongs
    /// to another process.
    pub fn kill_on_node(&self, node: &str, program: NodeProgram) -> Result<()> {
        let mut control_plane = self.owned()?;
        let (nodes, lifeline) = control_plane.real_nodes()?;
        nodes.kill(node, program, lifeline)
    }

    /// Starts a killed program of a real node. Errors as in [`Cluster::kill_on_node`].
    pub fn start_on_node(&self, node: &str, program: NodeProgram) -> Result<()> {
        let mut control_plane = self.owned()?;
        let (nodes, lifeline) = control_plane.real_nodes()?;
        nodes.start(node, program, lifeline)
    }

    /// Ends all processes of a real node at once, as a power loss does. Its disk remains.
    ///
    /// # Errors
    /// Returns an error if the node is off, there is no such node, or the cluster belongs to another
    /// process.
    pub fn power_off_node(&self, node: &str) -> Result<()> {
        let mut control_plane = self.owned()?;
        let (nodes, lifeline) = control_plane.real_nodes()?;
        nodes.power_off(node, lifeline)
    }

    /// Boots a real node after [`Cluster::power_off_node`].
    ///
    /// # Errors
    /// Returns an error if the node is on, there is no such node, or the cluster belongs to another
    /// process.
    pub fn power_on_node(&self, node: &str) -> Result<()> {
        let mut control_plane = self.owned()?;
        let (nodes, lifeline) = control_plane.real_nodes()?;
        nodes.power_on(node, lifeline)
    }

    fn owned(&self) -> Result<MutexGuard<'_, ControlPlane>> {
        let control_plane = self.control_plane.as_ref().with_context(|| {
            format!(
                "cannot change the components of the cluster {}: it belongs to process {}",
                self.record.name, self.record.owner
            )
        })?;
        Ok(control_plane.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Builds the programs and images of a cluster with real nodes, unless they are cached. This can take
/// minutes.
///
/// # Errors
/// Returns an error if a program or an image cannot be built.
pub fn prepare_real_nodes(locator: &Locator, progress: &Progress) -> Result<()> {
    locate_blocking(locator, true, progress).map(drop)
}

type Programs = (Binaries, Vec<(Image, PathBuf)>);

/// Runs on a separate thread that does not delay the exit of the process: a build can take minutes.
async fn locate(options: &Options) -> Result<Programs> {
    let locator = options.locator.clone().map_or_else(Locator::from_env, Ok)?;
    let progress = options.progress.clone();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let real_nodes = options.real_nodes > 0;
    std::thread::spawn(move || drop(sender.send(locate_blocking(&locator, real_nodes, &progress))));
    receiver.await.context("the thread that locates the control plane's programs panicked")?
}

/// Returns the programs, and the images of real nodes. Builds what is not cached.
fn locate_blocking(locator: &Locator, real_nodes: bool, progress: &Progress) -> Result<Programs> {
    let binaries = locator.locate(progress)?;
    if !real_nodes {
        return Ok((binaries, Vec::new()));
    }
    binaries.check_nodes()?;
    Ok((binaries, image_store::build(progress)?))
}

fn prepare(options: Options, binaries: Binaries) -> Result<(String, ControlPlane)> {
    let root = options.state_root.clone().map_or_else(StateRoot::from_env, Ok)?;
    root.sweep()?;
    let name = options.name.clone().unwrap_or_else(|| format!("run-{}", crate::namespace::random_suffix()));
    ensure!(
        is_dns_label(&name),
        "{name:?} cannot name a cluster: use at most 40 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    );
    ensure!(
        options.real_nodes <= real_nodes::MAX_REAL_NODES,
        "cannot start {} real nodes: at most {} fit into one cluster",
        options.real_nodes,
        real_nodes::MAX_REAL_NODES
    );
    if options.real_nodes > 0 {
        // Comes after the sweep, which frees the instances of clusters that have crashed.
        real_nodes::check_inotify(options.real_nodes)?;
    }
    let claim = root.claim(&name)?;
    Ok((name, ControlPlane::prepare(claim, binaries, options)?))
}

/// Starts each component as soon as its dependencies are ready.
async fn start_components(
    control_plane: &mut ControlPlane,
    options: &Options,
    images: &[(Image, PathBuf)],
    start: Instant,
) -> Result<()> {
    if options.real_nodes > 0 {
        let store = image_store::store(control_plane.layout().path(IMAGES), images)?;
        control_plane.boot_nodes(images::registry(store))?;
    }
    control_plane.start(Component::Etcd)?;
    readiness::etcd(control_plane).await?;
    control_plane.start(Component::KubeApiserver)?;
    let mut config = kubeconfig::load(&control_plane.layout().kubeconfig()).await?;
    // `poll` retries.
    config.default_retry = false;
    let client = Client::try_from(config).context("create a client for the administrator")?;
    readiness::api_server(control_plane, &client).await?;
    options.progress.report(format!("API server ready after {:.1} s", start.elapsed().as_secs_f64()));
    if !options.controllers {
        return Ok(());
    }
    control_plane.start(Component::KubeControllerManager)?;
    if options.scheduler {
        control_plane.start(Component::KubeScheduler)?;
    }
    nodes::allow_kwok(&client).await?;
    control_plane.start(Component::Kwok)?;
    nodes::create(&client, options.nodes, options.real_nodes > 0).await?;
    if options.real_nodes > 0 {
        control_plane.join_nodes()?;
    }
    readiness::default_service_account(control_plane, &client).await?;
    readiness::nodes(control_plane, &client, options.nodes + options.real_nodes).await
}

fn record(
    name: String,
    control_plane: &ControlPlane,
    binaries: &Binaries,
    options: &Options,
) -> Result<Record> {
    let layout = control_plane.layout();
    Ok(Record {
        name,
        dir: layout.dir().to_owned(),
        owner: std::process::id(),
        pids: control_plane.pids(),
        ports: control_plane.ports(),
        versions: Versions::of(binaries.release())?,
        nodes: options.nodes,
        real_nodes: options.real_nodes,
        kubeconfig: layout.kubeconfig(),
        binaries: binaries.dir().to_owned(),
        audit_log: layout.audit_log(),
        start_milliseconds: 0,
    })
}

fn describe(name: &str, binaries: &Binaries) -> Result<String> {
    let Versions { kubernetes, etcd, kwok } = Versions::of(binaries.release())?;
    let emulated =
        binaries.release().emulation_argument().map_or_else(String::new, |argument| format!(" {argument}"));
    Ok(format!("starting {name}: Kubernetes {kubernetes}{emulated}, etcd {etcd}, kwok {kwok}"))
}

pub(crate) fn is_dns_label(name: &str) -> bool {
    let inner = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    inner && !name.is_empty() && name.len() <= 40 && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_dns_labels_as_names() {
        for good in ["ensemble", "a", "test-2"] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a/b", "..", "a_b", "a b", &"a".repeat(41)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
