//! What the status says about volumes of former clusters.

use operator_core::conditions::NewCondition;

use super::Observation;
use crate::{
    api::{FormerVolumes, PostgresCluster},
    build::member_name,
    condition_types::VOLUMES_RETAINED,
    decide::adoption::AdoptionProblem,
    membership::Serial,
    reasons,
};

/// True if volumes of former clusters of the name exist that no member uses.
pub(super) fn volumes_retained(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    if let Some(problem) = observed.adoption_problem {
        let message = describe(cluster, problem);
        return NewCondition::is_true(VOLUMES_RETAINED, reasons::VOLUME_CONFLICT, message);
    }
    if !observed.retained.is_empty() {
        let message = format!(
            "the PersistentVolumeClaims {} of a former cluster of this name are not used; delete them if you do not need their data",
            names(cluster, observed.retained)
        );
        return NewCondition::is_true(VOLUMES_RETAINED, reasons::RETAINED, message);
    }
    match &observed.membership.adoption {
        Some(adoption) => {
            let message = format!(
                "the members use the volumes of the PostgresCluster with the UID {}",
                adoption.cluster_uid
            );
            NewCondition::is_false(VOLUMES_RETAINED, reasons::ADOPTED, message)
        }
        None => NewCondition::is_false(
            VOLUMES_RETAINED,
            reasons::NONE,
            "no former cluster of this name has left volumes",
        ),
    }
}

/// Describes why volumes are not adopted, and what a person can do.
pub(super) fn describe(cluster: &PostgresCluster, problem: &AdoptionProblem) -> String {
    let fresh = format!(
        "or create the PostgresCluster again with spec.bootstrap.volumes: {:?}",
        FormerVolumes::Fresh
    );
    match problem {
        AdoptionProblem::SeveralDatabases(groups) => {
            let groups: Vec<_> = groups.iter().map(|serials| names(cluster, serials)).collect();
            format!(
                "the PersistentVolumeClaims of several databases exist ({}), and none of them is touched; delete those that you do not need, {fresh}",
                groups.join("; ")
            )
        }
        AdoptionProblem::UnknownMembers(serials) => format!(
            "the PersistentVolumeClaims {} do not say which members their cluster had, and are not touched; list them in the annotation lukeb0nd.com/members of one of the claims, {fresh}",
            names(cluster, serials)
        ),
        AdoptionProblem::NoMembers(serials) => format!(
            "the PersistentVolumeClaims {} are of members that had left their cluster, and those of its last members are missing; restore one of these, {fresh}",
            names(cluster, serials)
        ),
        AdoptionProblem::Recovery(serials) => format!(
            "the PersistentVolumeClaims {} of a former cluster of this name exist, and spec.bootstrap.recovery is set; none of them is touched; delete those that you do not need, {fresh}",
            names(cluster, serials)
        ),
        AdoptionProblem::Terminating(serials) => format!(
            "the PersistentVolumeClaims {} of a former cluster are being deleted; wait until they are gone, {fresh}",
            names(cluster, serials)
        ),
    }
}

fn names(cluster: &PostgresCluster, serials: &[Serial]) -> String {
    serials.iter().map(|serial| member_name(cluster, *serial)).collect::<Vec<_>>().join(", ")
}
