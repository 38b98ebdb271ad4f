//! A manager, and the proxy that it sees the API server through.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use cluster::Companion;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    proxy::Proxy,
    stage::{ACCOUNT, NAMESPACE_OF_MANAGER, Stage},
    token::Token,
    workload::CONTROLLERS,
};

/// Times of leader election that need not be waited for long: a lease of 3 s.
const QUICK: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// A manager. What dies in one lane is not noticed in another.
pub struct Lane {
    /// The cluster.
    pub stage: Arc<Stage>,
    /// What stands between.
    pub proxy: Proxy,
    name: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    log: PathBuf,
    manager: Mutex<Option<Companion>>,
}

impl Lane {
    /// Starts a manager with one controller that it need not share.
    pub async fn start(stage: Arc<Stage>, controller: &str) -> Result<Self> {
        Self::with(stage, controller, &[controller], &["--leader-elect=false"], Vec::new()).await
    }

    /// Starts one of several managers that share all controllers, with some variables of its own.
    pub async fn replica(stage: Arc<Stage>, name: &str, env: Vec<(String, String)>) -> Result<Self> {
        let instance = format!("--instance={name}");
        let args = [["--leader-elect", instance.as_str()].as_slice(), &QUICK].concat();
        Self::with(stage, name, &CONTROLLERS, &args, env).await
    }

    async fn with(
        stage: Arc<Stage>,
        name: &str,
        controllers: &[&str],
        args: &[&str],
        mut env: Vec<(String, String)>,
    ) -> Result<Self> {
        let account = stage.cluster.service_account_kubeconfig(NAMESPACE_OF_MANAGER, ACCOUNT).await?;
        let proxy = Proxy::start(stage.cluster.kubeconfig()).await?;
        let dir = &stage.cluster.record().dir;
        let (kubeconfig, name) = (dir.join(format!("{name}.proxied")), format!("faults-{name}"));
        let log = dir.join(format!("companions/{name}.log"));
        proxy.lead(&account, &kubeconfig)?;
        // Without the companion of Tenants, which writes by itself.
        let controllers = format!("--controllers={},-capsuleconfiguration", controllers.join(","));
        let fixed = [
            controllers.as_str(),
            "--log-format=json",
            "--health-probe-bind-address=0",
            "--webhook-bind-address=0",
            "--metrics-bind-address=0",
        ];
        let args = fixed.iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        env.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
        let lane = Self { stage, proxy, name, args, env, log, manager: Mutex::default() };
        lane.revive()?;
        Ok(lane)
    }

    /// Starts the manager, with what it says added to its log.
    pub fn revive(&self) -> Result<()> {
        self.proxy.begin_life();
        let Self { stage, name, args, env, .. } = self;
        *self.manager.lock() = Some(stage.cluster.companion(name, &stage.program, args, env)?);
        Ok(())
    }

    /// Ends the manager without warning.
    pub fn kill(&self) -> Result<()> {
        self.manager.lock().take().map_or(Ok(()), Companion::kill)
    }

    /// Sends the manager a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.manager.lock().as_ref().map(Companion::pid);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).context("the manager runs")?;
        kill_process(pid, signal).context("send the manager a signal")
    }

    /// The run for which the manager has to die now, if there is one.
    pub fn crash(&self) -> Option<Token> {
        self.proxy.crash()
    }

    /// How much the manager has said so far.
    pub fn said(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// What the manager has said since.
    pub fn words(&self, since: u64) -> Result<String> {
        let text = std::fs::read(&self.log).with_context(|| format!("read {}", self.log.display()))?;
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        Ok(String::from_utf8_lossy(text.get(since..).unwrap_or_default()).into_owned())
    }

    /// # Errors
    /// When the manager has ended by itself.
    pub fn ensure_running(&self) -> Result<()> {
        self.manager.lock().as_mut().map_or(Ok(()), Companion::ensure_running)
    }
}
