//! Running kubectl as a person would.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::Cluster;

impl Cluster {
    /// Runs kubectl as the administrator and returns what it printed.
    ///
    /// # Errors
    /// When it fails; the error carries the arguments and standard error.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run_kubectl(args, "").await
    }

    /// Applies manifests (YAML, any number of documents) as the administrator.
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
        run.context("the thread that runs kubectl has panicked")?.with_context(|| shown)
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
        // One that fails early does not read its input; its own message says more than a broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().context("wait for it")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("its output is not text")
}
