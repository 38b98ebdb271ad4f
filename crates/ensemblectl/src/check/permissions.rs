//! Check of the permissions of the manager's ServiceAccount.
//!
//! A SubjectAccessReview decides each permission that the code requires.

use anyhow::Context;
use manager::ca_bundle_targets;
use operator_core::{informer::Scope, manifests::Grant};
use operator_runtime::{certificates, election, metrics};

use super::Finding;
use crate::{
    access_review::{Permission, Subject, missing_permissions, permissions, summarize},
    cluster::Cluster,
    installation::Installation,
};

const WHAT: &str = "permissions";

/// Role of the manager with the permissions that it must grant.
pub(super) struct RequiredRole {
    /// Name of the role. The name of its file is the same without the prefix.
    pub(super) name: String,
    pub(super) permissions: Vec<Permission>,
}

/// Returns the roles that the manager needs with its flags.
pub(super) fn required_roles(installation: &Installation) -> Vec<RequiredRole> {
    let flags = &installation.flags;
    let namespaces: Vec<_> = match &flags.scope {
        Scope::Cluster => Vec::new(),
        Scope::Namespaces(names) => names.iter().cloned().collect(),
    };
    let role = |grant: Grant, namespaces: &[String]| RequiredRole {
        name: grant.name(),
        permissions: permissions(grant.rules(), namespaces),
    };
    let mut roles: Vec<_> =
        flags.controllers.iter().map(|controller| role(Grant::of(controller), &namespaces)).collect();
    if let Some(namespace) = installation.lease_namespace() {
        let leases: Vec<_> =
            flags.controllers.iter().map(|controller| election::lease_name(controller.name)).collect();
        let grant = Grant::new("leader-election", election::rules(leases.iter().map(String::as_str)));
        roles.push(role(grant, &[namespace.to_owned()]));
    }
    if installation.needs_certificate() {
        let grant = Grant::new("certificates", certificates::rules());
        roles.push(role(grant, std::slice::from_ref(&installation.namespace)));
    }
    if installation.serves_webhooks() {
        let targets = ca_bundle_targets(&flags.controllers);
        let grant = Grant::new("certificates", certificates::cluster_rules(&targets));
        roles.push(role(grant, &[]));
    }
    if installation.has_secure_metrics() {
        roles.push(role(Grant::new("metrics-auth", metrics::rules()), &[]));
    }
    roles
}

/// Checks the permissions of each role.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let Installation { namespace, service_account, .. } = installation;
    let subject = Subject::ServiceAccount(namespace.clone(), service_account.clone());
    let account = format!("{namespace}/{service_account}");
    let (mut findings, mut count) = (Vec::new(), 0);
    for RequiredRole { name, permissions } in required_roles(installation) {
        count += permissions.len();
        let missing = missing_permissions(&cluster.client, &subject, permissions).await;
        match missing.with_context(|| format!("cannot review the access of the ServiceAccount {account}")) {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => findings.push(finding(&name, &account, &missing)),
            // The other reviews would fail in the same way.
            Err(error) => return vec![Finding::unknown(WHAT, &error)],
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(
            WHAT,
            format!("the ServiceAccount {account} has all {count} required permissions"),
        ));
    }
    findings
}

fn finding(role: &str, account: &str, missing: &[Permission]) -> Finding {
    let file = role.trim_start_matches("ensemble-");
    let message = format!("the ServiceAccount {account} cannot {}", summarize(missing));
    Finding::error(
        &format!("role {role}"),
        message,
        format!("apply the role and its binding with `kubectl apply -f deploy/rbac/{file}.yaml`"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_roles_are_deployed() {
        let installation = Installation::select(Vec::new(), None).unwrap();
        let roles = required_roles(&installation);
        for controller in manager::CONTROLLERS {
            assert!(roles.iter().any(|role| role.name == format!("ensemble-{}", controller.name)));
        }
        for name in ["leader-election", "certificates", "metrics-auth"] {
            let role = roles.iter().find(|role| role.name == format!("ensemble-{name}")).unwrap();
            let file = format!("{}/../../deploy/rbac/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            assert!(!role.permissions.is_empty() && std::path::Path::new(&file).exists(), "{file}");
        }
    }
}
