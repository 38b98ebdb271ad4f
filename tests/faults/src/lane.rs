//! A manager with one controller, and the proxy that it sees the API server through.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use cluster::Companion;
use parking_lot::Mutex;

use crate::{
    proxy::Proxy,
    stage::{ACCOUNT, NAMESPACE_OF_MANAGER, Stage},
    token::Token,
};

/// A manager with one controller. What dies in one lane is not noticed in another.
pub struct Lane {
    /// The cluster.
    pub stage: Arc<Stage>,
    /// The controller.
    pub controller: &'static str,
    /// What stands between.
    pub proxy: Proxy,
    kubeconfig: PathBuf,
    manager: Mutex<Option<Companion>>,
}

impl Lane {
    /// Starts a manager.
    pub async fn start(stage: Arc<Stage>, controller: &'static str) -> Result<Self> {
        let account = stage.cluster.service_account_kubeconfig(NAMESPACE_OF_MANAGER, ACCOUNT).await?;
        let proxy = Proxy::start(stage.cluster.kubeconfig()).await?;
        let kubeconfig = stage.cluster.record().dir.join(format!("{controller}.proxied"));
        proxy.lead(&account, &kubeconfig)?;
        let lane = Self { stage, controller, proxy, kubeconfig, manager: Mutex::default() };
        lane.revive()?;
        Ok(lane)
    }

    /// Starts the manager, with what it says added to its log.
    pub fn revive(&self) -> Result<()> {
        // Without the companion of Tenants, which writes by itself.
        let controllers = format!("--controllers={},-capsuleconfiguration", self.controller);
        let args = [
            controllers.as_str(),
            "--leader-elect=false",
            "--log-format=json",
            "--health-probe-bind-address=0",
            "--webhook-bind-address=0",
            "--metrics-bind-address=0",
        ];
        let env = [("KUBECONFIG".to_owned(), self.kubeconfig.display().to_string())];
        self.proxy.begin_life();
        let name = format!("faults-{}", self.controller);
        let program = &self.stage.program;
        let started = self.stage.cluster.companion(&name, program, &args.map(str::to_owned), &env)?;
        *self.manager.lock() = Some(started);
        Ok(())
    }

    /// Ends the manager without warning.
    pub fn kill(&self) -> Result<()> {
        self.manager.lock().take().map_or(Ok(()), Companion::kill)
    }

    /// The run for which the manager has to die now, if there is one.
    pub fn crash(&self) -> Option<Token> {
        self.proxy.crash()
    }

    /// How much the manager has said so far.
    pub fn said(&self) -> u64 {
        let log = self.manager.lock().as_ref().map(|manager| manager.log().to_owned());
        log.and_then(|log| std::fs::metadata(log).ok()).map_or(0, |log| log.len())
    }

    /// What the manager has said since.
    pub fn words(&self, since: u64) -> Result<String> {
        let log = self.manager.lock().as_ref().map(|manager| manager.log().to_owned());
        let log = log.context("the manager runs")?;
        let text = std::fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        Ok(String::from_utf8_lossy(text.get(since..).unwrap_or_default()).into_owned())
    }

    /// # Errors
    /// When the manager has ended by itself.
    pub fn ensure_running(&self) -> Result<()> {
        self.manager.lock().as_mut().map_or(Ok(()), Companion::ensure_running)
    }
}
