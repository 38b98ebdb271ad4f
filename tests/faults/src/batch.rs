//! Faults that meet all controllers at once: of the control plane, and of whoever leads. Each strikes all workloads
//! together.

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
    blow::{Blow, End, Outage},
    clock,
    lane::Lane,
    matrix::{Progress, Track},
    plan::Planned,
    reminder::Reminder,
    run::{Verdict, begin, go},
    stage::{NAMESPACE_OF_MANAGER, Stage},
    workload::{CONTROLLERS, HOME},
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
/// are to; whatever needs them comes before.
pub(crate) async fn run_all(
    stage: &Arc<Stage>,
    tracks: &[Track],
    planned: Vec<Planned>,
    progress: &Progress,
) -> Result<()> {
    let mut ended = false;
    for (outage, planned) in batches(planned) {
        if outage.is_of_leaders() && !std::mem::replace(&mut ended, true) {
            tracks.iter().try_for_each(|track| track.lane.kill())?;
        }
        let verdicts = match outage {
            Outage::Leader(end) => leaders(stage, tracks, &planned, end, 0).await?,
            Outage::Clock(ahead) => leaders(stage, tracks, &planned, End::Killed, ahead).await?,
            Outage::ApiServer(after) => {
                away(stage, tracks, &planned, Component::KubeApiserver, after).await?
            }
            Outage::Etcd(after) => away(stage, tracks, &planned, Component::Etcd, after).await?,
            Outage::Definitions => redefined(stage, tracks, &planned).await?,
        };
        for verdict in verdicts {
            progress.take(verdict);
        }
    }
    Ok(())
}

/// The runs that one outage meets, for each outage. Those of leaders come last.
fn batches(planned: Vec<Planned>) -> Vec<(Outage, Vec<Planned>)> {
    let mut batches = BTreeMap::<_, (Outage, Vec<_>)>::new();
    for planned in planned {
        let Blow::Outage(outage) = planned.blow else { continue };
        let place = (outage.is_of_leaders(), planned.id.class, planned.id.point.clone());
        batches.entry(place).or_insert_with(|| (outage, Vec::new())).1.push(planned);
    }
    batches.into_values().collect()
}

fn is_of(track: &Track, planned: &Planned) -> bool {
    track.controller == planned.id.controller
}

/// Begins all runs, and lets the outage come while they go on.
async fn together<'l>(
    stage: &Stage,
    tracks: &'l [Track],
    planned: &[Planned],
    lane: impl Fn(&Planned) -> Option<&'l Lane>,
    outage: impl Future<Output = Result<()>>,
) -> Result<Vec<Verdict>> {
    let begun = planned.iter().map(async |planned| {
        let track = tracks.iter().find(|track| is_of(track, planned)).context("the controller is known")?;
        let lane = lane(planned).context("the controller has a manager")?;
        let (workload, reference) = track.held(planned)?;
        let token = begin(lane, workload, planned).await?;
        Ok::<_, anyhow::Error>((lane, workload, reference, token))
    });
    let all = async {
        let begun: Vec<_> = stream::iter(begun).buffered(AT_ONCE).collect().await;
        let runs = planned.iter().zip(begun).map(async |(planned, begun)| {
            let run = async {
                let (lane, workload, reference, token) = begun?;
                go(lane, workload, planned, reference, token).await
            };
            Verdict::of(planned, run.await)
        });
        tokio::join!(outage, join_all(runs))
    };
    tokio::select! {
        (outage, verdicts) = all => outage.map(|()| verdicts),
        failed = keep_up(stage) => Err(failed),
    }
}

/// Does what kubelets do: starts what ends by itself, such as kube-scheduler when an outage has made it lose track of pods, and
/// looks again at pods of which nothing has come. Ends when a start fails.
async fn keep_up(stage: &Stage) -> anyhow::Error {
    let mut reminder = Reminder::new(stage.client.clone(), HOME);
    loop {
        sleep(AWAY).await;
        if let Err(failed) = stage.cluster.revive_components() {
            return failed;
        }
        reminder.look().await;
    }
}

/// A part of the control plane ends, some time after the changes have begun, and comes back.
async fn away(
    stage: &Stage,
    tracks: &[Track],
    planned: &[Planned],
    component: Component,
    after: Duration,
) -> Result<Vec<Verdict>> {
    let outage = async {
        if !after.is_zero() {
            sleep(after).await;
        }
        stage.cluster.kill_component(component)?;
        sleep(AWAY).await;
        stage.cluster.start_component(component)?;
        stage.cluster.ready(stage.patience).await
    };
    together(stage, tracks, planned, |planned| own_lane(tracks, planned), outage).await
}

/// The manager that has the controller of a run alone.
fn own_lane<'t>(tracks: &'t [Track], planned: &Planned) -> Option<&'t Lane> {
    tracks.iter().find(|track| is_of(track, planned)).map(|track| &track.lane)
}

/// All definitions are changed while the changes go on, and changed back.
async fn redefined(stage: &Stage, tracks: &[Track], planned: &[Planned]) -> Result<Vec<Verdict>> {
    let definitions = Api::<CustomResourceDefinition>::all(stage.client.clone());
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
        sleep(UNDER_WAY).await;
        change(Some("faults")).await?;
        sleep(AWAY).await;
        change(None).await
    };
    together(stage, tracks, planned, |planned| own_lane(tracks, planned), outage).await
}

/// Two managers share all controllers, and the clock of the second may be ahead. The one that leads them meets its end.
async fn leaders(
    stage: &Arc<Stage>,
    tracks: &[Track],
    planned: &[Planned],
    end: End,
    ahead: i64,
) -> Result<Vec<Verdict>> {
    let name = |place: &str| format!("{end:?}-{ahead}-{place}").to_lowercase();
    let first = Lane::replica(stage.clone(), &name("first"), Vec::new()).await?;
    until_led_by(stage, &name("first")).await?;
    let clock = if ahead == 0 { Vec::new() } else { clock::ahead(ahead)? };
    let second = Lane::replica(stage.clone(), &name("second"), clock).await?;
    if ahead != 0 {
        // To whom a lease seems to have ended long ago, or to last for long, it must seem so by its own clock.
        sleep(OUT).await;
        until_led_by(stage, &name("first")).await.context("a wrong clock has taken the lease away")?;
    }
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
    let verdicts = together(stage, tracks, planned, |_| Some(&second), outage).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(id: &str, outage: Outage) -> Planned {
        Planned { id: id.parse().unwrap(), blow: Blow::Outage(outage), words: String::new() }
    }

    #[test]
    fn what_needs_the_managers_of_the_tracks_comes_before_they_end() {
        let killed = Outage::Leader(End::Killed);
        let all = [
            planned("podset/create/F16/killed", killed),
            planned("podset/create/F19/definitions", Outage::Definitions),
            planned("tenant/create/F16/killed", killed),
            planned("podset/create/F17/ahead", Outage::Clock(300)),
            planned("podset/create/F14/during", Outage::ApiServer(AWAY)),
        ];
        let order: Vec<_> =
            batches(all.into()).into_iter().map(|(outage, runs)| (outage, runs.len())).collect();
        let wanted =
            [(Outage::ApiServer(AWAY), 1), (Outage::Definitions, 1), (killed, 2), (Outage::Clock(300), 1)];
        assert_eq!(order, wanted);
    }
}
