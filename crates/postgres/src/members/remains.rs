//! What is left of a cluster that is being deleted, and its deletion.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    kind::{Kind, is_deleting, uid},
    owner::controller_of,
    pod::PodView,
    write::WriteError,
    writer::DeletePrecondition,
};

use super::{MemberObjects, delete};
use crate::{
    api::PostgresCluster,
    build::{CLUSTER_LABEL, member_name, serial_of, volume},
    children::key,
    decide::deletion::{Object, Remains},
    membership::{Membership, Serial},
};

impl MemberObjects {
    /// Returns what is left of a cluster.
    pub(crate) fn remains(&self, cluster: &PostgresCluster) -> Remains {
        let pods: BTreeMap<_, _> =
            self.owned_pods(cluster).map(|(serial, pod)| (serial, object(pod.as_ref()))).collect();
        let volumes = self.own_volumes(cluster);
        let pod = |serial: Serial| self.pods.get(&key(cluster, &member_name(cluster, serial)));
        let foreign_pods = volumes.keys().copied().filter(|serial| !pods.contains_key(serial));
        let foreign_pods: BTreeMap<_, _> =
            foreign_pods.filter_map(|serial| Some((serial, pod(serial)?))).collect();
        Remains {
            primary: last(&Membership::of(cluster)),
            pods,
            has_orphans: foreign_pods.values().any(|pod| is_orphan(cluster, pod)),
            foreign_pods: foreign_pods.into_keys().collect(),
            volumes,
        }
    }

    /// Returns the volumes that were created for a cluster, and for no other of its name.
    fn own_volumes(&self, cluster: &PostgresCluster) -> BTreeMap<Serial, Object> {
        let name = cluster.name_any();
        let is_own = |volume: &PersistentVolumeClaim| {
            volume.labels().get(CLUSTER_LABEL) == Some(&name) && volume::is_of(volume, cluster)
        };
        let volumes = self.volumes_by_cluster.get(&ObjectKey::of(cluster));
        volumes
            .iter()
            .filter(|volume| is_own(volume))
            .filter_map(|volume| Some((serial_of(&name, &volume.name_any())?, object(volume.as_ref()))))
            .collect()
    }

    /// Deletes a Pod by its UID.
    pub(super) async fn delete_pod(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        uid: &str,
        precondition: DeletePrecondition,
    ) -> Result<(), WriteError> {
        let key = key(cluster, &member_name(cluster, serial));
        delete(&self.pods, &key, uid, precondition).await
    }

    /// Deletes a volume by its UID, if nobody has changed it: its annotations say whose it is.
    pub(super) async fn delete_volume(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        uid: &str,
    ) -> Result<(), WriteError> {
        let key = key(cluster, &member_name(cluster, serial));
        delete(&self.volumes, &key, uid, DeletePrecondition::ResourceVersion).await
    }
}

/// Returns whether a Pod was one of a member, and has no owner any more.
fn is_orphan(cluster: &PostgresCluster, pod: &PodView) -> bool {
    let is_of = pod.labels().get(CLUSTER_LABEL) == Some(cluster.name_any().as_str());
    is_of && controller_of(&pod.metadata).is_none()
}

/// Returns the member that stops last.
fn last(membership: &Membership) -> Option<Serial> {
    let failover = &membership.failover;
    let primary = failover.current.as_ref().or(failover.target.as_ref());
    membership.members.iter().map(|member| member.serial).find(|serial| membership.is(*serial, primary))
}

fn object<K: Kind>(object: &K) -> Object {
    Object { uid: uid(object), is_terminating: is_deleting(object) }
}
