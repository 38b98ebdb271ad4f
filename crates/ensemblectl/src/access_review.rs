//! Access reviews: which permissions a user or ServiceAccount lacks.

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

/// Number of concurrent access reviews.
const CONCURRENCY: usize = 16;

/// User or ServiceAccount of an access review.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// The user of the kubeconfig.
    CurrentUser,
    /// The ServiceAccount with this namespace and name.
    ServiceAccount(String, String),
}

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    verb: String,
    group: String,
    resource: String,
    /// Name of the object. `None` for all objects.
    name: Option<String>,
    /// Namespace. `None` for the whole cluster.
    namespace: Option<String>,
}

/// Returns the permissions that rules grant in each namespace, or cluster-wide without namespaces.
pub(crate) fn permissions(rules: &[Rule], namespaces: &[String]) -> Vec<Permission> {
    let scopes: Vec<_> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() };
    let permissions_in = |namespace: &Option<String>| {
        rules
            .iter()
            .cloned()
            .flat_map(|rule| policy_permissions(&rule.into_policy(), namespace.as_ref()))
            .collect::<Vec<_>>()
    };
    scopes.iter().flat_map(permissions_in).collect()
}

fn policy_permissions(policy: &PolicyRule, namespace: Option<&String>) -> Vec<Permission> {
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
                all.push(Permission {
                    verb,
                    group,
                    resource,
                    name: name.clone(),
                    namespace: namespace.cloned(),
                });
            }
        }
    }
    all
}

/// Returns the permissions that the subject lacks.
///
/// # Errors
/// Returns an error if an access review fails.
pub(crate) async fn missing_permissions(
    client: &Client,
    subject: &Subject,
    permissions: Vec<Permission>,
) -> kube::Result<Vec<Permission>> {
    let reviews = permissions.into_iter().map(|permission| async move {
        let is_allowed = is_allowed(client, subject, &permission).await?;
        Ok::<_, kube::Error>((!is_allowed).then_some(permission))
    });
    stream::iter(reviews)
        .buffered(CONCURRENCY)
        .try_filter_map(|missing| async { Ok(missing) })
        .try_collect()
        .await
}

async fn is_allowed(client: &Client, subject: &Subject, permission: &Permission) -> kube::Result<bool> {
    let attributes = Some(permission.attributes());
    let params = PostParams::default();
    let status = match subject {
        Subject::CurrentUser => {
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: attributes,
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?.status
        }
        Subject::ServiceAccount(namespace, name) => {
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

impl Permission {
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

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object())
    }
}

impl Permission {
    /// Returns the resource in the notation of kubectl, with name and namespace.
    fn object(&self) -> String {
        let Self { group, resource, name, namespace, .. } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let (plural, subresource) = match resource.split_once('/') {
            Some((plural, subresource)) => (plural, format!("/{subresource}")),
            None => (resource.as_str(), String::new()),
        };
        let name = name.as_ref().map(|name| format!(" named {name}")).unwrap_or_default();
        let scope = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        format!("{plural}{group}{subresource}{name}{scope}")
    }
}

/// Lists permissions grouped by resource. Only the first three resources are listed.
pub(crate) fn summarize(permissions: &[Permission]) -> String {
    const LIMIT: usize = 3;
    let mut objects: Vec<(String, Vec<&str>)> = Vec::new();
    for permission in permissions {
        let object = permission.object();
        match objects.iter_mut().find(|(other, _)| *other == object) {
            Some((_, verbs)) => verbs.push(&permission.verb),
            None => objects.push((object, vec![&permission.verb])),
        }
    }
    let listed = objects.iter().take(LIMIT).map(|(object, verbs)| format!("{} {object}", verbs.join("/")));
    let listed = listed.collect::<Vec<_>>().join(", ");
    match objects.len().saturating_sub(LIMIT) {
        0 => listed,
        more => format!("{listed}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Pod, rbac::v1::ClusterRole};
    use operator_core::rbac::{BIND, LIST, UPDATE, WATCH, rule};

    use super::*;

    #[test]
    fn expands_rules_into_verbs_names_and_namespaces() {
        let rules = [rule::<Pod>(LIST | WATCH), rule::<ClusterRole>(BIND).named(["admin", "view"])];
        let cluster_wide: Vec<_> = permissions(&rules, &[]).iter().map(Permission::to_string).collect();
        let bind = |name: &str| format!("bind clusterroles.rbac.authorization.k8s.io named {name}");
        assert_eq!(
            cluster_wide,
            ["list pods".to_owned(), "watch pods".to_owned(), bind("admin"), bind("view")]
        );
        let namespaced =
            permissions(&[rule::<Pod>(UPDATE).subresource("status")], &["a".to_owned(), "b".to_owned()]);
        assert_eq!(summarize(&namespaced), "update pods/status in a, update pods/status in b");
        let attributes = namespaced[0].attributes();
        assert_eq!(
            (attributes.resource.as_deref(), attributes.subresource.as_deref()),
            (Some("pods"), Some("status"))
        );
        assert_eq!(attributes.namespace.as_deref(), Some("a"));
    }

    #[test]
    fn summary_groups_verbs_and_limits_resources() {
        let namespaces = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let many = permissions(&[rule::<Pod>(LIST | WATCH)], &namespaces);
        assert_eq!(
            summarize(&many),
            "list/watch pods in a, list/watch pods in b, list/watch pods in c, and 2 more"
        );
    }
}
