//! Outages of the control plane or of the leader. Each outage affects the workloads of all
//! controllers at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use cluster::{Component, wait::eventually};
use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::{
    api::coordination::v1::Lease,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    clock,
    injection::{End, Injection, Outage},
    plan::Planned,
    run::{Verdict, execute, prepare_run},
    stuck_pods::StuckPodRetrier,
    test_cluster::TestCluster,
    track::{Progress, Track},
    worker::Worker,
    workload::{CONTROLLERS, HOME},
};

/// Maximum number of workloads that are prepared concurrently.
const MAX_CONCURRENT: usize = 8;
/// Duration of an outage.
const OUTAGE: Duration = Duration::from_secs(1);
/// Duration for which a leader is paused or partitioned: longer than its Lease.
const LEADER_OUTAGE: Duration = Duration::from_secs(6);
/// Delay between the change and the failure of the leader.
const CHANGE_DELAY: Duration = Duration::from_millis(100);

/// Runs all outages, one after the other. Leader outages come last, because they stop the managers
/// of the tracks.
pub(crate) async fn run_all(
    test_cluster: &Arc<TestCluster>,
    tracks: &[Track],
    planned: Vec<Planned>,
    progress: &Progress,
) -> Result<()> {
    let mut ended = false;
    for (outage, planned) in batches(planned) {
        if outage.is_of_leaders() && !std::mem::replace(&mut ended, true) {
            tracks.iter().try_for_each(|track| track.worker.kill())?;
        }
        let verdicts = match outage {
            Outage::Leader(end) => leader_outage(test_cluster, tracks, &planned, end, 0).await?,
            Outage::Clock(ahead) => leader_outage(test_cluster, tracks, &planned, End::Killed, ahead).await?,
            Outage::ApiServer(after) => {
                control_plane_outage(test_cluster, tracks, &planned, Component::KubeApiserver, after).await?
            }
            Outage::Etcd(after) => {
                control_plane_outage(test_cluster, tracks, &planned, Component::Etcd, after).await?
            }
            Outage::Definitions => crd_changes(test_cluster, tracks, &planned).await?,
        };
        for verdict in verdicts {
            progress.add(verdict);
        }
    }
    Ok(())
}

/// Groups planned runs by outage. Leader outages come last.
fn batches(planned: Vec<Planned>) -> Vec<(Outage, Vec<Planned>)> {
    let mut batches = BTreeMap::<_, (Outage, Vec<_>)>::new();
    for planned in planned {
        let Injection::Outage(outage) = planned.injection else { continue };
        let place = (outage.is_of_leaders(), planned.id.class, planned.id.point.clone());
        batches.entry(place).or_insert_with(|| (outage, Vec::new())).1.push(planned);
    }
    batches.into_values().collect()
}

fn is_of(track: &Track, planned: &Planned) -> bool {
    track.controller == planned.id.controller
}

/// Starts all runs and triggers the outage while they are in progress.
async fn run_during<'l>(
    test_cluster: &TestCluster,
    tracks: &'l [Track],
    planned: &[Planned],
    worker: impl Fn(&Planned) -> Option<&'l Worker>,
    outage: impl Future<Output = Result<()>>,
) -> Result<Vec<Verdict>> {
    let begun = planned.iter().map(async |planned| {
        let track =
            tracks.iter().find(|track| is_of(track, planned)).context("the controller has no track")?;
        let worker = worker(planned).context("the controller has no manager")?;
        let (workload, baseline) = track.workload_and_baseline(planned)?;
        let token = prepare_run(worker, workload, planned).await?;
        Ok::<_, anyhow::Error>((worker, workload, baseline, token))
    });
    let all = async {
        let begun: Vec<_> = stream::iter(begun).buffered(MAX_CONCURRENT).collect().await;
        let runs = planned.iter().zip(begun).map(async |(planned, begun)| {
            let run = async {
                let (worker, workload, baseline, token) = begun?;
                execute(worker, workload, planned, baseline, token).await
            };
            Verdict::of(planned, run.await)
        });
        tokio::join!(outage, join_all(runs))
    };
    tokio::select! {
        (outage, verdicts) = all => outage.map(|()| verdicts),
        failed = restart_components(test_cluster) => Err(failed),
    }
}

/// Restarts components that exit during an outage, such as kube-scheduler, and retries stuck Pods.
/// Returns only if a restart fails.
async fn restart_components(test_cluster: &TestCluster) -> anyhow::Error {
    let mut retrier = StuckPodRetrier::new(test_cluster.client.clone(), HOME);
    loop {
        sleep(OUTAGE).await;
        if let Err(failed) = test_cluster.cluster.restart_exited_components() {
            return failed;
        }
        retrier.look().await;
    }
}

