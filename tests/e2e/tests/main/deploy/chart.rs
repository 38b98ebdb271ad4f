//! Helm, and the chart.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::support::path;

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
        let output = Command::new(&self.program)
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
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
