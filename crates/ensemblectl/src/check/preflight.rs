//! Checks before an installation: versions, permissions, and conflicts. Changes nothing.

use anyhow::Context;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{Namespace, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::ResourceExt;
use operator_core::rbac::{CREATE, GET, PATCH, Rule, rule};

use super::{Finding, Findings, api_server, conflicts, crds, permissions::required_roles};
use crate::{
    access_review::{Subject, missing_permissions, permissions, summarize},
    cluster::Cluster,
    installation::Installation,
};

/// Runs the checks.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Findings {
    let mut all = vec![api_server::finding(&cluster.url, &cluster.version)];
    all.extend(own_permissions(cluster, installation).await);
    all.extend(existing_crds(cluster, installation).await);
    all.push(conflicts::webhooks(cluster, &installation.kinds()).await);
    all.push(conflicts::installations(cluster, installation).await);
    Findings::of(all)
}

/// Returns the cluster-wide rules that an installation of `deploy` requires.
fn cluster_rules() -> Vec<Rule> {
    let apply = GET | CREATE | PATCH;
    vec![
        rule::<CustomResourceDefinition>(apply),
        rule::<Namespace>(apply),
        rule::<ClusterRole>(apply),
        rule::<ClusterRoleBinding>(apply),
        rule::<ValidatingWebhookConfiguration>(apply),
        rule::<MutatingWebhookConfiguration>(apply),
        rule::<ValidatingAdmissionPolicy>(apply),
        rule::<ValidatingAdmissionPolicyBinding>(apply),
    ]
}

/// Returns the rules that an installation requires in the manager's namespace.
fn namespace_rules() -> Vec<Rule> {
    let apply = GET | CREATE | PATCH;
    vec![
        rule::<ServiceAccount>(apply),
        rule::<Role>(apply),
        rule::<RoleBinding>(apply),
        rule::<Service>(apply),
        rule::<Lease>(apply),
        rule::<Deployment>(apply),
    ]
}

/// Checks the permissions of the current user.
///
/// They must include the permissions of the manager, because RBAC prevents granting others.
async fn own_permissions(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let what = "your permissions";
    let mut required = permissions(&cluster_rules(), &[]);
    required.extend(permissions(&namespace_rules(), std::slice::from_ref(&installation.namespace)));
    let count = required.len();
    let granted: Vec<_> =
        required_roles(installation).into_iter().flat_map(|role| role.permissions).collect();
    let reviews = async {
        let user = Subject::CurrentUser;
        let missing = missing_permissions(&cluster.client, &user, required).await?;
        Ok::<_, kube::Error>((missing, missing_permissions(&cluster.client, &user, granted).await?))
    };
    match reviews.await.context("cannot review your access") {
        Err(error) => vec![Finding::unknown(what, &error)],
        Ok((missing, _)) if !missing.is_empty() => {
            let advice =
                "install as a user with these permissions, for example with the ClusterRole cluster-admin";
            vec![Finding::error(what, format!("you cannot {}", summarize(&missing)), advice)]
        }
        Ok((_, ungrantable)) if !ungrantable.is_empty() => {
            let message = format!(
                "you cannot grant the manager permissions that you lack: {}",
                summarize(&ungrantable)
            );
            let advice = "install as a user with these permissions, or with `escalate` on ClusterRoles";
            vec![Finding::error(what, message, advice)]
        }
        Ok(_) => vec![Finding::ok(
            what,
            format!("you have all {count} permissions for an installation, and those that the manager needs"),
        )],
    }
}

/// Checks CustomResourceDefinitions that exist with the names of Ensemble.
async fn existing_crds(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let (mut findings, mut same) = (Vec::new(), 0);
    for kind in installation.kinds() {
        let name = kind.definition.name_any();
        match crds::get(cluster, &name).await {
            Err(error) => return vec![Finding::unknown(crds::WHAT, &error)],
            Ok(None) => {}
            Ok(Some(found)) => match compare(&kind.definition, &found) {
                None => same += 1,
                Some(finding) => findings.push(finding),
            },
        }
    }
    if findings.is_empty() {
        let message = match same {
            0 => "none exists with the names of Ensemble".to_owned(),
            same => format!("{same} exist and match this version"),
        };
        findings.push(Finding::ok(crds::WHAT, message));
    }
    findings
}

fn compare(expected: &CustomResourceDefinition, found: &CustomResourceDefinition) -> Option<Finding> {
    let path = crds::difference(expected, found)?;
    let what = format!("CRD {}", expected.name_any());
    // controller-gen annotates the CRDs that it generates. Ensemble does not use it.
    let is_foreign = found.annotations().contains_key("controller-gen.kubebuilder.io/version")
        || found.labels().get("app.kubernetes.io/name").is_some_and(|name| name != "ensemble");
    Some(if is_foreign {
        let message = "exists and belongs to another controller: an installation would replace it";
        let advice = if found.spec.group == "capsule.clastix.io" {
            "it belongs to Capsule; see docs/tenants/coming-from-capsule.md for the migration"
        } else {
            "remove the other controller first: two controllers of one kind overwrite each other's changes"
        };
        Finding::error(&what, message, advice)
    } else {
        let message = format!("exists and differs from this version, first at {path}");
        Finding::warning(
            &what,
            message,
            "it belongs to another version of Ensemble; an installation replaces it and keeps its objects",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::finding::State, kinds::find};

    #[test]
    fn distinguishes_crds_of_capsule_and_of_other_versions() {
        let expected = find("tenant").unwrap().definition;
        assert_eq!(compare(&expected, &expected), None);
        let mut older = expected.clone();
        older.spec.versions.pop();
        assert_eq!(compare(&expected, &older).unwrap().state, State::Warning);
        older.metadata.annotations =
            Some([("controller-gen.kubebuilder.io/version".to_owned(), "v0.19.0".to_owned())].into());
        let finding = compare(&expected, &older).unwrap();
        assert!(finding.state == State::Error && finding.advice.unwrap().contains("belongs to Capsule"));
    }
}
