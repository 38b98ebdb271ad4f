//! What somebody may do, one right at a time, as the API server judges it.

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
        SubjectAccessReviewSpec, SubjectAccessReviewStatus,
    },
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use operator_core::rbac::Rule;

/// How many questions are asked at once.
const AT_ONCE: usize = 16;

/// Somebody whose rights are asked about.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    /// The person who asks.
    Me,
    /// The ServiceAccount of this namespace and name.
    Account(String, String),
}

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    verb: String,
    group: String,
    resource: String,
    /// The object, where it is about one only.
    name: Option<String>,
    /// The namespace, where it is about one only.
    namespace: Option<String>,
}

/// The rights that rules are made of: in the cluster, or in each of these namespaces.
pub(crate) fn rights(rules: &[Rule], namespaces: &[String]) -> Vec<Right> {
    let places: Vec<_> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() };
    let each = |namespace: &Option<String>| {
        rules.iter().cloned().flat_map(|rule| of(&rule.into_policy(), namespace.as_ref())).collect::<Vec<_>>()
    };
    places.iter().flat_map(each).collect()
}

fn of(policy: &PolicyRule, namespace: Option<&String>) -> Vec<Right> {
    let names: Vec<_> = match policy.resource_names.as_deref().unwrap_or_default() {
        [] => vec![None],
        names => names.iter().cloned().map(Some).collect(),
    };
    let mut all = Vec::new();
    for group in policy.api_groups.iter().flatten() {
        for resource in policy.resources.iter().flatten() {
            for (verb, name) in
                policy.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, name)))
            {
                let (verb, group, resource) = (verb.clone(), group.clone(), resource.clone());
                all.push(Right { verb, group, resource, name: name.clone(), namespace: namespace.cloned() });
            }
        }
    }
    all
}

/// Those that they do not have.
///
/// # Errors
/// When the API server does not say.
pub(crate) async fn missing(client: &Client, who: &Who, rights: Vec<Right>) -> kube::Result<Vec<Right>> {
    let asked = rights.into_iter().map(|right| async move {
        let has = may(client, who, &right).await?;
        Ok::<_, kube::Error>((!has).then_some(right))
    });
    stream::iter(asked).buffered(AT_ONCE).try_filter_map(|lacking| async { Ok(lacking) }).try_collect().await
}

async fn may(client: &Client, who: &Who, right: &Right) -> kube::Result<bool> {
    let attributes = Some(right.attributes());
    let params = PostParams::default();
    let status = match who {
        Who::Me => {
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: attributes,
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status
        }
        Who::Account(namespace, name) => {
            let groups = [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ];
            let spec = SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(groups.into()),
                resource_attributes: attributes,
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status
        }
    };
    Ok(status.is_some_and(|SubjectAccessReviewStatus { allowed, .. }| allowed))
}

impl Right {
    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource.as_str(), None),
        };
        ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            ..ResourceAttributes::default()
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object())
    }
}

impl Right {
    /// What it is about, as kubectl names it.
    fn object(&self) -> String {
        let Self { group, resource, name, namespace, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let (plural, subresource) = match resource.split_once('/') {
            Some((plural, subresource)) => (plural, format!("/{subresource}")),
            None => (resource.as_str(), String::new()),
        };
        let name = name.as_ref().map(|name| format!(" named {name}")).unwrap_or_default();
        let place = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        format!("{plural}{group}{subresource}{name}{place}")
    }
}

/// Some of them in words, the verbs on one object together; the first few say enough.
pub(crate) fn some(rights: &[Right]) -> String {
    const FEW: usize = 3;
    let mut objects: Vec<(String, Vec<&str>)> = Vec::new();
    for right in rights {
        let object = right.object();
        match objects.iter_mut().find(|(known, _)| *known == object) {
            Some((_, verbs)) => verbs.push(&right.verb),
            None => objects.push((object, vec![&right.verb])),
        }
    }
    let told = objects.iter().take(FEW).map(|(object, verbs)| format!("{} {object}", verbs.join("/")));
    let told = told.collect::<Vec<_>>().join(", ");
    match objects.len().saturating_sub(FEW) {
        0 => told,
        more => format!("{told} and what is done to {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Pod, rbac::v1::ClusterRole};
    use operator_core::rbac::{BIND, LIST, UPDATE, WATCH, rule};

    use super::*;

    #[test]
    fn a_rule_is_taken_apart_into_verbs_names_and_namespaces() {
        let rules = [rule::<Pod>(LIST | WATCH), rule::<ClusterRole>(BIND).named(["admin", "view"])];
        let told: Vec<_> = rights(&rules, &[]).iter().map(Right::to_string).collect();
        let bind = |name: &str| format!("bind clusterroles.rbac.authorization.k8s.io named {name}");
        assert_eq!(told, ["list pods".to_owned(), "watch pods".to_owned(), bind("admin"), bind("view")]);
        let there = rights(&[rule::<Pod>(UPDATE).subresource("status")], &["a".to_owned(), "b".to_owned()]);
        assert_eq!(some(&there), "update pods/status in a, update pods/status in b");
        let attributes = there[0].attributes();
        assert_eq!(
            (attributes.resource.as_deref(), attributes.subresource.as_deref()),
            (Some("pods"), Some("status"))
        );
        assert_eq!(attributes.namespace.as_deref(), Some("a"));
    }

    #[test]
    fn verbs_are_told_together_and_many_objects_not_all() {
        let namespaces = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let many = rights(&[rule::<Pod>(LIST | WATCH)], &namespaces);
        assert_eq!(
            some(&many),
            "list/watch pods in a, list/watch pods in b, list/watch pods in c and what is done to 2 more"
        );
    }
}
