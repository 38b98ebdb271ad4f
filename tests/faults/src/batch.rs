//! Faults that meet all controllers at once: of the control plane, and of whoever leads. Each strikes all workloads
//! together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use cluster::{Component, wait::eventually};
use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::{
    blow::{Blow, End, Outage},
    lane::Lane,
    matrix::{Progress, Track},
    plan::Planned,
    run::{Verdict, begin, go},
    stage::{NAMESPACE_OF_MANAGER, Stage},
    workload::CONTROLLERS,
};

/// How many workloads are prepared at once.
const AT_ONCE: usize = 8;
/// How long what is gone stays away.
const AWAY: Duration = Duration::from_secs(1);
/// How long a leader is frozen or cut off: longer than its lease.
const OUT: Duration = Duration::from_secs(6);
/// How long a change has been under way when the leader meets its end.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// Runs what meets all controllers, one outage after the other. The managers of the tracks end on the way, if leaders
/// are to.
pub(crate) async fn run_all(
    stage: &Arc<Stage>,
    tracks: &[Track],
    planned: Vec<Planned>,
    progress: &Progress,
) -> Result<()> {
    let mut batches = BTreeMap::<_, Vec<_>>::new();
    for planned in planned {
        batches.entry((planned.id.class, planned.id.point.clone())).or_default().push(planned);
    }
    let mut ended = false;
    for planned in batches.into_values() {
        let Some(Blow::Outage(outage)) = planned.first().map(|planned| planned.blow.clone()) else {
            continue;
        };
        let verdicts = if let Outage::Leader(end) = outage {
            if !std::mem::replace(&mut ended, true) {
                tracks.iter().try_for_each(|track| track.lane.kill())?;
            }
            leaders(stage, tracks, &planned, end).await?
        } else {
            let track = |planned: &Planned| tracks.iter().find(|track| is_of(track, planned));
            let lane = |planned: &Planned| track(planned).map(|track| &track.lane);
            together(tracks, &planned, lane, control_plane(stage, outage)).await?
        };
        for verdict in verdicts {
            progress.take(verdict);
        }
    }
    Ok(())
}

fn is_of(track: &Track, planned: &Planned) -> bool {
    track.controller == planned.id.controller
}

/// Begins all runs, and lets the outage come while they go on.
async fn together<'l>(
    tracks: &'l [Track],
    planned: &[Planned],
    lane: impl Fn(&Planned) -> Option<&'l Lane>,
    outage: impl Future<Output = Result<()>>,
) -> Result<Vec<Verdict>> {
    let begun = planned.iter().map(async |planned| {
        let track = tracks.iter().find(|track| is_of(track, planned)).context("the controller is known")?;
        let lane = lane(planned).context("the controller has a manager")?;
        let (workload, reference) = track.held(planned)?;
        let token = begin(lane, workload).await?;
        Ok::<_, anyhow::Error>((lane, workload, reference, token))
    });
    let begun: Vec<_> = stream::iter(begun).buffered(AT_ONCE).collect().await;
    let runs = planned.iter().zip(begun).map(async |(planned, begun)| {
        let run = async {
            let (lane, workload, reference, token) = begun?;
            go(lane, workload, planned, reference, token).await
        };
        Verdict::of(planned, run.await)
    });
    let (outage, verdicts) = tokio::join!(outage, join_all(runs));
    outage?;
    Ok(verdicts)
}

/// Ends a part of the control plane, and starts it again.
async fn control_plane(stage: &Stage, outage: Outage) -> Result<()> {
    let (component, after) = match outage {
        Outage::ApiServer(after) => (Component::KubeApiserver, after),
        Outage::Etcd(after) => (Component::Etcd, after),
        Outage::Leader(_) => return Ok(()),
    };
    if !after.is_zero() {
        sleep(after).await;
    }
    stage.cluster.kill_component(component)?;
    sleep(AWAY).await;
    stage.cluster.start_component(component)?;
    stage.cluster.ready(stage.patience).await
}

/// Two managers share all controllers. The one that leads them meets its end.
async fn leaders(
    stage: &Arc<Stage>,
    tracks: &[Track],
    planned: &[Planned],
    end: End,
) -> Result<Vec<Verdict>> {
    let name = |place: &str| format!("{end:?}-{place}").to_lowercase();
    let first = Lane::replica(stage.clone(), &name("first")).await?;
    until_led_by(stage, &name("first")).await?;
    let second = Lane::replica(stage.clone(), &name("second")).await?;
    let outage = async {
        sleep(UNDER_WAY).await;
        match end {
            End::Killed => first.kill(),
            End::Frozen => {
                first.signal(Signal::STOP)?;
                sleep(OUT).await;
                first.signal(Signal::CONT)
            }
            End::CutOff => {
                first.proxy.cut(true);
                sleep(OUT).await;
                first.proxy.cut(false);
                Ok(())
            }
        }
    };
    let verdicts = together(tracks, planned, |_| Some(&second), outage).await;
    first.kill()?;
    second.kill()?;
    verdicts
}

/// Waits until all controllers are led by this manager.
async fn until_led_by(stage: &Stage, name: &str) -> Result<()> {
    let leases = Api::<Lease>::namespaced(stage.client.clone(), NAMESPACE_OF_MANAGER);
    eventually("all controllers to be led", stage.patience, async || {
        let mut led = 0;
        for controller in CONTROLLERS {
            let lease = leases.get_opt(&format!("ensemble-{controller}")).await?;
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            led += usize::from(holder.starts_with(name));
        }
        Ok(if led == CONTROLLERS.len() { Ok(()) } else { Err(led) })
    })
    .await
}
