//! The processes of one control plane, and the order in which they end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::Options;
use crate::binaries::Binaries;
use crate::components::{Component, Layout, arguments};
use crate::kubeconfig::{self, Credential};
use crate::lifeline::Lifeline;
use crate::pki;
use crate::ports::{HeldPorts, Ports};
use crate::process::Process;
use crate::state::{Claim, private_dir};

const AUDIT_POLICY: &str = include_str!("../manifests/audit-policy.yaml");
const KWOK_STAGES: &str = include_str!("../manifests/kwok-stages.yaml");
/// An API server drains for about a second; one that takes longer hangs.
const STOP_PATIENCE: Duration = Duration::from_secs(8);

/// Owns the processes, the ports and the directory. Dropping it kills the first and removes the last.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    // The order of the fields is the order of their end: processes are killed, then the ports and the name are given back.
    lifeline: Lifeline,
    processes: BTreeMap<Component, Process>,
    ports: HeldPorts,
    layout: Layout,
    binaries: Binaries,
    options: Options,
    _claim: Claim,
}

impl ControlPlane {
    /// Writes everything that the processes read. None is started yet.
    pub(crate) fn prepare(claim: Claim, binaries: Binaries, options: Options) -> Result<Self> {
        let layout = Layout::new(&claim.dir);
        let lifeline = Lifeline::new(&claim.dir, &claim.lock)?;
        let ports = HeldPorts::any()?;
        private_dir(&layout.pki())?;
        let authority = pki::write(&layout.pki())?;
        pki::write_private(&layout.path("audit-policy.yaml"), AUDIT_POLICY)?;
        pki::write_private(&layout.path("kwok-stages.yaml"), KWOK_STAGES)?;
        let server = format!("https://127.0.0.1:{}", ports.numbers().api_server);
        // A certificate does not run out under a cluster that is left running for days, as a ServiceAccount's token would.
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
        Ok(Self { lifeline, processes: BTreeMap::new(), ports, layout, binaries, options, _claim: claim })
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
            bail!("{component} runs already");
        }
        self.forget_ended(component)?;
        let process = Process::start(
            component.name(),
            &self.binaries.path(component.name()),
            &arguments(component, &self.layout, self.ports(), &self.options),
            // kwok reads its settings from the home directory of whoever starts it.
            &[("HOME".to_owned(), self.layout.path("home").display().to_string())],
            self.layout.log(component),
            &self.lifeline,
        )?;
        self.processes.insert(component, process);
        Ok(())
    }

    fn forget_ended(&mut self, component: Component) -> Result<()> {
        self.processes.remove(&component).map_or(Ok(()), |ended| self.lifeline.forget(ended.pid()))
    }

    /// Ends one process and keeps its port and its data for the next start.
    pub(crate) fn stop(&mut self, component: Component) -> Result<()> {
        self.take(component)?.stop(STOP_PATIENCE, &self.lifeline)
    }

    /// The same without warning.
    pub(crate) fn kill(&mut self, component: Component) -> Result<()> {
        self.take(component)?.kill(&self.lifeline)
    }

    fn take(&mut self, component: Component) -> Result<Process> {
        self.processes.remove(&component).with_context(|| format!("{component} does not run"))
    }

    /// # Errors
    /// When a process has ended by itself.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.processes.values_mut().try_for_each(Process::ensure_running)
    }

    /// Starts again what has ended by itself, as a kubelet does.
    pub(crate) fn revive(&mut self) -> Result<()> {
        let ended = |(component, process): (&Component, &mut Process)| {
            process.ensure_running().is_err().then_some(*component)
        };
        let ended: Vec<_> = self.processes.iter_mut().filter_map(ended).collect();
        ended.into_iter().try_for_each(|component| self.start(component))
    }

    /// Stops everything in order and removes the directory. Returns when it is done.
    ///
    /// # Errors
    /// When a process could not be waited for; everything is gone all the same.
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
    }
}
