//! `check`: checks of the installation, each with a remedy.
//!
//! Each check is a function from the cluster to findings. Requests and their evaluation are
//! separate, so that the evaluation is tested without a cluster.

mod api_server;
mod certificate;
mod conflicts;
mod crds;
mod deployment;
mod finding;
mod leaders;
mod objects;
mod permissions;
mod preflight;
mod proxy;
mod webhook_calls;
mod webhooks;

use anyhow::Result;

pub(crate) use self::{
    finding::{Finding, Findings},
    leaders::holder,
};
use crate::{
    cluster::Cluster,
    flags::{Check, Limits},
    installation::Installation,
    output::{ExitStatus, print},
};

/// Runs the checks and prints the findings.
pub(crate) async fn run(cluster: &Cluster, check: &Check) -> Result<ExitStatus> {
    let installation = Installation::find(cluster).await?;
    let findings = if check.pre {
        preflight::findings(cluster, &installation).await
    } else {
        findings(cluster, &installation, check.limits, SecretAccess::Allowed).await
    };
    print(check.output.output, &findings, || findings.text())?;
    Ok(findings.exit_status())
}

/// Whether the checks read Secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretAccess {
    /// Only the Secret of the certificate is read.
    Allowed,
    /// No Secret is read.
    Denied,
}

/// Checks an installation. Stops after the CustomResourceDefinitions if none exists.
pub(crate) async fn findings(
    cluster: &Cluster,
    installation: &Installation,
    limits: Limits,
    secrets: SecretAccess,
) -> Findings {
    let mut all = vec![api_server::finding(&cluster.url, &cluster.version)];
    let crds = crds::check(cluster, installation).await;
    all.extend(crds.findings);
    if crds.is_not_installed {
        return Findings::of(all);
    }
    all.extend(deployment::findings(installation));
    all.extend(proxy::findings(cluster, installation, secrets).await);
    all.extend(leaders::findings(cluster, installation).await);
    all.extend(permissions::findings(cluster, installation).await);
    all.extend(webhooks::findings(cluster, installation).await);
    all.extend(webhook_calls::findings(cluster, installation).await);
    if secrets == SecretAccess::Allowed {
        all.extend(certificate::finding(cluster, installation).await);
    }
    all.extend(objects::findings(cluster, installation, limits).await);
    Findings::of(all)
}
