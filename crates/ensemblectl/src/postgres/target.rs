//! The PostgresCluster that a command is about.

use ::postgres::{PostgresCluster, PostgresClusterStatus};
use anyhow::{Context, Result, bail, ensure};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use operator_core::{
    conditions::find,
    error::{is_conflict, is_not_found},
};
use serde_json::json;

use super::progress::{Progress, Watched, follow};
use crate::{cluster::Cluster, errors::NoSuchObject, flags::postgres::Waiting, kinds, output::ExitStatus};

/// How often a request is repeated because the object has changed since it was checked.
const ATTEMPTS: usize = 5;

/// A PostgresCluster in the namespace of the flags.
pub(super) struct Target<'c> {
    pub(super) cluster: &'c Cluster,
    pub(super) name: &'c str,
}

impl<'c> Target<'c> {
    pub(super) fn new(cluster: &'c Cluster, name: &'c str) -> Self {
        Self { cluster, name }
    }

    pub(super) fn api(&self) -> Api<PostgresCluster> {
        Api::namespaced(self.cluster.client.clone(), self.cluster.namespace())
    }

    /// Returns the kind, the namespace, and the name.
    pub(super) fn describe(&self) -> String {
        format!("PostgresCluster {}/{}", self.cluster.namespace(), self.name)
    }

    /// Reads the cluster.
    ///
    /// # Errors
    /// Returns an error if it does not exist or cannot be read.
    pub(super) async fn get(&self) -> Result<PostgresCluster> {
        match self.api().get(self.name).await {
            Ok(found) => Ok(found),
            Err(error) if is_not_found(&error) => {
                // Returns `NotInstalled` instead if the API server does not serve the kind.
                let kind = kinds::find("postgrescluster")?;
                kinds::list_all(self.cluster, &[kind], Some(self.cluster.namespace())).await?;
                let list = format!("ensemblectl status postgrescluster -n {}", self.cluster.namespace());
                Err(NoSuchObject { what: self.describe(), list }.into())
            }
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.describe())),
        }
    }

    /// Watches the cluster until a request is carried out, and prints the result.
    ///
    /// # Errors
    /// Returns an error if the cluster cannot be watched.
    pub(super) async fn follow(
        &self,
        waiting: Waiting,
        check: impl Fn(&PostgresCluster) -> Progress,
    ) -> Result<ExitStatus> {
        follow(Watched { api: self.api(), name: self.name, what: self.describe() }, waiting, check).await
    }

    /// Sets an annotation, or removes it, as `decide` says from the current object, which it also
    /// checks. Returns the object as it was before.
    ///
    /// # Errors
    /// Returns an error if the check fails or the object cannot be changed.
    pub(super) async fn annotate(
        &self,
        annotation: &str,
        decide: impl Fn(&PostgresCluster) -> Result<Option<String>>,
    ) -> Result<PostgresCluster> {
        for _ in 0..ATTEMPTS {
            let current = self.get().await?;
            ensure!(current.metadata.deletion_timestamp.is_none(), "{} is being deleted", self.describe());
            let value = decide(&current)?;
            if current.annotations().get(annotation) == value.as_ref() {
                return Ok(current);
            }
            // The object is changed only as it was checked.
            let patch = json!({ "metadata": {
                "resourceVersion": current.metadata.resource_version,
                "annotations": { annotation: value },
            } });
            match self.api().patch(self.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return Ok(current),
                Err(error) if is_conflict(&error) => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot set {annotation} of {}", self.describe()));
                }
            }
        }
        bail!("{} changed {ATTEMPTS} times while {annotation} was set; try again", self.describe())
    }
}

/// Returns status, reason, and message of a condition.
pub(super) fn describe_condition(status: &PostgresClusterStatus, type_: &str) -> String {
    find(&status.conditions, type_).map_or_else(
        || "the controller has not written a status yet".to_owned(),
        |found| format!("{type_} is {}: {}: {}", found.status, found.reason, found.message),
    )
}

/// Returns the status, which is empty before the controller has written it.
pub(super) fn status_of(cluster: &PostgresCluster) -> PostgresClusterStatus {
    cluster.status.clone().unwrap_or_default()
}

/// Returns the names of the members.
pub(super) fn members(status: &PostgresClusterStatus) -> Vec<String> {
    status.instances.iter().map(|instance| instance.name.clone()).collect()
}

/// Checks that a name is that of a member.
pub(super) fn check_member(status: &PostgresClusterStatus, name: &str) -> Result<()> {
    let members = members(status);
    ensure!(
        members.iter().any(|member| member == name),
        "{name} is no member; the members are {}",
        members.join(", ")
    );
    Ok(())
}

/// Checks that the controller acts on requests.
pub(super) fn check_not_paused(cluster: &PostgresCluster) -> Result<()> {
    ensure!(
        !cluster.spec.paused,
        "the PostgresCluster is paused, so the controller does nothing; set spec.paused to false first"
    );
    Ok(())
}
