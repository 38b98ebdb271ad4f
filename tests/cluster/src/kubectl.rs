//! Runs kubectl.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::Cluster;

impl Cluster {
    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// Returns an error with the arguments and standard error if kubectl fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(args, "").await
    }

    /// Applies YAML manifests as the administrator.
    pub async fn apply_yaml(&self, manifests: &str) -> Result<String> {
        self.run_kubectl(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests).await
    }

    async fn run_kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(self.record().kubectl());
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.record().dir.join("kubectl-cache"))
            .args(args);
        let input = input.to_owned();
        let shown = format!("kubectl {}", args.join(" "));
        let run = tokio::task::spawn_blocking(move || run(command, &input)).await;
        run.context("the thread that runs kubectl panicked")?.with_context(|| shown)
    }
}

fn run(mut command: Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If kubectl exits before it reads its input, its own error is more useful than a broken
        // pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().context("wait for kubectl")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("the output of kubectl is not UTF-8")
}
