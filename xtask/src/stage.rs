//! A cluster with the manager on it, under its generated rights.

use std::path::Path;

use anyhow::{Context, Result};
use cluster::{Cluster, Companion};
use operator_runtime::crds::install;

use crate::{crds::definitions, rbac, workspace};

/// Registers the definitions, grants the rights of `deploy/rbac`, and starts the manager as the ServiceAccount that
/// has them.
pub(crate) async fn start_manager(cluster: &Cluster, program: &Path) -> Result<Companion> {
    install(&cluster.client().await?, &definitions()).await?;
    let rights = workspace().join("deploy/rbac").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", &rights]).await?;
    let kubeconfig = cluster.service_account_kubeconfig(rbac::NAMESPACE, rbac::ACCOUNT).await?;
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
    cluster.companion("manager", program, &["--health-probe-bind-address=0".to_owned()], &environment)
}

/// The ServiceAccount that the manager runs as, as the audit log names it.
pub(crate) fn user() -> String {
    format!("system:serviceaccount:{}:{}", rbac::NAMESPACE, rbac::ACCOUNT)
}

/// The memory that a process has in use, in MiB, as `/proc` tells it.
///
/// # Errors
/// Where there is no `/proc`, or the process is gone.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let kibibytes: f64 = kibibytes.with_context(|| format!("{path} has no VmRSS"))?.trim().parse()?;
    Ok(kibibytes / 1024.0)
}
