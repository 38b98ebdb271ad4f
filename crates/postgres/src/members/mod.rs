//! Pods and volumes of the members.

mod record;
mod remains;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{Resource, ResourceExt, api::Patch};
use operator_core::{
    ControllerBuilder, ObjectKey,
    builder::controllers_of,
    informer::{Change, Index, Selection},
    kind::{Kind, describe, is_deleting, uid},
    owner::{Owner, controller_of, describe_controller, refers_to},
    pod::PodView,
    write::WriteError,
    writer::{DeletePrecondition, Writer},
};
use serde_json::json;

use crate::{
    api::{PostgresCluster, Role},
    build::{
        CLUSTER_LABEL, FORCE_PROMOTE, REVISION_LABEL, ROLE_LABEL, SWITCHOVER, member_name,
        pod::{self, MemberImages},
        secret::member_host,
        serial_of, volume,
    },
    children::key,
    claims,
    decide::{Action, Decision, MemberPod, Volume},
    error::Error,
    live_owner::LiveOwner,
    membership::Serial,
    record::VolumeRecord,
    reports::Source,
};

/// What the status reports about the Pod of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberState {
    pub(crate) is_ready: bool,
    pub(crate) node: String,
    /// Empty until it has one.
    pub(crate) address: String,
}

/// Reads and writes the Pods and volumes of all clusters.
pub(crate) struct MemberObjects {
    pods: Writer<PodView>,
    pods_by_owner: Index<PodView, String>,
    clusters: Writer<PostgresCluster>,
    volumes: Writer<PersistentVolumeClaim>,
    volumes_by_cluster: Index<PersistentVolumeClaim, ObjectKey>,
}