/// Stops a part of the control plane some time after the change, and restarts it.
async fn control_plane_outage(
    test_cluster: &TestCluster,
    tracks: &[Track],
    planned: &[Planned],
    component: Component,
    after: Duration,
) -> Result<Vec<Verdict>> {
    let outage = async {
        if !after.is_zero() {
            sleep(after).await;
        }
        test_cluster.cluster.kill_component(component)?;
        sleep(OUTAGE).await;
        test_cluster.cluster.start_component(component)?;
        test_cluster.cluster.ready(test_cluster.patience).await
    };
    run_during(test_cluster, tracks, planned, |planned| own_worker(tracks, planned), outage).await
}

/// Returns the manager that runs only the controller of this run.
fn own_worker<'t>(tracks: &'t [Track], planned: &Planned) -> Option<&'t Worker> {
    tracks.iter().find(|track| is_of(track, planned)).map(|track| &track.worker)
}

/// Changes all CRDs during the workload, and reverts them.
async fn crd_changes(
    test_cluster: &TestCluster,
    tracks: &[Track],
    planned: &[Planned],
) -> Result<Vec<Verdict>> {
    let definitions = Api::<CustomResourceDefinition>::all(test_cluster.client.clone());
    let all = definitions.list(&ListParams::default()).await?;
    let change = async |added: Option<&str>| {
        for definition in &all {
            let mut categories = definition.spec.names.categories.clone().unwrap_or_default();
            categories.extend(added.map(str::to_owned));
            let patch = Patch::Merge(json!({ "spec": { "names": { "categories": categories } } }));
            definitions.patch(&definition.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    };
    let outage = async {
        sleep(CHANGE_DELAY).await;
        change(Some("faults")).await?;
        sleep(OUTAGE).await;
        change(None).await
    };
    run_during(test_cluster, tracks, planned, |planned| own_worker(tracks, planned), outage).await
}

/// Starts two managers for all controllers, optionally with clock skew, and stops the leader.
async fn leader_outage(
    test_cluster: &Arc<TestCluster>,
    tracks: &[Track],
    planned: &[Planned],
    end: End,
    ahead: i64,
) -> Result<Vec<Verdict>> {
    let name = |place: &str| format!("{end:?}-{ahead}-{place}").to_lowercase();
    let first = Worker::replica(test_cluster.clone(), &name("first"), Vec::new()).await?;
    until_led_by(test_cluster, &name("first")).await?;
    let clock = if ahead == 0 { Vec::new() } else { clock::ahead(ahead)? };
    let second = Worker::replica(test_cluster.clone(), &name("second"), clock).await?;
    if ahead != 0 {
        // Clock skew affects how long a Lease appears to be valid.
        sleep(LEADER_OUTAGE).await;
        until_led_by(test_cluster, &name("first"))
            .await
            .context("the leader changed because of clock skew")?;
    }
    let outage = async {
        sleep(CHANGE_DELAY).await;
        match end {
            End::Killed => first.kill(),
            End::Frozen => {
                first.signal(Signal::STOP)?;
                sleep(LEADER_OUTAGE).await;
                first.signal(Signal::CONT)
            }
            End::CutOff => {
                first.proxy.cut(true);
                sleep(LEADER_OUTAGE).await;
                first.proxy.cut(false);
                Ok(())
            }
        }
    };
    let verdicts = run_during(test_cluster, tracks, planned, |_| Some(&second), outage).await;
    first.kill()?;
    second.kill()?;
    verdicts
}

/// Waits until this manager leads all controllers.
async fn until_led_by(test_cluster: &TestCluster, name: &str) -> Result<()> {
    let leases = Api::<Lease>::namespaced(test_cluster.client.clone(), manager::NAMESPACE);
    eventually("this manager to lead all controllers", test_cluster.patience, async || {
        let mut led = 0;
        for controller in CONTROLLERS.iter() {
            let lease = leases.get_opt(&format!("ensemble-{controller}")).await?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            led += usize::from(holder.starts_with(name));
        }
        Ok(if led == CONTROLLERS.len() { Ok(()) } else { Err(led) })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(id: &str, outage: Outage) -> Planned {
        Planned { id: id.parse().unwrap(), injection: Injection::Outage(outage), description: String::new() }
    }

    #[test]
    fn leader_outages_come_last() {
        let killed = Outage::Leader(End::Killed);
        let all = [
            planned("podset/create/F16/killed", killed),
            planned("podset/create/F19/definitions", Outage::Definitions),
            planned("tenant/create/F16/killed", killed),
            planned("podset/create/F17/ahead", Outage::Clock(300)),
            planned("podset/create/F14/during", Outage::ApiServer(OUTAGE)),
        ];
        let order: Vec<_> =
            batches(all.into()).into_iter().map(|(outage, runs)| (outage, runs.len())).collect();
        let wanted =
            [(Outage::ApiServer(OUTAGE), 1), (Outage::Definitions, 1), (killed, 2), (Outage::Clock(300), 1)];
        assert_eq!(order, wanted);
    }
}
