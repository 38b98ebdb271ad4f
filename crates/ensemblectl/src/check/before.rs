//! Before an installation: whether it can work here, and what would be in its way. Said before anything is touched.

mod others;

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

use super::{Finding, Findings, definitions, roles, server};
use crate::{
    connect::Cluster,
    installation::Installation,
    rights::{Who, missing, rights, some},
};

/// What was found.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Findings {
    let mut all = vec![server::finding(&cluster.url, &cluster.version)];
    all.extend(installer(cluster, installation).await);
    all.extend(definitions_there(cluster, installation).await);
    all.push(others::webhooks(cluster, &installation.kinds()).await);
    all.push(others::installations(cluster, installation).await);
    Findings::of(all)
}

/// What applying `deploy` takes.
fn cluster_wide() -> Vec<Rule> {
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

/// The same in the manager's namespace.
fn within() -> Vec<Rule> {
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

/// Whether the person who asks could install it: also what the roles grant, for nobody may grant what they lack.
async fn installer(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let what = "your rights";
    let mut wanted = rights(&cluster_wide(), &[]);
    wanted.extend(rights(&within(), std::slice::from_ref(&installation.namespace)));
    let count = wanted.len();
    let granted: Vec<_> = roles::parts(installation).into_iter().flat_map(|part| part.rights).collect();
    let asked = async {
        let lacking = missing(&cluster.client, &Who::Me, wanted).await?;
        Ok::<_, kube::Error>((lacking, missing(&cluster.client, &Who::Me, granted).await?))
    };
    match asked.await.context("cannot ask what you may do") {
        Err(error) => vec![Finding::unknown(what, &error)],
        Ok((lacking, _)) if !lacking.is_empty() => {
            let advice = "have somebody install it who may: the ClusterRole cluster-admin has all of it";
            vec![Finding::error(what, format!("you may not {}", some(&lacking)), advice)]
        }
        Ok((_, ungrantable)) if !ungrantable.is_empty() => {
            let message = format!("you cannot grant the manager what you lack: {}", some(&ungrantable));
            vec![Finding::error(
                what,
                message,
                "have somebody install it who has these rights, or `escalate` on cluster roles",
            )]
        }
        Ok(_) => vec![Finding::ok(
            what,
            format!("you have all {count} that an installation takes, and what the manager is to be granted"),
        )],
    }
}

/// Definitions under our names, and whose they are.
async fn definitions_there(cluster: &Cluster, installation: &Installation) -> Vec<Finding> {
    let (mut findings, mut same) = (Vec::new(), 0);
    for kind in installation.kinds() {
        let name = kind.definition.name_any();
        match definitions::get(cluster, &name).await {
            Err(error) => return vec![Finding::unknown("definitions", &error)],
            Ok(None) => {}
            Ok(Some(found)) => match differs(&kind.definition, &found) {
                None => same += 1,
                Some(finding) => findings.push(finding),
            },
        }
    }
    if findings.is_empty() {
        let message = match same {
            0 => "nobody has any of our names".to_owned(),
            same => format!("{same} are there already, as this version has them"),
        };
        findings.push(Finding::ok("definitions", message));
    }
    findings
}

fn differs(wanted: &CustomResourceDefinition, found: &CustomResourceDefinition) -> Option<Finding> {
    let place = definitions::difference(wanted, found)?;
    let what = format!("definition {}", wanted.name_any());
    // Ours are made from code; those that are made from Go say what made them.
    let is_foreign = found.annotations().contains_key("controller-gen.kubebuilder.io/version")
        || found.labels().get("app.kubernetes.io/name").is_some_and(|name| name != "ensemble");
    Some(if is_foreign {
        let message = "is there already, made by somebody else: an installation would replace it";
        let advice = if found.spec.group == "capsule.clastix.io" {
            "this is Capsule's: read docs/tenants/coming-from-capsule.md first; nothing of it is taken over by itself"
        } else {
            "find out who uses it: two controllers for one kind fight over its objects"
        };
        Finding::error(&what, message, advice)
    } else {
        let message = format!("is there already and not as this version has it, first at {place}");
        Finding::warning(
            &what,
            message,
            "an earlier or later Ensemble: an installation replaces it, and its objects stay",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::finding::State, kinds::find};

    #[test]
    fn a_definition_of_capsule_is_told_from_an_older_one_of_ours() {
        let wanted = find("tenant").unwrap().definition;
        assert_eq!(differs(&wanted, &wanted), None);
        let mut older = wanted.clone();
        older.spec.versions.pop();
        assert_eq!(differs(&wanted, &older).unwrap().state, State::Warning);
        older.metadata.annotations =
            Some([("controller-gen.kubebuilder.io/version".to_owned(), "v0.19.0".to_owned())].into());
        let told = differs(&wanted, &older).unwrap();
        assert!(told.state == State::Error && told.advice.unwrap().contains("this is Capsule's"));
    }
}