impl MemberObjects {
    /// Starts the informers. A cluster is reconciled when one of its Pods or volumes changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, PostgresCluster>) -> Self {
        let pods = builder.packed_informer::<PodView>(Selection::All);
        builder.watches(&pods, controllers_of::<PodView, PostgresCluster>);
        let pods_by_owner = pods.store().index(|pod: &PodView| {
            let owner = controller_of(&pod.metadata).filter(|owner| refers_to::<PostgresCluster>(owner));
            owner.map(|owner| owner.uid.clone()).into_iter().collect()
        });
        let volumes = builder.json_informer::<PersistentVolumeClaim>(Selection::All);
        builder.watches(&volumes, |change: &Change<PersistentVolumeClaim>| {
            change.states().filter_map(|volume| cluster_of(volume)).collect()
        });
        let volumes_by_cluster =
            volumes.store().index(|volume: &PersistentVolumeClaim| cluster_of(volume).into_iter().collect());
        Self {
            pods: builder.writer(pods),
            pods_by_owner,
            clusters: builder.writer(builder.objects().clone()),
            volumes: builder.writer(volumes),
            volumes_by_cluster,
        }
    }

    /// Returns the Pods that the cluster owns.
    fn owned_pods(&self, cluster: &PostgresCluster) -> impl Iterator<Item = (Serial, Arc<PodView>)> {
        let name = cluster.name_any();
        let pods = self.pods_by_owner.get(&uid(cluster));
        pods.into_iter().filter_map(move |pod| Some((serial_of(&name, &pod.name_any())?, pod)))
    }

    /// Returns the Pods of the members, as decisions see them.
    pub(crate) fn pods(&self, cluster: &PostgresCluster) -> BTreeMap<Serial, MemberPod> {
        self.owned_pods(cluster).map(|(serial, pod)| (serial, member_pod(&pod))).collect()
    }

    /// Returns the Pods of the members, as the status reports them.
    pub(crate) fn states(&self, cluster: &PostgresCluster) -> Vec<(Serial, MemberState)> {
        let state = |pod: &PodView| MemberState {
            is_ready: pod.is_ready() && !pod.is_terminating(),
            node: pod.node.clone(),
            address: pod.ip.clone(),
        };
        self.owned_pods(cluster).map(|(serial, pod)| (serial, state(&pod))).collect()
    }

    /// Returns where the members report.
    pub(crate) fn sources(&self, cluster: &PostgresCluster) -> BTreeMap<Serial, Source> {
        let source = |pod: &PodView| {
            let host = member_host(cluster, &pod.name_any());
            let address = pod.ip.parse().ok().filter(|_| !pod.is_finished())?;
            Some(Source { pod_uid: uid(pod), address, host })
        };
        self.owned_pods(cluster).filter_map(|(serial, pod)| Some((serial, source(&pod)?))).collect()
    }

    /// Returns the volumes with names of members, whoever they were created for.
    pub(crate) fn volumes(&self, cluster: &PostgresCluster) -> BTreeMap<Serial, Volume> {
        let name = cluster.name_any();
        let volumes = self.volumes_by_cluster.get(&ObjectKey::of(cluster));
        let view = |volume: &PersistentVolumeClaim| Volume {
            uid: uid(volume),
            is_ours: volume::is_of(volume, cluster),
            is_terminating: is_deleting(volume),
            size: claims::size(volume),
            record: VolumeRecord::read(volume, &name),
        };
        volumes
            .iter()
            .filter_map(|volume| Some((serial_of(&name, &volume.name_any())?, view(volume))))
            .collect()
    }

    /// Returns the reader and writer of clusters.
    pub(crate) fn clusters(&self) -> &Writer<PostgresCluster> {
        &self.clusters
    }

    /// Reads a cluster from the API server. Returns `None` if it no longer exists.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub(crate) async fn read_cluster(
        &self,
        cluster: &PostgresCluster,
    ) -> Result<Option<PostgresCluster>, WriteError> {
        let latest = self.clusters.read(&ObjectKey::of(cluster)).await?;
        Ok(latest.filter(|latest| latest.metadata.uid == cluster.metadata.uid))
    }

    /// Performs an action of a decision. What exists or is gone already counts as done. Without images,
    /// no Pod is created.
    ///
    /// # Errors
    /// Returns an error if the API server denies the write or cannot be reached, or if something is to be
    /// created for a deleted cluster.
    pub(crate) async fn perform(
        &self,
        owner: &LiveOwner<'_>,
        images: Option<&MemberImages<'_>>,
        decision: &Decision,
        action: &Action,
    ) -> Result<(), Error> {
        if matches!(action, Action::CreateVolume(_) | Action::CreatePod(_)) {
            owner.confirm().await?;
        }
        self.write(owner, images, decision, action).await.map_err(Error::from_write)
    }

    async fn write(
        &self,
        owner: &LiveOwner<'_>,
        images: Option<&MemberImages<'_>>,
        decision: &Decision,
        action: &Action,
    ) -> Result<(), WriteError> {
        let LiveOwner { cluster, owner, .. } = owner;
        match action {
            Action::CreateVolume(serial) => {
                self.create_volume(cluster, *serial, &decision.record.with_member(*serial)).await
            }
            Action::Record(serial, uid) => {
                self.record(cluster, *serial, uid, &decision.record_of(*serial)).await
            }
            Action::CreatePod(serial) => match images {
                Some(images) => self.create_pod(cluster, owner, *serial, images).await,
                None => Ok(()),
            },
            Action::DeletePod(serial, uid) => {
                self.delete_pod(cluster, *serial, uid, DeletePrecondition::Uid).await
            }
            Action::DeleteVolume(serial, uid) => self.delete_volume(cluster, *serial, uid).await,
            Action::GrowVolume(serial, uid) => self.grow_volume(cluster, *serial, uid).await,
            Action::SetRole(serial, uid, role) => self.set_role(cluster, *serial, uid, *role).await,
            Action::ForgetSwitchover(request) => self.forget(cluster, SWITCHOVER, request).await,
            Action::ForgetForced(request) => self.forget(cluster, FORCE_PROMOTE, request).await,
            // Sent to the member, not to the API server.
            Action::Seal(..) => Ok(()),
        }
    }

    /// Performs an action of a deletion, which creates nothing.
    ///
    /// # Errors
    /// Returns an error if the API server denies the write or cannot be reached.
    pub(crate) async fn delete(&self, cluster: &PostgresCluster, action: &Action) -> Result<(), WriteError> {
        match action {
            // A Pod that has become an orphan has another version.
            Action::DeletePod(serial, uid) => {
                self.delete_pod(cluster, *serial, uid, DeletePrecondition::ResourceVersion).await
            }
            Action::DeleteVolume(serial, uid) => self.delete_volume(cluster, *serial, uid).await,
            _ => Ok(()),
        }
    }

    /// Removes an annotation with a request, unless there is another one by now.
    async fn forget(
        &self,
        cluster: &PostgresCluster,
        annotation: &str,
        request: &str,
    ) -> Result<(), WriteError> {
        let key = ObjectKey::of(cluster);
        let latest = self.clusters.get(&key).filter(|latest| latest.metadata.uid == cluster.metadata.uid);
        let Some(latest) =
            latest.filter(|it| it.annotations().get(annotation).is_some_and(|it| it == request))
        else {
            return Ok(());
        };
        let metadata = json!({
            "uid": latest.metadata.uid,
            "resourceVersion": latest.metadata.resource_version,
            "annotations": { annotation: null },
        });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.clusters.patch(&key, &patch, "remove a request that was acted on from").await {
            // The cache is behind: the next reconcile sees why.
            Err(error) if error.is_stale_cache() => Ok(()),
            result => result,
        }
    }

    async fn create_volume(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        record: &VolumeRecord,
    ) -> Result<(), WriteError> {
        let volume = volume::new(cluster, serial, record.annotations(&cluster.name_any()));
        match self.volumes.create(&ObjectKey::of(&volume), &volume).await {
            // The cache is behind, or shows a volume of somebody else at the next reconcile.
            Err(error) if error.is_stale_cache() => Ok(()),
            result => result,
        }
    }

    /// Requests the size of the spec, unless the claim has changed meanwhile: it can be larger by now.
    async fn grow_volume(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        uid: &str,
    ) -> Result<(), WriteError> {
        let key = key(cluster, &member_name(cluster, serial));
        let latest = self.volumes.get(&key).filter(|volume| volume.metadata.uid.as_deref() == Some(uid));
        let Some(latest) = latest else { return Ok(()) };
        let patch = Patch::Merge(json!({
            "metadata": { "uid": uid, "resourceVersion": latest.metadata.resource_version },
            "spec": { "resources": { "requests": { "storage": cluster.spec.storage.size } } },
        }));
        match self.volumes.patch(&key, &patch, "grow").await {
            Err(error) if error.is_stale_cache() => Ok(()),
            result => result,
        }
    }

    async fn create_pod(
        &self,
        cluster: &PostgresCluster,
        owner: &Owner,
        serial: Serial,
        images: &MemberImages<'_>,
    ) -> Result<(), WriteError> {
        let key = key(cluster, &member_name(cluster, serial));
        match self.pods.create(&key, &pod::new(cluster, owner, serial, images)).await {
            Err(error) if error.is_stale_cache() => match self.pods.get(&key) {
                Some(other) if !owner.owns(other.meta()) => Err(WriteError::NotOwned {
                    object: describe::<PodView>(&key),
                    holder: describe_controller(other.meta()),
                    is_garbage: owner.succeeds_owner_of(other.meta()),
                }),
                _ => Ok(()),
            },
            result => result,
        }
    }

    async fn set_role(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        uid: &str,
        role: Role,
    ) -> Result<(), WriteError> {
        let labels = json!({ ROLE_LABEL: role.as_str() });
        let patch = Patch::Merge(json!({ "metadata": { "uid": uid, "labels": labels } }));
        let written =
            self.pods.patch(&key(cluster, &member_name(cluster, serial)), &patch, "set the role of").await;
        match written {
            Err(error) if error.is_stale_cache() => Ok(()),
            result => result,
        }
    }
}

