//! Checks for conflicts: webhooks of other controllers for our kinds, and other installations.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    },
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, ResourceExt, api::ListParams};
use operator_core::manifests::webhooks;

use super::{Finding, permissions::required_roles};
use crate::{
    cluster::Cluster,
    installation::Installation,
    kinds::{Kind, list},
};

const WEBHOOKS: &str = "other webhooks";
const INSTALLATIONS: &str = "other installations";

/// Name of a webhook configuration, and the API groups of its rules.
type ConfigurationGroups = (String, Vec<String>);

/// Checks for webhooks of other controllers for our kinds, such as those of Capsule.
pub(super) async fn webhooks(cluster: &Cluster, kinds: &[Kind]) -> Finding {
    match list_configurations(cluster).await {
        Ok(configurations) => evaluate_webhooks(&configurations, kinds),
        Err(error) => Finding::unknown(WEBHOOKS, &error),
    }
}

async fn list_configurations(cluster: &Cluster) -> Result<Vec<ConfigurationGroups>> {
    let validating = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
    let validating = list(&validating, &ListParams::default()).await;
    let mutating = Api::<MutatingWebhookConfiguration>::all(cluster.client.clone());
    let mutating = list(&mutating, &ListParams::default()).await;
    let validating =
        validating.context("cannot list the ValidatingWebhookConfigurations")?.into_iter().map(|one| {
            let rules = one.webhooks.iter().flatten().flat_map(|webhook| groups(webhook.rules.as_deref()));
            (one.name_any(), rules.collect())
        });
    let mutating =
        mutating.context("cannot list the MutatingWebhookConfigurations")?.into_iter().map(|one| {
            let rules = one.webhooks.iter().flatten().flat_map(|webhook| groups(webhook.rules.as_deref()));
            (one.name_any(), rules.collect())
        });
    Ok(validating.chain(mutating).collect())
}

fn groups(rules: Option<&[RuleWithOperations]>) -> Vec<String> {
    let groups =
        rules.unwrap_or_default().iter().flat_map(|rule| rule.api_groups.as_deref().unwrap_or_default());
    groups.cloned().collect()
}

/// Reports configurations of other controllers with rules for our API groups.
fn evaluate_webhooks(configurations: &[ConfigurationGroups], kinds: &[Kind]) -> Finding {
    let is_ours = |name: &str| kinds.iter().any(|kind| webhooks::name(kind.controller.name) == name);
    let is_our_group = |group: &String| kinds.iter().any(|kind| kind.definition.spec.group == *group);
    let foreign =
        configurations.iter().filter(|(name, groups)| !is_ours(name) && groups.iter().any(is_our_group));
    let names: BTreeSet<_> = foreign.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Finding::ok(WEBHOOKS, "none reviews the kinds of Ensemble");
    }
    let names = Vec::from_iter(names).join(", ");
    Finding::error(
        WEBHOOKS,
        format!("{names} reviews the kinds of Ensemble: another controller, such as Capsule, manages them"),
        "remove the other controller first; for Capsule, see docs/tenants/coming-from-capsule.md",
    )
}

/// Checks for other managers, by their Deployments and by the subjects of our ClusterRoleBindings.
pub(super) async fn installations(cluster: &Cluster, installation: &Installation) -> Finding {
    let deployed = installation.deployment.iter().filter_map(ResourceExt::namespace);
    let deployed: Vec<_> = deployed.chain(installation.other_namespaces.iter().cloned()).collect();
    match bound_namespaces(cluster, installation).await {
        Ok(bound) => evaluate_installations(cluster.config.manager_namespace.as_deref(), &deployed, &bound),
        Err(error) => Finding::unknown(INSTALLATIONS, &error),
    }
}

/// Returns the namespaces of the ServiceAccounts to which our ClusterRoles are bound.
async fn bound_namespaces(cluster: &Cluster, installation: &Installation) -> Result<Vec<String>> {
    let bindings = Api::<ClusterRoleBinding>::all(cluster.client.clone());
    let mut namespaces = Vec::new();
    for role in required_roles(installation) {
        let name = role.name;
        let binding = bindings.get_opt(&name).await;
        let binding = binding.with_context(|| format!("cannot read the ClusterRoleBinding {name}"))?;
        let subjects = binding.and_then(|binding| binding.subjects).unwrap_or_default();
        namespaces.extend(subjects.into_iter().filter_map(|subject| subject.namespace));
    }
    Ok(namespaces)
}

fn evaluate_installations(requested: Option<&str>, deployed: &[String], bound: &[String]) -> Finding {
    let requested = requested.unwrap_or(manager::NAMESPACE);
    let others = deployed.iter().chain(bound).filter(|namespace| *namespace != requested);
    let others: BTreeSet<_> = others.map(String::as_str).collect();
    if others.is_empty() {
        let message =
            if deployed.is_empty() { "none" } else { "one in this namespace, which would be upgraded" };
        return Finding::ok(INSTALLATIONS, message);
    }
    let others = Vec::from_iter(others).join(", ");
    Finding::error(
        INSTALLATIONS,
        format!("Ensemble is installed in {others}: CRDs, ClusterRoles, and webhooks are shared"),
        "remove that installation first, or select it for an upgrade with --manager-namespace",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    #[test]
    fn reports_foreign_webhooks_for_our_kinds() {
        let kinds = crate::kinds::all();
        let configuration = |name: &str, group: &str| (name.to_owned(), vec![group.to_owned()]);
        let unrelated =
            [configuration("ensemble-tenant", "capsule.clastix.io"), configuration("other", "apps")];
        assert_eq!(evaluate_webhooks(&unrelated, kinds).state, State::Ok);
        let capsule = configuration("capsule-dynamic-webhook", "capsule.clastix.io");
        let finding = evaluate_webhooks(&[capsule], kinds);
        assert!(
            finding.message.starts_with("capsule-dynamic-webhook reviews the kinds of Ensemble"),
            "{}",
            finding.message
        );
    }

    #[test]
    fn reports_installations_in_other_namespaces() {
        let (own, other) = ([manager::NAMESPACE.to_owned()], ["other".to_owned()]);
        assert_eq!(evaluate_installations(None, &own, &own).state, State::Ok);
        assert_eq!(evaluate_installations(None, &[], &[]).state, State::Ok);
        let finding = evaluate_installations(None, &other, &other);
        assert!(finding.message.starts_with("Ensemble is installed in other"), "{}", finding.message);
        assert_eq!(evaluate_installations(Some("other"), &other, &[]).state, State::Ok);
    }
}
