//! What the manager's ServiceAccount may do: every right that the code says it needs, as the API server judges it.

use anyhow::Context;
use manager::ca_bundle_targets;
use operator_core::{informer::Scope, rbac::Grant};
use operator_runtime::{certificates, election, metrics};

use super::Finding;
use crate::{
    connect::Cluster,
    installation::Installation,
    rights::{Right, Who, missing, rights, some},
};

/// The rights of one part of the manager.
pub(super) struct Part {
    /// The role that gives them, and its file.
    pub(super) role: String,
    pub(super) rights: Vec<Right>,
}

/// Every part of the manager that runs with these flags.
pub(super) fn parts(installation: &Installation) -> Vec<Part> {
    let flags = &installation.flags;
    let within: Vec<_> = match &flags.scope {
        Scope::Cluster => Vec::new(),
        Scope::Namespaces(names) => names.iter().cloned().collect(),
    };
    let part = |grant: Grant, namespaces: &[String]| Part {
        role: grant.name(),
        rights: rights(grant.rules(), namespaces),
    };
    let mut parts: Vec<_> =
        flags.controllers.iter().map(|controller| part(Grant::of(controller), &within)).collect();
    if let Some(namespace) = installation.lease_namespace() {
        let leases: Vec<_> =
            flags.controllers.iter().map(|controller| election::lease_name(controller.name)).collect();
        let grant = Grant::new("leader-election", election::rules(leases.iter().map(String::as_str)));
        parts.push(part(grant, &[namespace.to_owned()]));
    }
    if installation.shows_certificate() {
        let own = Grant::new("certificates", certificates::rules());
        parts.push(part(own, std::slice::from_ref(&installation.namespace)));
    }
    if installation.serves_webhooks() {
        let everywhere = certificates::cluster_rules(&ca_bundle_targets(&flags.controllers));
        parts.push(part(Grant::new("certificates", everywhere), &[]));
    }
    if installation.guards_metrics() {
        parts.push(part(Grant::new("metrics-auth", metrics::rules()), &[]));
    }
    parts
}

/// What is missing, by part; one finding if nothing is.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let Installation { namespace, account, .. } = installation;
    let who = Who::Account(namespace.clone(), account.clone());
    let (mut findings, mut count) = (Vec::new(), 0);
    for Part { role, rights } in parts(installation) {
        let what = format!("role {role}");
        count += rights.len();
        let lacking = missing(&cluster.client, &who, rights).await;
        match lacking
            .with_context(|| format!("cannot ask what the ServiceAccount {namespace}/{account} may do"))
        {
            Ok(lacking) if lacking.is_empty() => {}
            Ok(lacking) => findings.push(lacks(&what, &role, &format!("{namespace}/{account}"), &lacking)),
            // The answer would be the same for the others.
            Err(error) => return vec![Finding::unknown("rights", &error)],
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            "rights",
            format!("the ServiceAccount {namespace}/{account} has all {count} that it needs"),
        ));
    }
    findings
}

fn lacks(what: &str, role: &str, account: &str, lacking: &[Right]) -> Finding {
    let file = role.trim_start_matches("ensemble-");
    let message = format!("the ServiceAccount {account} may not {}", some(lacking));
    Finding::error(
        what,
        message,
        format!("apply the role {role} and its binding: deploy/rbac/{file}.yaml has both"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_roles_that_are_deployed() {
        let installation = Installation::among(Vec::new(), None).unwrap();
        let parts = parts(&installation);
        for controller in manager::CONTROLLERS {
            assert!(parts.iter().any(|part| part.role == format!("ensemble-{}", controller.name)));
        }
        for part in ["leader-election", "certificates", "metrics-auth"] {
            let found = parts.iter().find(|found| found.role == format!("ensemble-{part}")).unwrap();
            let file = format!("{}/../../deploy/rbac/{part}.yaml", env!("CARGO_MANIFEST_DIR"));
            assert!(!found.rights.is_empty() && std::path::Path::new(&file).exists(), "{file}");
        }
    }
}