/// Deletes an object if it still has this UID, and meets the precondition.
async fn delete<K: Kind>(
    writer: &Writer<K>,
    key: &ObjectKey,
    uid: &str,
    precondition: DeletePrecondition,
) -> Result<(), WriteError> {
    let Some(object) = writer.get(key).filter(|object| object.meta().uid.as_deref() == Some(uid)) else {
        return Ok(());
    };
    writer.delete(&object, precondition).await.map(drop)
}

fn member_pod(pod: &PodView) -> MemberPod {
    let role = pod.labels().get(ROLE_LABEL);
    MemberPod {
        uid: uid(pod),
        is_ready: pod.is_ready(),
        is_terminating: pod.is_terminating(),
        is_finished: pod.is_finished(),
        role: [Role::Primary, Role::Replica].into_iter().find(|known| Some(known.as_str()) == role),
        revision: pod.labels().get(REVISION_LABEL).unwrap_or_default().to_owned(),
    }
}

/// Returns the cluster in whose name a volume was created.
///
/// A volume without the label counts if its name is that of a member: nobody's data are overwritten.
fn cluster_of(volume: &PersistentVolumeClaim) -> Option<ObjectKey> {
    let namespace = volume.namespace()?;
    let name = volume.name_any();
    let cluster = match volume.labels().get(CLUSTER_LABEL) {
        Some(cluster) => cluster.as_str(),
        None => name.rsplit_once('-')?.0,
    };
    Some(ObjectKey::namespaced(&namespace, cluster))
}
