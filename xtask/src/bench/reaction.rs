//! How soon the manager acts on a single change, by one clock: that of the API server's audit log.

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
use podset::{PodSet, PodSetSpec};
use tokio::time::{MissedTickBehavior, interval};

use super::{figures, support::until_silent, world};
use crate::stage::{start_manager, user};

#[derive(Args)]
pub(super) struct Reaction {
    /// How many PodSets are created, and how many of their pods deleted, one each 0.2 s
    #[arg(long, default_value_t = 300)]
    reactions: usize,
}

/// So few that each meets an idle cluster.
const PACE: Duration = Duration::from_millis(200);
const SILENCE: Duration = Duration::from_secs(5);

impl Reaction {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: world::NODES, ..Options::default() }).await?;
        let running = start_manager(&cluster, program).await?;
        let client = cluster.client().await?;
        world::create_namespaces(&client, self.reactions).await?;
        until_silent(&cluster, SILENCE).await?;

        let mark = cluster.audit_mark()?;
        self.paced(async |number| create(&client, number).await).await?;
        until_silent(&cluster, SILENCE).await?;
        let created = |entry: &Entry| entry.verb == "create" && entry.resource == "podsets";
        self.report("PodSet created to its pod asked for", &cluster.audit_since(mark)?, created, |number| {
            world::podset_name(number)
        })?;

        let mark = cluster.audit_mark()?;
        self.paced(async |number| delete_pod(&client, number).await).await?;
        until_silent(&cluster, SILENCE).await?;
        let deleted = |entry: &Entry| entry.verb == "delete" && entry.resource == "pods";
        self.report("pod deleted to the next one asked for", &cluster.audit_since(mark)?, deleted, pod_name)?;
        running.stop()?;
        cluster.stop()
    }

    async fn paced(&self, act: impl AsyncFn(usize) -> Result<()>) -> Result<()> {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0..self.reactions {
            pace.tick().await;
            act(number).await?;
        }
        Ok(())
    }

    /// How long it took from each cause, the one about the object of this name, to the creation of the pod that it asks
    /// for: from when the API server got the one request to when it got the other.
    fn report(
        &self,
        what: &str,
        log: &AuditLog,
        is_cause: impl Fn(&Entry) -> bool,
        name: impl Fn(usize) -> String,
    ) -> Result<()> {
        let manager = user();
        let mut times = Vec::new();
        let mut ahead = 0;
        for number in 0..self.reactions {
            let (cause_name, pods) = (name(number), format!("{}-pod-", world::podset_name(number)));
            let cause = log.entries.iter().find(|entry| is_cause(entry) && entry.name == cause_name);
            let cause = cause.with_context(|| format!("{cause_name} is not in the audit log"))?;
            let made = |entry: &&Entry| {
                entry.verb == "create" && entry.resource == "pods" && entry.name.starts_with(&pods)
            };
            let reaction = log.entries.iter().filter(made).find(|entry| entry.user == manager);
            let reaction = reaction.with_context(|| format!("no pod {pods}* was created"))?;
            times.push(reaction.time.duration_since(cause.time).unsigned_abs());
            ahead += usize::from(reaction.time < cause.answered);
        }
        times.sort();
        for percent in [50, 99] {
            figures::print(
                &format!("{what}, {percent}th percentile"),
                figures::percentile(&times, percent),
                "ms",
            );
        }
        println!("  before the API server had answered who made the change: {ahead} of {}", self.reactions);
        Ok(())
    }
}

fn pod_name(number: usize) -> String {
    format!("{}-pod-1", world::podset_name(number))
}

async fn create(client: &Client, number: usize) -> Result<()> {
    let set = world::podset(number)?;
    let set = PodSet { spec: PodSetSpec { replicas: 1, ..set.spec.clone() }, ..set };
    let sets = Api::<PodSet>::namespaced(client.clone(), &world::namespace_of(number));
    sets.create(&PostParams::default(), &set).await.context("cannot create a PodSet").map(drop)
}

async fn delete_pod(client: &Client, number: usize) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), &world::namespace_of(number));
    let at_once = DeleteParams::default().grace_period(0);
    pods.delete(&pod_name(number), &at_once).await.context("cannot delete a pod").map(drop)
}
