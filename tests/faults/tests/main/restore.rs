//! That a cluster which is put back to what it was some time ago is believed.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cluster::{Component, wait::eventually};
use faults::{
    lane::Lane,
    observe::Observer,
    oracle::normal::{difference, end_state},
    stage::Stage,
    token::Token,
    workload::{self, CONTROLLERS, Workload},
};

use crate::support::program;

/// Long enough for Kubernetes' own controllers to find out.
const PATIENCE: Duration = Duration::from_mins(3);

/// What changes the objects of a controller without deleting them.
fn change(controller: &str) -> &'static Workload {
    let name = if ["podset", "memcached"].contains(&controller) { "scale-up" } else { "change" };
    workload::of(controller).iter().find(|workload| workload.name == name).unwrap()
}

/// What asks the API server, and has to be started anew with a backup.
const CLIENTS: [Component; 3] = [Component::KubeScheduler, Component::KubeControllerManager, Component::Kwok];

/// Stops the control plane, does something to the folder that it stores into, and starts it again.
async fn while_stopped(stage: &Stage, act: impl FnOnce(&Path)) {
    let cluster = &stage.cluster;
    for part in CLIENTS.into_iter().chain([Component::KubeApiserver, Component::Etcd]) {
        cluster.stop_component(part).unwrap();
    }
    act(&cluster.record().dir.join("etcd"));
    for part in [Component::Etcd, Component::KubeApiserver] {
        cluster.start_component(part).unwrap();
    }
    // They end by themselves if they wait for it for too long.
    cluster.ready(PATIENCE).await.unwrap();
    for part in CLIENTS {
        cluster.start_component(part).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("--archive").args([from, to]).status().unwrap();
    assert!(done.success());
}

async fn go(stage: &Stage, runs: &[(&Workload, Token)], what: impl Fn(&Workload) -> Steps) {
    for (workload, token) in runs {
        stage.take(*token, what(workload)(&token.to_string()), PATIENCE).await.unwrap();
    }
}

async fn reach(observer: &Observer, runs: &[(&Workload, Token)]) {
    eventually("all to be as it is asked", PATIENCE, async || {
        let misses = runs.iter().flat_map(|(workload, token)| {
            let state = observer.state(*token);
            (workload.goals)(&token.to_string()).into_iter().filter(move |goal| !goal.is_reached(&state))
        });
        let misses: Vec<_> = misses.collect();
        Ok(if misses.is_empty() { Ok(()) } else { Err(misses) })
    })
    .await
    .unwrap();
}

type Steps = fn(&str) -> Vec<workload::Step>;

#[tokio::test]
async fn a_backup_that_is_restored_is_what_counts() {
    let stage = Arc::new(Stage::start(&program(), PATIENCE).await.unwrap());
    let lane = Lane::replica(stage.clone(), "restored", Vec::new()).await.unwrap();
    let runs = CONTROLLERS.map(|controller| (change(controller), stage.token()));
    go(&stage, &runs, |workload| workload.before).await;
    let ends = runs.map(|(_, token)| end_state(token, &stage.observer.state(token)));

    let backup: PathBuf = stage.cluster.record().dir.join("backup");
    while_stopped(&stage, |data| copy(data, &backup)).await;
    go(&stage, &runs, |workload| workload.act).await;
    reach(&stage.observer, &runs).await;

    let said = lane.said();
    while_stopped(&stage, |data| {
        std::fs::remove_dir_all(data).unwrap();
        copy(&backup, data);
    })
    .await;
    // As a kubelet does.
    eventually("the manager to notice, and to end", PATIENCE, async || Ok(lane.ensure_running().is_err()))
        .await
        .unwrap();
    assert!(lane.words(said).unwrap().contains("the API server has gone back"));
    lane.revive().unwrap();
    // Watches of before would not tell of anything.
    let observer = Observer::follow(&stage.client);
    eventually("all to be as it was", PATIENCE, async || {
        let differences = runs.iter().zip(&ends).filter_map(|((workload, token), end)| {
            let differs = difference(end, &end_state(*token, &observer.state(*token)))?;
            Some(format!("{}: {differs}", workload.controller))
        });
        let differences: Vec<_> = differences.collect();
        Ok(if differences.is_empty() { Ok(()) } else { Err(differences) })
    })
    .await
    .unwrap();

    go(&stage, &runs, |workload| workload.act).await;
    reach(&observer, &runs).await;
    lane.ensure_running().unwrap();
    stage.cluster.ensure_running().unwrap();
}
