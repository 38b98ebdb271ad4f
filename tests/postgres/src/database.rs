//! One PostgresCluster.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use postgres::{PostgresCluster, PostgresClusterStatus};
use serde_json::{Value, json};

use crate::{kubelet::Kubelet, member::Member};

/// Name of the PostgresCluster.
const NAME: &str = "db";

/// A PostgresCluster whose members are processes of this machine.
pub struct Database {
    /// Runs the members.
    pub kubelet: Kubelet,
    /// The last status that was read.
    pub status: PostgresClusterStatus,
}

impl Database {
    /// Creates a PostgresCluster of this size.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn new(size: u8) -> Result<Self> {
        Self::with(json!({"size": size})).await
    }

    /// Creates a PostgresCluster of this size. The volumes of the members in the list have these sizes,
    /// in MiB.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn with_volumes(size: u8, volumes: &[(&str, u64)]) -> Result<Self> {
        let database = Self::prepare_volumes(volumes).await?;
        database.create(json!({"size": size})).await?;
        Ok(database)
    }

    /// Creates a namespace for a PostgresCluster. The volumes of the members in the list have these
    /// sizes, in MiB.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub async fn prepare_volumes(volumes: &[(&str, u64)]) -> Result<Self> {
        let mut database = Self::prepare().await?;
        let volumes = volumes.iter().map(|(member, mebibytes)| ((*member).to_owned(), *mebibytes));
        database.kubelet.volumes = volumes.collect();
        Ok(database)
    }

    /// Creates a namespace for a PostgresCluster.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub async fn prepare() -> Result<Self> {
        Ok(Self { kubelet: Kubelet::new().await?, status: PostgresClusterStatus::default() })
    }

    /// Gives the members the Secrets of the object store as they are now, as the kubelet does within a
    /// minute.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer, or a file cannot be written.
    pub async fn remount(&self) -> Result<()> {
        for pod in self.kubelet.api::<Pod>().list(&ListParams::default()).await? {
            self.kubelet.mount_archive(&pod.name_any(), &pod).await?;
        }
        Ok(())
    }

    /// Waits until a primary of this epoch, or a later one, is confirmed.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub async fn until_epoch(&mut self, epoch: i64) -> Result<()> {
        let what = format!("a primary of epoch {epoch}");
        self.until(&what, |status| status.primary.epoch >= epoch && !status.primary.current.is_empty()).await
    }

    /// Creates a PostgresCluster with these fields of the spec.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn with(spec: Value) -> Result<Self> {
        Self::on(Kubelet::new().await?, spec).await
    }

    /// Creates a PostgresCluster with these fields of the spec, whose members this kubelet runs.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn on(kubelet: Kubelet, spec: Value) -> Result<Self> {
        let database = Self { kubelet, status: PostgresClusterStatus::default() };
        database.create(spec).await?;
        Ok(database)
    }

    /// Creates the PostgresCluster again, with these fields of the spec.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn create(&self, mut spec: Value) -> Result<()> {
        let fixed = [
            ("failover", json!({"leaseSeconds": self.kubelet.lease_seconds})),
            ("nodeSelector", Kubelet::node_selector()),
        ];
        let fields = spec.as_object_mut().context("the spec is no object")?;
        for (name, value) in fixed {
            fields.entry(name).or_insert(value);
        }
        let cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": NAME}, "spec": spec,
        });
        let cluster = serde_json::from_value(cluster)?;
        let api = self.kubelet.api::<PostgresCluster>();
        api.create(&PostParams::default(), &cluster).await.context("cannot create the PostgresCluster")?;
        Ok(())
    }

    /// Deletes the PostgresCluster. Its Pods end later.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or does not answer.
    pub async fn delete(&self) -> Result<()> {
        self.kubelet.api::<PostgresCluster>().delete(NAME, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Works as the kubelet until neither the PostgresCluster nor a Pod exists.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub async fn until_deleted(&mut self) -> Result<()> {
        let (clusters, pods) = (self.kubelet.api::<PostgresCluster>(), self.kubelet.api::<Pod>());
        let check = async |_: &[Member]| {
            let left = pods.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
            let left: Vec<_> = left;
            let is_gone = left.is_empty() && clusters.get_opt(NAME).await?.is_none();
            Ok(if is_gone { Ok(()) } else { Err(left) })
        };
        self.kubelet.until("the PostgresCluster to be gone", check).await
    }

    /// Changes fields of the spec.
    ///
    /// # Errors
    /// Returns an error if the API server refuses them.
    pub async fn change(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.kubelet.api::<PostgresCluster>().patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Sets an annotation, or removes it without a value.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it.
    pub async fn annotate<'a>(&self, name: &str, value: impl Into<Option<&'a str>>) -> Result<()> {
        let value: Option<&str> = value.into();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
        self.kubelet.api::<PostgresCluster>().patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Returns the value of an annotation.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer.
    pub async fn annotation(&self, name: &str) -> Result<Option<String>> {
        let cluster = self.kubelet.api::<PostgresCluster>().get(NAME).await?;
        Ok(cluster.annotations().get(name).cloned())
    }

    /// Returns the confirmed primary.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn primary(&mut self) -> Result<&mut Member> {
        let name = self.status.primary.current.clone();
        self.kubelet.member(&name)
    }

    /// Works once as the kubelet, and reads the status.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer, or a process cannot be started.
    pub async fn look(&mut self) -> Result<()> {
        self.kubelet.look().await?;
        self.status = self.kubelet.api::<PostgresCluster>().get(NAME).await?.status.unwrap_or_default();
        Ok(())
    }

    /// Works as the kubelet until a condition holds.
    ///
    /// # Errors
    /// Returns an error with the last status and the logs if that takes too long.
    pub async fn until(
        &mut self,
        what: &str,
        condition: impl Fn(&PostgresClusterStatus) -> bool,
    ) -> Result<()> {
        let api = self.kubelet.api::<PostgresCluster>();
        let check = async |_: &[Member]| {
            let status = api.get(NAME).await?.status.unwrap_or_default();
            Ok(if condition(&status) { Ok(status) } else { Err(status) })
        };
        self.status = self.kubelet.until(what, check).await?;
        Ok(())
    }

    /// Works as the kubelet until a condition on the members holds.
    ///
    /// # Errors
    /// Returns an error with the logs if that takes too long.
    pub async fn until_members(&mut self, what: &str, condition: impl Fn(&[Member]) -> bool) -> Result<()> {
        let check = async |members: &[Member]| Ok(condition(members).then_some(()).ok_or("not yet"));
        self.kubelet.until(what, check).await
    }

    /// Waits until all members of the spec are ready, and a commit waits for as many standbys as it
    /// should.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub async fn until_complete(&mut self) -> Result<()> {
        let is_true = |status: &PostgresClusterStatus, type_: &str| {
            status.conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
        };
        self.until("complete", |status| {
            let is_safe = status.instances.len() < 3 || is_true(status, "DataSafe");
            is_true(status, "Ready") && is_safe && status.reigns.len() == 1
        })
        .await
    }

    /// Waits until a primary is confirmed after the first epoch.
    ///
    /// # Errors
    /// Returns an error if that takes too long.
    pub async fn until_failed_over(&mut self) -> Result<()> {
        self.until("failed over", |status| status.primary.epoch > 1 && !status.primary.current.is_empty())
            .await
    }
}
