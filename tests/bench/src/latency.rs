//! Time from a single change to the resulting write.
//!
//! Both times come from the audit log of the API server, so they have the same clock.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{
    Cluster, Options,
    audit::{AuditLog, Entry},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use local_manager::launch::{start_manager, user};
use podset::{PodSet, PodSetSpec};
use tokio::time::{MissedTickBehavior, interval};

use crate::{figures, requests::wait_until_idle, workload};

#[derive(Args)]
pub(crate) struct Latency {
    /// Number of PodSets to create, and of their Pods to delete, one every 0.2 s
    #[arg(long, default_value_t = 300)]
    latency_changes: usize,
}

/// Interval of changes, so that each starts on an idle cluster.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time without a request after which the manager counts as idle.
const IDLE: Duration = Duration::from_secs(5);

impl Latency {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: workload::NODES, ..Options::default() }).await?;
        let running = start_manager(&cluster, program).await?;
        let client = cluster.client().await?;
        workload::create_namespaces(&client, self.latency_changes).await?;
        wait_until_idle(&cluster, IDLE).await?;

        let mark = cluster.audit_mark()?;
        self.paced(async |number| create(&client, number).await).await?;
        wait_until_idle(&cluster, IDLE).await?;
        let created = |entry: &Entry| entry.verb == "create" && entry.resource == "podsets";
        self.report("create PodSet to create Pod", &cluster.audit_since(mark)?, created, |number| {
            workload::podset_name(number)
        })?;

        let mark = cluster.audit_mark()?;
        self.paced(async |number| delete_pod(&client, number).await).await?;
        wait_until_idle(&cluster, IDLE).await?;
        let deleted = |entry: &Entry| entry.verb == "delete" && entry.resource == "pods";
        self.report("delete Pod to create replacement", &cluster.audit_since(mark)?, deleted, pod_name)?;
        running.stop()?;
        cluster.stop()
    }

    /// Makes one change per interval.
    async fn paced(&self, change: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
        let mut pace = interval(INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0..self.latency_changes {
            pace.tick().await;
            change(number).await?;
        }
        Ok(())
    }

    /// Prints the times from each change to the resulting creation of a Pod.
    ///
    /// A time runs from the receipt of one request to the receipt of the other.
    fn report(
        &self,
        label: &str,
        log: &AuditLog,
        is_change: impl Fn(&Entry) -> bool,
        name: impl Fn(usize) -> String,
    ) -> Result<()> {
        let manager = user();
        let mut times = Vec::new();
        let mut before_response = 0;
        for number in 0..self.latency_changes {
            let (changed, prefix) = (name(number), format!("{}-pod-", workload::podset_name(number)));
            let change = log.entries.iter().find(|entry| is_change(entry) && entry.name == changed);
            let change = change.with_context(|| format!("no change of {changed} is in the audit log"))?;
            let is_create = |entry: &&Entry| {
                entry.verb == "create" && entry.resource == "pods" && entry.name.starts_with(&prefix)
            };
            let create = log.entries.iter().filter(is_create).find(|entry| entry.user == manager);
            let create = create.with_context(|| format!("no Pod {prefix}* was created"))?;
            times.push(create.time.duration_since(change.time).unsigned_abs());
            before_response += usize::from(create.time < change.answered);
        }
        times.sort();
        for percent in [50, 99] {
            figures::print(
                &format!("{label}, {percent}th percentile"),
                figures::percentile(&times, percent),
                "ms",
            );
        }
        println!("  before the response to the change: {before_response} of {}", self.latency_changes);
        Ok(())
    }
}

fn pod_name(number: usize) -> String {
    format!("{}-pod-1", workload::podset_name(number))
}

async fn create(client: &Client, number: usize) -> Result<()> {
    let set = workload::podset(number)?;
    let set = PodSet { spec: PodSetSpec { replicas: 1, ..set.spec.clone() }, ..set };
    let sets = Api::<PodSet>::namespaced(client.clone(), &workload::namespace_of(number));
    sets.create(&PostParams::default(), &set).await.context("cannot create a PodSet").map(drop)
}

async fn delete_pod(client: &Client, number: usize) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), &workload::namespace_of(number));
    let immediately = DeleteParams::default().grace_period(0);
    pods.delete(&pod_name(number), &immediately).await.context("cannot delete a Pod").map(drop)
}
