//! Processes of one control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::Options;
use crate::binaries::Binaries;
use crate::components::{Component, Layout, arguments};
use crate::kubeconfig::{self, Credential};
use crate::lifeline::Lifeline;
use crate::pki;
use crate::ports::{Ports, ReservedPorts};
use crate::private_dir::private_dir;
use crate::process::Process;
use crate::real_nodes::RealNodes;
use crate::state::Claim;
use crate::users;

const AUDIT_POLICY: &str = include_str!("../manifests/audit-policy.yaml");
const KWOK_STAGES: &str = include_str!("../manifests/kwok-stages.yaml");
/// Time that a component has to stop after SIGTERM. An API server drains for about one second.
const STOP_PATIENCE: Duration = Duration::from_secs(8);

/// Owns the processes, the ports, and the directory. Dropping it kills the processes and removes
/// the directory.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    // Fields are dropped in this order: the processes end before the ports and the name are
    // released.
    lifeline: Lifeline,
    processes: BTreeMap<Component, Process>,
    real_nodes: Option<RealNodes>,
    ports: ReservedPorts,
    layout: Layout,
    binaries: Binaries,
    options: Options,
    _claim: Claim,
}

impl ControlPlane {
    /// Writes the files that the processes read. Does not start a process.
    pub(crate) fn prepare(claim: Claim, binaries: Binaries, options: Options) -> Result<Self> {
        let layout = Layout::new(&claim.dir);
        let lifeline = Lifeline::new(&claim.dir, &claim.lock)?;
        let ports = ReservedPorts::any()?;
        if let Some(snapshot) = &options.snapshot {
            snapshot.restore(layout.dir())?;
        }
        private_dir(&layout.pki())?;
        let authority = pki::write(&layout.pki())?;
        users::write(&layout)?;
        pki::write_private(&layout.path("audit-policy.yaml"), AUDIT_POLICY)?;
        pki::write_private(&layout.path("kwok-stages.yaml"), KWOK_STAGES)?;
        let server = format!("https://127.0.0.1:{}", ports.numbers().api_server);
        // Client certificates do not expire while a cluster runs for days. ServiceAccount tokens
        // would.
        for (path, user, groups) in [
            (layout.kubeconfig(), "ensemble-admin", &["system:masters"][..]),
            (layout.kubeconfig_of(Component::KubeControllerManager), "system:kube-controller-manager", &[]),
            (layout.kubeconfig_of(Component::KubeScheduler), "system:kube-scheduler", &[]),
            (layout.kubeconfig_of(Component::Kwok), "system:kwok", &[]),
        ] {
            let certified = authority.client(user, groups)?;
            kubeconfig::write(
                &path,
                "ensemble",
                &server,
                &authority.certificate(),
                &Credential::Certificate(&certified),
            )?;
        }
        let real_nodes = (options.real_nodes > 0)
            .then(|| RealNodes::prepare(&layout, binaries.dir(), &authority, options.real_nodes))
            .transpose()?;
        Ok(Self {
            lifeline,
            processes: BTreeMap::new(),
            real_nodes,
            ports,
            layout,
            binaries,
            options,
            _claim: claim,
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports.numbers()
    }

    pub(crate) fn pids(&self) -> BTreeMap<Component, u32> {
        self.processes.iter().map(|(component, process)| (*component, process.pid())).collect()
    }

    pub(crate) fn start(&mut self, component: Component) -> Result<()> {
        if let Some(process) = self.processes.get_mut(&component)
            && process.ensure_running().is_ok()
        {
            bail!("cannot start {component}: it runs already");
        }
        self.forget_exited(component)?;
        let process = Process::start(
            component.name(),
            &self.binaries.path(component.name()),
            &arguments(component, &self.layout, self.ports(), &self.options, self.binaries.release()),
            // kwok reads its configuration from the home directory.
            &[("HOME".to_owned(), self.layout.path("home").display().to_string())],
            self.layout.log(component),
            &self.lifeline,
        )?;
        self.processes.insert(component, process);
        Ok(())
    }

    fn forget_exited(&mut self, component: Component) -> Result<()> {
        self.processes.remove(&component).map_or(Ok(()), |exited| self.lifeline.forget(exited.pid()))
    }

    /// Stops a process gracefully. Its port and data remain.
    pub(crate) fn stop(&mut self, component: Component) -> Result<()> {
        self.take(component)?.stop(STOP_PATIENCE, &self.lifeline)
    }

    /// Kills a process. Its port and data remain.
    pub(crate) fn kill(&mut self, component: Component) -> Result<()> {
        self.take(component)?.kill(&self.lifeline)
    }

    fn take(&mut self, component: Component) -> Result<Process> {
        self.processes.remove(&component).with_context(|| format!("cannot stop {component}: it does not run"))
    }

    /// Checks that all started processes run.
    ///
    /// # Errors
    /// Returns an error if a process has exited.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.processes.values_mut().try_for_each(Process::ensure_running)?;
        self.real_nodes.as_mut().map_or(Ok(()), RealNodes::ensure_running)
    }

    /// Starts the switch of the real nodes, and boots them.
    pub(crate) fn boot_nodes(&mut self, registry: axum::Router) -> Result<()> {
        let api_server = self.ports().api_server;
        let (nodes, lifeline) = self.real_nodes()?;
        nodes.boot(api_server, registry, lifeline)
    }

    /// Starts the kubelets of the real nodes.
    pub(crate) fn join_nodes(&mut self) -> Result<()> {
        let kubeconfig = self.layout.kubeconfig();
        let (nodes, lifeline) = self.real_nodes()?;
        nodes.join(kubeconfig, lifeline)
    }

    /// Returns the real nodes, and what starts and kills their processes.
    ///
    /// # Errors
    /// Returns an error if the cluster has no real nodes.
    pub(crate) fn real_nodes(&mut self) -> Result<(&mut RealNodes, &Lifeline)> {
        let nodes = self.real_nodes.as_mut().context("the cluster has no real nodes")?;
        Ok((nodes, &self.lifeline))
    }

    /// Restarts the processes that exited on their own, as a kubelet does.
    pub(crate) fn restart_exited(&mut self) -> Result<()> {
        let is_exited = |(component, process): (&Component, &mut Process)| {
            process.ensure_running().is_err().then_some(*component)
        };
        let exited: Vec<_> = self.processes.iter_mut().filter_map(is_exited).collect();
        exited.into_iter().try_for_each(|component| self.start(component))
    }

    /// Stops all processes in order and removes the directory.
    ///
    /// # Errors
    /// Returns an error if waiting for a process fails. The processes and the directory are removed
    /// even then.
    pub(crate) fn shut_down(mut self) -> Result<()> {
        let running: Vec<_> = Component::STOP_ORDER
            .into_iter()
            .filter(|component| self.processes.contains_key(component))
            .collect();
        running.into_iter().try_for_each(|component| self.stop(component))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.lifeline.cut();
        self.processes.values_mut().for_each(Process::reap);
        self.real_nodes.iter_mut().for_each(RealNodes::reap);
    }
}
