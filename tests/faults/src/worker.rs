//! A manager process and the proxy between it and the API server.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use cluster::Companion;
use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    injection::Sender,
    proxy::{Proxy, rules::Rules},
    test_cluster::TestCluster,
    token::Token,
    workload::{CONTROLLERS, EXCLUDED},
};

/// Short durations for leader election: a Lease of 3 s.
const QUICK: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

const SENDERS: [Sender; 2] = [Sender::Manager, Sender::Members];

/// A manager process with its own proxy. A crash of one worker does not affect others.
pub struct Worker {
    /// The cluster.
    pub test_cluster: Arc<TestCluster>,
    /// The proxy.
    pub proxy: Proxy,
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    manager: Mutex<Option<Companion>>,
}

impl Worker {
    /// Starts a manager that runs only one controller.
    pub async fn start(test_cluster: Arc<TestCluster>, controller: &str) -> Result<Self> {
        Self::with(test_cluster, controller, &[controller], &["--leader-elect=false"], Vec::new()).await
    }

    /// Starts one of several managers that share all controllers, with additional environment
    /// variables.
    pub async fn replica(
        test_cluster: Arc<TestCluster>,
        name: &str,
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let instance = format!("--instance={name}");
        let args = [["--leader-elect", instance.as_str()].as_slice(), &QUICK].concat();
        Self::with(test_cluster, name, &CONTROLLERS, &args, env).await
    }

    async fn with(
        test_cluster: Arc<TestCluster>,
        name: &str,
        controllers: &[&str],
        args: &[&str],
        mut env: Vec<(String, String)>,
    ) -> Result<Self> {
        let account =
            test_cluster.cluster.service_account_kubeconfig(manager::NAMESPACE, manager::ACCOUNT).await?;
        let proxy = Proxy::start(test_cluster.cluster.kubeconfig()).await?;
        let dir = &test_cluster.cluster.record().dir;
        let (kubeconfig, name) = (dir.join(format!("{name}.proxied")), format!("faults-{name}"));
        let log = dir.join(format!("companions/{name}.log"));
        proxy.lead(&account, &kubeconfig)?;
        let excluded = EXCLUDED.map(|controller| format!(",-{controller}")).concat();
        let controllers = format!("--controllers={}{excluded}", controllers.join(","));
        let fixed = [
            controllers.as_str(),
            "--log-format=json",
            "--health-probe-bind-address=0",
            "--webhook-bind-address=0",
            "--metrics-bind-address=0",
        ];
        let args = fixed.iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        env.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
        let worker = Self { test_cluster, proxy, name, args, env, log, manager: Mutex::default() };
        worker.restart()?;
        Ok(worker)
    }

    /// Starts the manager and appends its output to its log.
    pub fn restart(&self) -> Result<()> {
        self.proxy.begin_life();
        let Self { test_cluster, name, args, env, .. } = self;
        *self.manager.lock() =
            Some(test_cluster.cluster.companion(name, &test_cluster.program, args, env)?);
        Ok(())
    }

    /// Kills the manager.
    pub fn kill(&self) -> Result<()> {
        self.manager.lock().take().map_or(Ok(()), Companion::kill)
    }

    /// Sends a signal to the manager.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.manager.lock().as_ref().map(Companion::pid);
        let pid =
            pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).context("the manager is not running")?;
        kill_process(pid, signal).context("send the manager a signal")
    }

    /// Returns the faults and the recorded requests of a sender.
    pub fn rules_of(&self, sender: Sender) -> MutexGuard<'_, Rules> {
        match sender {
            Sender::Manager => self.proxy.rules(),
            Sender::Members => self.test_cluster.members.rules(),
        }
    }

    /// Removes all faults of a run. Returns whether a one-time fault was still pending.
    pub fn clear_faults(&self, token: Token) -> bool {
        let pending = SENDERS.map(|sender| self.rules_of(sender).clear_faults(token));
        pending.contains(&true)
    }

    /// Drops the recorded requests of a run.
    pub fn forget(&self, token: Token) {
        for sender in SENDERS {
            self.rules_of(sender).forget(token);
        }
    }

    /// Reads the pending crash.
    pub fn crash(&self) -> Option<Token> {
        self.proxy.crash()
    }

    /// Returns the current length of the log.
    pub fn log_position(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// Returns the log from this position.
    pub fn log_since(&self, since: u64) -> Result<String> {
        let text = std::fs::read(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        Ok(String::from_utf8_lossy(text.get(since..).unwrap_or_default()).into_owned())
    }

    /// # Errors
    /// Returns an error if the manager has exited.
    pub fn ensure_running(&self) -> Result<()> {
        self.manager.lock().as_mut().map_or(Ok(()), Companion::ensure_running)
    }
}
