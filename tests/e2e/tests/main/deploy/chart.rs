//! Helm, and the chart.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use cluster::wait::eventually;
use tempfile::{NamedTempFile, TempDir};

use crate::support::{PATIENCE, path};

/// What the tests call the release.
pub(crate) const RELEASE: &str = "controllers";

/// Helm with nothing of the tester's own configuration.
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
}

impl Helm {
    /// For commands that ask no cluster.
    pub(crate) fn new() -> Self {
        Self::with(Path::new("/nonexistent"))
    }

    /// For a cluster, by its kubeconfig.
    pub(crate) fn with(kubeconfig: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { program: go_tools::helm().unwrap(), kubeconfig: kubeconfig.to_owned(), home }
    }

    /// What it prints; in the error, what it complains of.
    pub(crate) fn run(&self, args: &[&str]) -> Result<String, String> {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Starts a command that takes as long as others let it.
    pub(crate) fn start(self, args: &[&str]) -> Started {
        let said = NamedTempFile::new().unwrap();
        let output = said.reopen().unwrap();
        let child = self.command(args).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        Started { child, said, _helm: self }
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

    /// `install` or `upgrade`, with values that hold instead of all that were given before.
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

/// A command of Helm's that runs. Killed when dropped: a test that fails need not wait for it.
pub(crate) struct Started {
    child: Child,
    said: NamedTempFile,
    _helm: Helm,
}

impl Started {
    /// Waits until it has ended. What it said is the error if it has failed.
    pub(crate) async fn until_exit(mut self) -> Result<String, String> {
        let child = &mut self.child;
        let status = eventually("Helm to end", 2 * PATIENCE, async || Ok(child.try_wait()?)).await.unwrap();
        let said = fs::read_to_string(self.said.path()).unwrap();
        if status.success() { Ok(said) } else { Err(said) }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
