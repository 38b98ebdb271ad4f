//! Runs kubectl.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{Cluster, command};

impl Cluster {
    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// Returns an error with the arguments and standard error if kubectl fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(self.kubeconfig(), args, "").await
    }

    /// Runs kubectl with another kubeconfig and returns its output.
    ///
    /// # Errors
    /// Returns an error with the arguments and standard error if kubectl fails.
    pub async fn kubectl_with(&self, kubeconfig: &Path, args: &[&str]) -> Result<String> {
        self.run_kubectl(kubeconfig, args, "").await
    }

    /// Applies YAML manifests as the administrator.
    pub async fn apply_yaml(&self, manifests: &str) -> Result<String> {
        self.run_kubectl(
            self.kubeconfig(),
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            manifests,
        )
        .await
    }

    async fn run_kubectl(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
        let mut kubectl = Command::new(self.record().kubectl());
        kubectl
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--cache-dir")
            .arg(self.record().dir.join("kubectl-cache"))
            .args(args);
        let input = input.to_owned();
        let shown = format!("kubectl {}", args.join(" "));
        let run = tokio::task::spawn_blocking(move || command::run(kubectl, &input)).await;
        run.context("the thread that runs kubectl panicked")?.with_context(|| shown)
    }
}
