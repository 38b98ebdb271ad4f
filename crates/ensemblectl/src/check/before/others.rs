//! Who is here already: another controller for our kinds, or another manager.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    },
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, ResourceExt, api::ListParams};
use operator_core::admission::configuration;

use super::super::{Finding, roles};
use crate::{
    connect::Cluster,
    installation::Installation,
    kinds::{Kind, list},
};

/// The name of a webhook configuration, and the groups that it is about.
type Judge = (String, Vec<String>);

/// Webhooks of others that judge our kinds: Capsule's, where it runs.
pub(super) async fn webhooks(cluster: &Cluster, kinds: &[Kind]) -> Finding {
    match judges(cluster).await {
        Ok(judges) => foreign(&judges, kinds),
        Err(error) => Finding::unknown(WEBHOOKS, &error),
    }
}

const WEBHOOKS: &str = "webhooks of others";

async fn judges(cluster: &Cluster) -> Result<Vec<Judge>> {
    let validating = Api::<ValidatingWebhookConfiguration>::all(cluster.client.clone());
    let validating = list(&validating, &ListParams::default()).await;
    let mutating = Api::<MutatingWebhookConfiguration>::all(cluster.client.clone());
    let mutating = list(&mutating, &ListParams::default()).await;
    let validating = validating.context("cannot list the validating webhooks")?.into_iter().map(|one| {
        let rules = one.webhooks.iter().flatten().flat_map(|webhook| groups(webhook.rules.as_deref()));
        (one.name_any(), rules.collect())
    });
    let mutating = mutating.context("cannot list the mutating webhooks")?.into_iter().map(|one| {
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

/// Those that are not ours and are about our groups.
fn foreign(judges: &[Judge], kinds: &[Kind]) -> Finding {
    let is_ours = |name: &str| kinds.iter().any(|kind| configuration::name(kind.controller.name) == name);
    let is_about_us = |group: &String| kinds.iter().any(|kind| kind.definition.spec.group == *group);
    let foreign = judges.iter().filter(|(name, groups)| !is_ours(name) && groups.iter().any(is_about_us));
    let names: BTreeSet<_> = foreign.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Finding::ok(WEBHOOKS, "none judges our kinds");
    }
    let names = Vec::from_iter(names).join(", ");
    Finding::error(
        WEBHOOKS,
        format!("our kinds are judged by {names}: another controller looks after them, Capsule perhaps"),
        "stop that one first; for Capsule docs/tenants/coming-from-capsule.md says how",
    )
}

/// Another manager, by its Deployment or by whom our cluster roles are bound to.
pub(super) async fn installations(cluster: &Cluster, installation: &Installation) -> Finding {
    let deployed = installation.deployment.iter().filter_map(ResourceExt::namespace);
    let deployed: Vec<_> = deployed.chain(installation.others.iter().cloned()).collect();
    match bound(cluster, installation).await {
        Ok(bound) => elsewhere(cluster.place.manager_namespace.as_deref(), &deployed, &bound),
        Err(error) => Finding::unknown(INSTALLATIONS, &error),
    }
}

const INSTALLATIONS: &str = "other installations";

/// The namespaces of ServiceAccounts that have our cluster roles.
async fn bound(cluster: &Cluster, installation: &Installation) -> Result<Vec<String>> {
    let bindings = Api::<ClusterRoleBinding>::all(cluster.client.clone());
    let mut namespaces = Vec::new();
    for part in roles::parts(installation) {
        let name = part.role;
        let binding = bindings.get_opt(&name).await;
        let binding = binding.with_context(|| format!("cannot read the ClusterRoleBinding {name}"))?;
        let subjects = binding.and_then(|binding| binding.subjects).unwrap_or_default();
        namespaces.extend(subjects.into_iter().filter_map(|subject| subject.namespace));
    }
    Ok(namespaces)
}

fn elsewhere(wanted: Option<&str>, deployed: &[String], bound: &[String]) -> Finding {
    let wanted = wanted.unwrap_or(manager::NAMESPACE);
    let others = deployed.iter().chain(bound).filter(|namespace| *namespace != wanted);
    let others: BTreeSet<_> = others.map(String::as_str).collect();
    if others.is_empty() {
        let message = if deployed.is_empty() { "none" } else { "one here, which would be upgraded" };
        return Finding::ok(INSTALLATIONS, message);
    }
    let others = Vec::from_iter(others).join(", ");
    Finding::error(
        INSTALLATIONS,
        format!("there is one in {others} already: definitions, cluster roles and webhooks are shared"),
        "remove that one first, or upgrade it where it is with --manager-namespace",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::finding::State;

    #[test]
    fn a_webhook_of_others_about_our_kinds_is_named() {
        let kinds = crate::kinds::all();
        let one = |name: &str, group: &str| (name.to_owned(), vec![group.to_owned()]);
        let harmless = [one("ensemble-tenant", "capsule.clastix.io"), one("others", "apps")];
        assert_eq!(foreign(&harmless, kinds).state, State::Ok);
        let told = foreign(&[one("capsule-dynamic-webhook", "capsule.clastix.io")], kinds);
        assert!(
            told.message.starts_with("our kinds are judged by capsule-dynamic-webhook:"),
            "{}",
            told.message
        );
    }

    #[test]
    fn an_installation_elsewhere_is_named_and_one_here_is_fine() {
        let here = [manager::NAMESPACE.to_owned()];
        assert_eq!(elsewhere(None, &here, &here).state, State::Ok);
        assert_eq!(elsewhere(None, &[], &[]).state, State::Ok);
        let told = elsewhere(None, &["other".to_owned()], &["other".to_owned()]);
        assert!(told.message.starts_with("there is one in other already"), "{}", told.message);
        assert_eq!(elsewhere(Some("other"), &["other".to_owned()], &[]).state, State::Ok);
    }
}
