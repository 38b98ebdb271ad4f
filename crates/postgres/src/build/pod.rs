//! The Pod of a member.

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec,
    SeccompProfile, Volume,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::owner::Owner;

use super::{
    REVISION_LABEL, ROLE_LABEL, archive, container, member_labels, member_name, queries, revision::revision,
    scheduling, service::Access,
};
use crate::{
    api::{PostgresCluster, Role},
    membership::Serial,
};

/// Volume with the database.
pub(super) const DATA: &str = "data";
/// Volume with the instance manager.
pub(super) const PROGRAM: &str = "program";
/// Volume with the socket of PostgreSQL.
pub(super) const RUN: &str = "run";
/// Volume for temporary files.
pub(super) const SCRATCH: &str = "scratch";
/// Volume with the programs of the former major version.
pub(super) const PREVIOUS: &str = "previous";
/// How long PostgreSQL has for a clean stop, and how much longer the kubelet waits.
const STOP_SECONDS: i64 = 120;
const STOP_MARGIN_SECONDS: i64 = 30;

/// Images of a Pod.
pub(crate) struct MemberImages<'a> {
    /// Image of PostgreSQL.
    pub(crate) postgres: &'a str,
    /// User of PostgreSQL in its image.
    pub(crate) user: i64,
    /// Image with the instance manager.
    pub(crate) instance: &'a str,
    /// Image with the programs of the former major version, for an upgrade of the data.
    pub(crate) previous: Option<&'a str>,
}

/// Returns the Pod of a member. It starts as a replica; the controller changes its role.
pub(crate) fn new(
    cluster: &PostgresCluster,
    owner: &Owner,
    serial: Serial,
    images: &MemberImages<'_>,
) -> Pod {
    let mut labels = member_labels(cluster, serial);
    labels.insert(REVISION_LABEL.to_owned(), revision(cluster, images.postgres));
    labels.insert(ROLE_LABEL.to_owned(), Role::Replica.as_str().to_owned());
    let mut metadata = ObjectMeta {
        name: Some(member_name(cluster, serial)),
        namespace: cluster.namespace(),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    owner.set_on(&mut metadata);
    Pod { metadata, spec: Some(spec(cluster, serial, images)), status: None }
}

fn spec(cluster: &PostgresCluster, serial: Serial, images: &MemberImages<'_>) -> PodSpec {
    let mut pod = PodSpec {
        hostname: Some(member_name(cluster, serial)),
        subdomain: Some(Access::Pods.name(cluster)),
        service_account_name: Some(cluster.name_any()),
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        restart_policy: Some("Always".to_owned()),
        termination_grace_period_seconds: Some(STOP_SECONDS + STOP_MARGIN_SECONDS),
        security_context: Some(security_context(images.user)),
        init_containers: Some(
            [container::installer(images)].into_iter().chain(container::previous(images)).collect(),
        ),
        containers: vec![container::postgres(cluster, images)],
        volumes: Some(volumes(cluster, serial, images)),
        ..PodSpec::default()
    };
    scheduling::set(cluster, &mut pod);
    pod
}

/// Returns the security context. The group of the volume changes only if it is not the user's.
fn security_context(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_user: Some(user),
        run_as_group: Some(user),
        run_as_non_root: Some(true),
        fs_group: Some(user),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

fn volumes(cluster: &PostgresCluster, serial: Serial, images: &MemberImages<'_>) -> Vec<Volume> {
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: member_name(cluster, serial),
        ..PersistentVolumeClaimVolumeSource::default()
    };
    let data = Volume { name: DATA.to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() };
    let empty = |name: &str| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let secrets = container::SECRETS.map(|purpose| purpose.volume(cluster));
    [data, empty(PROGRAM), empty(RUN), empty(SCRATCH)]
        .into_iter()
        .chain(secrets)
        .chain(archive::volumes(cluster))
        .chain(queries::volume(cluster))
        .chain(images.previous.map(|_| empty(PREVIOUS)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    fn pod(spec: &serde_json::Value) -> Pod {
        let cluster = cluster(spec);
        let owner = Owner::controller(&cluster, Some("shop")).unwrap();
        let images =
            MemberImages { postgres: "postgres:18.6", user: 999, instance: "ensemble:0.1.0", previous: None };
        new(&cluster, &owner, 2, &images)
    }

    #[test]
    fn pod_runs_the_instance_manager_on_its_volume() {
        insta::assert_yaml_snapshot!(pod(&json!({})));
    }

    #[test]
    fn queries_are_mounted_if_the_spec_names_a_config_map() {
        let spec = pod(&json!({"monitoring": {"queriesConfigMap": "orders"}})).spec.unwrap();
        let volume = spec.volumes.unwrap().pop().unwrap();
        let source = volume.config_map.unwrap();
        assert_eq!(
            (volume.name.as_str(), source.name.as_str(), source.optional),
            ("queries", "orders", Some(true))
        );
        let mount = spec.containers[0].volume_mounts.as_ref().unwrap().last().unwrap();
        assert_eq!((mount.name.as_str(), mount.read_only), ("queries", Some(true)));
    }

    #[test]
    fn pod_is_scheduled_as_the_spec_says() {
        let pod = pod(&json!({
            "antiAffinity": true,
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "database", "operator": "Exists"}],
            "priorityClassName": "high",
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
            ],
        }));
        let spec = pod.spec.unwrap();
        insta::assert_yaml_snapshot!((
            spec.affinity,
            spec.node_selector,
            spec.tolerations,
            spec.priority_class_name,
            spec.topology_spread_constraints,
        ));
    }
}
