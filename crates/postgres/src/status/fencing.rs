//! What the condition Available says about members that a person has fenced, or hibernated.

use operator_core::conditions::NewCondition;

use super::Observation;
use crate::{api::PostgresCluster, build::FENCE, fence::fence};

/// Describes a primary that is fenced.
pub(super) fn describe(primary: &str) -> String {
    format!(
        "the primary {primary} is fenced: it takes no writes, and no member takes its place; remove it from the annotation {FENCE} to let it continue"
    )
}

/// Describes a cluster whose members are stopped.
pub(super) fn describe_hibernation(observed: &Observation<'_>) -> String {
    let left = observed.pods.len();
    let stopping = if left > 0 { format!("; {left} Pods are left") } else { String::new() };
    format!("spec.hibernated is true: the members are stopped, and their volumes stay{stopping}")
}

/// Adds which other members are fenced, and which names of the annotation belong to no member.
pub(super) fn with_remarks(
    cluster: &PostgresCluster,
    observed: &Observation<'_>,
    mut condition: NewCondition,
) -> NewCondition {
    if cluster.spec.hibernated {
        return condition;
    }
    let membership = observed.membership;
    let members: Vec<_> = membership.members.iter().map(|member| membership.name_of(member.serial)).collect();
    let fence = fence(cluster);
    let is_primary = |name: &String| membership.failover.current.as_ref() == Some(name);
    let fenced = members.iter().filter(|name| fence.contains(name) && !is_primary(name));
    let fenced: Vec<_> = fenced.map(String::as_str).collect();
    let unknown = fence.unknown(&members);
    let remarks = [
        (!fenced.is_empty()).then(|| format!("fenced: {}", fenced.join(", "))),
        (!unknown.is_empty())
            .then(|| format!("the annotation {FENCE} lists {}, which is no member", unknown.join(", "))),
    ];
    let message = [Some(condition.message)].into_iter().chain(remarks).flatten();
    condition.message = message.collect::<Vec<_>>().join("; ");
    condition
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use operator_core::conditions::find;
    use serde_json::json;

    use super::super::tests::status_of;
    use crate::{
        api::{Phase, fixture::cluster},
        condition_types::AVAILABLE,
    };

    #[test]
    fn hibernated_cluster_takes_no_writes() {
        let cluster = cluster(&json!({"size": 2, "hibernated": true}));
        let status = status_of(&cluster, &[1, 2]);
        for type_ in [AVAILABLE, "Ready"] {
            let found = find(&status.conditions, type_).unwrap();
            assert_eq!((found.status.as_str(), found.reason.as_str()), ("False", "Hibernated"), "{type_}");
            let expected =
                "spec.hibernated is true: the members are stopped, and their volumes stay; 2 Pods are left";
            assert_eq!(found.message, expected);
        }
        assert_eq!(status.phase, Phase::Running, "as long as there are Pods");
    }

    #[test]
    fn fence_is_explained() {
        let primary = "the primary db-1 is fenced: it takes no writes, and no member takes its place; remove it from the annotation lukeb0nd.com/fence to let it continue";
        for (annotation, expected) in [
            ("db-2", ("True", "AsSpecified", "db-1 takes writes; fenced: db-2".to_owned())),
            ("db-1", ("False", "Fenced", primary.to_owned())),
            ("*", ("False", "Fenced", format!("{primary}; fenced: db-2"))),
            (
                "db-9, x",
                (
                    "True",
                    "AsSpecified",
                    "db-1 takes writes; the annotation lukeb0nd.com/fence lists db-9, x, which is no member"
                        .to_owned(),
                ),
            ),
        ] {
            let mut cluster = cluster(&json!({"size": 2}));
            cluster.annotations_mut().insert(super::FENCE.to_owned(), annotation.to_owned());
            let status = status_of(&cluster, &[1, 2]);
            let found = find(&status.conditions, AVAILABLE).unwrap();
            let found = (found.status.as_str(), found.reason.as_str(), found.message.clone());
            assert_eq!(found, expected, "{annotation}");
        }
    }
}
