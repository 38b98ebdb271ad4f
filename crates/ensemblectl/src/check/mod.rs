//! Looking at every part of an installation, and saying what to do about what is not as it should be.
//!
//! Each part is a function from the cluster to findings. What it asks and how it judges are apart, so that judging can
//! be tested without a cluster.

mod before;
mod certificate;
mod definitions;
mod deployment;
mod finding;
mod leaders;
mod objects;
mod probes;
mod roles;
mod server;
mod webhooks;

use anyhow::Result;

pub(crate) use self::{
    finding::{Finding, Findings},
    leaders::holder,
};
use crate::{
    connect::Cluster,
    flags::{Check, Limits},
    installation::Installation,
    output::{Ending, print},
};

/// Checks, and prints what was found.
pub(crate) async fn run(cluster: &Cluster, check: &Check) -> Result<Ending> {
    let installation = Installation::find(cluster).await?;
    let findings = if check.pre {
        before::findings(cluster, &installation).await
    } else {
        findings(cluster, &installation, check.limits, Secrets::Read).await
    };
    print(check.output.output, &findings, || findings.text())?;
    Ok(findings.ending())
}

/// Whether Secrets may be asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrets {
    /// The one with the certificate is.
    Read,
    /// None is.
    Untouched,
}

/// What is found at an installation. Where there is none, nothing else is looked at.
pub(crate) async fn findings(
    cluster: &Cluster,
    installation: &Installation,
    limits: Limits,
    secrets: Secrets,
) -> Findings {
    let mut all = vec![server::finding(&cluster.url, &cluster.version)];
    let definitions = definitions::find(cluster, installation).await;
    all.extend(definitions.findings);
    if definitions.none_is_there {
        return Findings::of(all);
    }
    all.extend(deployment::findings(installation));
    all.extend(leaders::findings(cluster, installation).await);
    all.extend(roles::findings(cluster, installation).await);
    all.extend(webhooks::findings(cluster, installation).await);
    all.extend(probes::findings(cluster, installation).await);
    if secrets == Secrets::Read {
        all.extend(certificate::finding(cluster, installation).await);
    }
    all.extend(objects::findings(cluster, installation, limits).await);
    Findings::of(all)
}
