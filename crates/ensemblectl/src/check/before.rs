//! Before an installation: whether it can work here, and what would be in its way. Said before anything is touched.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
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
use kube::{Api, ResourceExt, api::ListParams};
use operator_core::rbac::{CREATE, GET, PATCH, Rule, rule};

use super::{Finding, Findings, definitions, roles, server};
use crate::{
    connect::Cluster,
    installation::Installation,
    kinds::{Kind, list},
    rights::{Who, missing, rights, some},
};

/// What was found.
pub(super) async fn findings(cluster: &Cluster, installation: &Installation) -> Findings {
    let mut all = vec![server::finding(&cluster.url, &cluster.version)];
    all.extend(installer(cluster, installation).await);
    all.extend(definitions_there(cluster, installation).await);
    all.extend(
        judges(cluster, &installation.kinds())
            .await
            .unwrap_or_else(|error| vec![Finding::unknown("webhooks of others", &error)]),
    );
    let deployed = installation.deployment.iter().filter_map(ResourceExt::namespace);
    let deployed: Vec<_> = deployed.chain(installation.others.iter().cloned()).collect();
    let elsewhere = installs_elsewhere(cluster, installation).await;
    all.push(match elsewhere {
        Ok(namespaces) => other_installations(cluster, &deployed, &namespaces),
        Err(error) => Finding::unknown("other installations", &error),
    });
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
    // Ours are made from code and carry nothing; those of others say what made them.
    let is_marked = |key: &str| found.annotations().contains_key(key) || found.labels().contains_key(key);
    let is_foreign =
        ["controller-gen.kubebuilder.io/version", "helm.sh/chart"].iter().any(|key| is_marked(key))
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

/// Webhooks of others that judge our kinds: Capsule's, where it runs.
async fn judges(cluster: &Cluster, kinds: &[Kind]) -> Result<Vec<Finding>> {
    let what = "webhooks of others";
    let validating = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
    let validating =
        list(&validating, &ListParams::default()).await.context("cannot list the validating webhooks")?;
    let mutating = Api::<MutatingWebhookConfiguration>::all(cluster.client.clone());
    let mutating =
        list(&mutating, &ListParams::default()).await.context("cannot list the mutating webhooks")?;
    let groups = |rules: &Option<Vec<k8s_openapi::api::admissionregistration::v1::RuleWithOperations>>| {
        rules
            .iter()
            .flatten()
            .flat_map(|rule| rule.api_groups.clone().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for one in &validating {
        found.push((
            one.name_any(),
            one.webhooks.iter().flatten().flat_map(|webhook| groups(&webhook.rules)).collect(),
        ));
    }
    for one in &mutating {
        found.push((
            one.name_any(),
            one.webhooks.iter().flatten().flat_map(|webhook| groups(&webhook.rules)).collect(),
        ));
    }
    Ok(foreign(what, &found, kinds))
}

/// Those that are not ours and are about our groups.
fn foreign(what: &str, configurations: &[(String, Vec<String>)], kinds: &[Kind]) -> Vec<Finding> {
    let is_ours = |name: &str| {
        kinds.iter().any(|kind| operator_core::admission::configuration::name(kind.controller.name) == name)
    };
    let concerns = |groups: &[String]| {
        groups.iter().any(|group| kinds.iter().any(|kind| kind.definition.spec.group == *group))
    };
    let mut names: Vec<_> = configurations
        .iter()
        .filter(|(name, groups)| !is_ours(name) && concerns(groups))
        .map(|(name, _)| name.as_str())
        .collect();
    names.dedup();
    if names.is_empty() {
        return vec![Finding::ok(what, "none judges our kinds")];
    }
    let message =
        format!("{} judge our kinds: another controller looks after them, Capsule perhaps", names.join(", "));
    vec![Finding::error(
        what,
        message,
        "stop that one first; for Capsule docs/tenants/coming-from-capsule.md says how",
    )]
}

/// The namespaces of ServiceAccounts that already have our cluster roles.
async fn installs_elsewhere(cluster: &Cluster, installation: &Installation) -> Result<Vec<String>> {
    let bindings = Api::<ClusterRoleBinding>::all(cluster.client.clone());
    let mut namespaces = Vec::new();
    for part in roles::parts(installation) {
        let name = part.role;
        let binding = bindings
            .get_opt(&name)
            .await
            .with_context(|| format!("cannot read the ClusterRoleBinding {name}"))?;
        let subjects = binding.and_then(|binding| binding.subjects).unwrap_or_default();
        namespaces.extend(subjects.into_iter().filter_map(|subject| subject.namespace));
    }
    namespaces.sort();
    namespaces.dedup();
    Ok(namespaces)
}

fn other_installations(cluster: &Cluster, deployed: &[String], bound: &[String]) -> Finding {
    let what = "other installations";
    let wanted = cluster.place.manager_namespace.as_deref().unwrap_or(manager::NAMESPACE);
    let elsewhere: BTreeSet<_> =
        deployed.iter().chain(bound).filter(|namespace| *namespace != wanted).map(String::as_str).collect();
    if elsewhere.is_empty() {
        let message = if deployed.is_empty() { "none" } else { "one here, which would be upgraded" };
        return Finding::ok(what, message);
    }
    let message = format!(
        "there is one in {} already: definitions, cluster roles and webhooks are shared",
        Vec::from_iter(elsewhere).join(", ")
    );
    Finding::error(what, message, "remove that one first, or upgrade it where it is with --manager-namespace")
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

    #[test]
    fn a_webhook_of_others_about_our_kinds_is_named() {
        let kinds = crate::kinds::all();
        let one = |name: &str, group: &str| (name.to_owned(), vec![group.to_owned()]);
        assert_eq!(
            foreign("x", &[one("ensemble-tenant", "capsule.clastix.io"), one("others", "apps")], &kinds)[0]
                .state,
            State::Ok
        );
        let told = foreign("x", &[one("capsule-dynamic-webhook", "capsule.clastix.io")], &kinds);
        assert!(told[0].message.starts_with("capsule-dynamic-webhook judge"));
    }
}
