//! Helm commands.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use cluster::wait::eventually;
use tempfile::{NamedTempFile, TempDir};

use crate::support::{PATIENCE, path};

/// Name of the Helm release.
pub(crate) const RELEASE: &str = "controllers";

/// Helm with an empty configuration.
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
}

impl Helm {
    /// Returns Helm for commands that need no cluster.
    pub(crate) fn new() -> Self {
        Self::with(Path::new("/nonexistent"))
    }

    /// Returns Helm for the cluster of a kubeconfig.
    pub(crate) fn with(kubeconfig: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { program: go_tools::HELM.locate().unwrap(), kubeconfig: kubeconfig.to_owned(), home }
    }

    /// Runs a command. Returns its output.
    ///
    /// # Errors
    /// Returns its error output if the command fails.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Starts a command and does not wait for it.
    pub(crate) fn start(self, args: &[&str]) -> HelmProcess {
        let log = NamedTempFile::new().unwrap();
        let output = log.reopen().unwrap();
        let child = self.command(args).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        HelmProcess { child, log, _helm: self }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().env("HOME", self.home.path()).env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Renders the chart.
    pub(crate) fn template(&self, set: &[&str]) -> Result<String, String> {
        let chart = path("deploy/helm/ensemble");
        self.run(&[&["template", RELEASE, &chart, "--namespace=ensemble-system"], &*sets(set)].concat())
    }

    /// Runs `install` or `upgrade`. The values replace all previous values.
    pub(crate) fn apply(
        &self,
        verb: &str,
        release: &str,
        namespace: &str,
        set: &[&str],
    ) -> Result<String, String> {
        let (chart, within) = (path("deploy/helm/ensemble"), format!("--namespace={namespace}"));
        let reset: &[&str] = if verb == "upgrade" { &["--reset-values"] } else { &[] };
        self.run(&[&[verb, release, &chart, &within], reset, &*sets(set)].concat())
    }
}

fn sets<'a>(values: &[&'a str]) -> Vec<&'a str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

/// Running Helm command. Killed when dropped, so that a failed test does not wait for it.
pub(crate) struct HelmProcess {
    child: Child,
    log: NamedTempFile,
    _helm: Helm,
}

impl HelmProcess {
    /// Waits until the command has ended. Returns its output, as the error if it failed.
    pub(crate) async fn wait(mut self) -> Result<String, String> {
        let child = &mut self.child;
        let status = eventually("Helm to end", 2 * PATIENCE, async || Ok(child.try_wait()?)).await.unwrap();
        let output = fs::read_to_string(self.log.path()).unwrap();
        if status.success() { Ok(output) } else { Err(output) }
    }
}

impl Drop for HelmProcess {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
