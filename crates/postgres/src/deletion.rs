//! Deletes the volumes of a cluster with it, if `spec.retention.whenDeleted` says so.
//!
//! Only such a cluster has the finalizer. Without it, nothing of ours delays the deletion: garbage
//! collection ends the Pods, and each of them stops PostgreSQL orderly.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource};
use operator_core::{Outcome, events::Events, finalizer, informer::Informer, status::StatusWriter};

use crate::{
    api::{PostgresCluster, RetentionPolicy},
    decide::deletion::{Awaited, Deletion, next},
    error::Error,
    members::MemberObjects,
    reasons::DELETING,
    status::terminating,
};

/// Finalizer that keeps a PostgresCluster until its volumes are deleted.
pub const FINALIZER: &str = "lukeb0nd.com/postgrescluster";
/// Finalizer with which a person asks Kubernetes to keep the children of an object.
const ORPHAN: &str = "orphan";

/// Adds and removes the finalizer.
pub(crate) struct Finalizer {
    client: Client,
    clusters: Informer<PostgresCluster>,
}

impl Finalizer {
    pub(crate) fn new(client: Client, clusters: Informer<PostgresCluster>) -> Self {
        Self { client, clusters }
    }

    /// Gives the finalizer to a cluster that needs it, and takes it from others. Returns the changed
    /// cluster.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub(crate) async fn reconcile(
        &self,
        cluster: Arc<PostgresCluster>,
    ) -> Result<Arc<PostgresCluster>, Error> {
        if !deletes_volumes(&cluster) {
            self.remove(&cluster).await?;
            return Ok(cluster);
        }
        let epoch = self.clusters.store().epoch();
        let added = finalizer::add(&self.client, cluster.as_ref(), FINALIZER).await;
        let Some(changed) = added.map_err(Error::Finalizer)? else { return Ok(cluster) };
        self.clusters.record_write(epoch, changed.clone());
        Ok(Arc::new(changed))
    }

    /// Takes the finalizer from a cluster.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub(crate) async fn remove(&self, cluster: &PostgresCluster) -> Result<(), Error> {
        finalizer::remove(&self.client, cluster, FINALIZER).await.map_err(Error::Finalizer)
    }
}

/// Returns whether the volumes of a cluster are deleted with it. Whoever keeps its Pods keeps its
/// volumes too.
pub(crate) fn deletes_volumes(cluster: &PostgresCluster) -> bool {
    cluster.spec.retention.when_deleted == RetentionPolicy::Delete && !finalizer::has(cluster, ORPHAN)
}

/// Deletes what is left of clusters.
pub(crate) struct Deleter<'a> {
    pub(crate) members: &'a MemberObjects,
    pub(crate) finalizer: &'a Finalizer,
    pub(crate) status: &'a StatusWriter<PostgresCluster>,
    pub(crate) events: &'a Events,
}

impl Deleter<'_> {
    /// Performs the next step of the deletion of a cluster.
    ///
    /// # Errors
    /// Returns an error if the API server denies a write or cannot be reached.
    pub(crate) async fn delete(&self, cluster: &PostgresCluster) -> Result<Outcome, Error> {
        if !finalizer::has(cluster, FINALIZER) {
            return Ok(Outcome::Done);
        }
        if !deletes_volumes(cluster) {
            self.finalizer.remove(cluster).await?;
            return Ok(Outcome::Done);
        }
        let Deletion { actions, awaited } = next(&self.members.remains(cluster));
        let Some(awaited) = awaited else {
            self.finalizer.remove(cluster).await?;
            return Ok(Outcome::Done);
        };
        if matches!(awaited, Awaited::Volumes(_)) && !actions.is_empty() {
            let note = "deleting the volumes, because spec.retention.whenDeleted is Delete";
            self.events.normal(cluster.object_ref(&()), DELETING, "Delete", note);
        }
        for action in &actions {
            self.members.delete(cluster, action).await.map_err(Error::from_write)?;
        }
        let now = Timestamp::now();
        let written = self.status.write(cluster, |known| terminating(known, &awaited, now)).await;
        Ok(Outcome::AwaitChange.and(written.map_err(Error::Status)?))
    }
}
