//! A running cluster, seen by those who use it.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::{Client, Config};

use crate::binaries::{Binaries, Locator};
use crate::components::Component;
use crate::control_plane::ControlPlane;
use crate::options::Options;
use crate::record::Record;
use crate::state::StateRoot;
use crate::versions::Versions;
use crate::{kubeconfig, nodes, readiness};

/// A usable cluster: nodes are Ready, namespaces get their ServiceAccounts.
///
/// One that this process has started ends when it is dropped or the process ends in any way; [`Cluster::stop`] does it in order. One that was
/// attached to belongs to somebody else and stays.
#[derive(Debug)]
pub struct Cluster {
    record: Record,
    control_plane: Option<Mutex<ControlPlane>>,
}

impl Cluster {
    /// Starts a cluster and returns when it is usable, about five seconds later if the programs are there already.
    ///
    /// # Errors
    /// When the programs cannot be had, when a cluster of this name runs already, or when a part fails to start; the error then carries the
    /// end of its log. Nothing is left behind.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = locate(&options).await?;
        let start = Instant::now();
        let (name, mut control_plane) = prepare(options.clone(), binaries.clone())?;
        options.progress.say(describe(&name)?);
        bring_up(&mut control_plane, &options, start).await?;
        let record = record(name, &control_plane, &binaries, options.nodes, start.elapsed())?;
        record.write()?;
        options.progress.say(format!(
            "usable after {:.1} s; KUBECONFIG={}",
            start.elapsed().as_secs_f64(),
            record.kubeconfig.display()
        ));
        Ok(Self { record, control_plane: Some(Mutex::new(control_plane)) })
    }

    pub(crate) fn attached(record: Record) -> Self {
        Self { record, control_plane: None }
    }

    /// What the cluster tells about itself.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether it ends with this process.
    pub fn is_owned(&self) -> bool {
        self.control_plane.is_some()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.record.kubeconfig
    }

    /// A client configuration for the administrator.
    pub async fn config(&self) -> Result<Config> {
        kubeconfig::load(&self.record.kubeconfig).await
    }

    /// A client of the administrator. Like every client it belongs to the runtime that it was made on.
    pub async fn client(&self) -> Result<Client> {
        Client::try_from(self.config().await?).context("make a client of the administrator")
    }

    /// Stops everything in order and removes the directory. A cluster that belongs to somebody else is left alone.
    pub fn stop(self) -> Result<()> {
        match self.control_plane {
            Some(control_plane) => {
                control_plane.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down()
            }
            None => Ok(()),
        }
    }

    /// Stops one part and keeps its port and data.
    ///
    /// # Errors
    /// When the part does not run, or the cluster belongs to another process.
    pub fn stop_component(&self, component: Component) -> Result<()> {
        self.owned()?.stop(component)
    }

    /// Ends one part as a crash would, and keeps its port and data. Errors as in [`Cluster::stop_component`].
    pub fn kill_component(&self, component: Component) -> Result<()> {
        self.owned()?.kill(component)
    }

    /// Starts a part that was stopped, on the same port and data. Does not wait until it is usable, see [`Cluster::ready`].
    ///
    /// # Errors
    /// When the part runs, or the cluster belongs to another process.
    pub fn start_component(&self, component: Component) -> Result<()> {
        self.owned()?.start(component)
    }

    /// Starts the parts again that have ended by themselves, as a kubelet does. Not those that were stopped or killed here.
    ///
    /// # Errors
    /// When a part cannot be started, or the cluster belongs to another process.
    pub fn revive_components(&self) -> Result<()> {
        self.owned()?.revive()
    }

    /// # Errors
    /// When the API server does not say within `patience` that it is ready.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let client = self.client().await?;
        crate::wait::eventually("kube-apiserver to be ready", patience, async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        })
        .await
    }

    /// # Errors
    /// When a part of a cluster of this process has ended by itself; carries the end of its log.
    pub fn ensure_running(&self) -> Result<()> {
        self.control_plane.as_ref().map_or(Ok(()), |_| self.owned()?.ensure_running())
    }

    fn owned(&self) -> Result<MutexGuard<'_, ControlPlane>> {
        let control_plane = self.control_plane.as_ref().with_context(|| {
            format!(
                "the cluster {} belongs to process {}, only that can do this",
                self.record.name, self.record.owner
            )
        })?;
        Ok(control_plane.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Blocking work of possibly minutes, on a thread that nobody waits for at exit: an interrupted build must not delay the end.
async fn locate(options: &Options) -> Result<Binaries> {
    let locator = options.locator.clone().map_or_else(Locator::from_env, Ok)?;
    let progress = options.progress.clone();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(sender.send(locator.locate(&progress))));
    receiver.await.context("the thread that looks for the control plane's programs has panicked")?
}

fn prepare(options: Options, binaries: Binaries) -> Result<(String, ControlPlane)> {
    let root = options.state_root.clone().map_or_else(StateRoot::from_env, Ok)?;
    root.sweep()?;
    let name = options.name.clone().unwrap_or_else(|| format!("run-{}", crate::namespace::random_suffix()));
    ensure!(
        is_dns_label(&name),
        "{name:?} cannot name a cluster: use at most 40 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    );
    let claim = root.claim(&name)?;
    Ok((name, ControlPlane::prepare(claim, binaries, options)?))
}

/// Starts the parts as early as each can do something useful.
async fn bring_up(control_plane: &mut ControlPlane, options: &Options, start: Instant) -> Result<()> {
    control_plane.start(Component::Etcd)?;
    readiness::etcd(control_plane).await?;
    control_plane.start(Component::KubeApiserver)?;
    let mut config = kubeconfig::load(&control_plane.layout().kubeconfig()).await?;
    // The polls are the retries.
    config.default_retry = false;
    let client = Client::try_from(config).context("make a client of the administrator")?;
    readiness::api_server(control_plane, &client).await?;
    options.progress.say(format!("API server ready after {:.1} s", start.elapsed().as_secs_f64()));
    control_plane.start(Component::KubeControllerManager)?;
    if options.scheduler {
        control_plane.start(Component::KubeScheduler)?;
    }
    nodes::allow_kwok(&client).await?;
    control_plane.start(Component::Kwok)?;
    nodes::create(&client, options.nodes).await?;
    readiness::default_service_account(control_plane, &client).await?;
    readiness::nodes(control_plane, &client, options.nodes).await
}

fn record(
    name: String,
    control_plane: &ControlPlane,
    binaries: &Binaries,
    nodes: usize,
    took: Duration,
) -> Result<Record> {
    let layout = control_plane.layout();
    Ok(Record {
        name,
        dir: layout.dir().to_owned(),
        owner: std::process::id(),
        pids: control_plane.pids(),
        ports: control_plane.ports(),
        versions: Versions::pinned()?,
        nodes,
        kubeconfig: layout.kubeconfig(),
        binaries: binaries.dir().to_owned(),
        audit_log: layout.audit_log(),
        start_milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn describe(name: &str) -> Result<String> {
    let Versions { kubernetes, etcd, kwok } = Versions::pinned()?;
    Ok(format!("starting {name}: Kubernetes {kubernetes}, etcd {etcd}, kwok {kwok}"))
}

pub(crate) fn is_dns_label(name: &str) -> bool {
    let inner = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    inner && !name.is_empty() && name.len() <= 40 && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        for good in ["ensemble", "a", "test-2"] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a/b", "..", "a_b", "a b", &"a".repeat(41)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
