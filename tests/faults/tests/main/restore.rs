//! The controllers accept the state of a restored etcd backup.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cluster::{Component, wait::eventually};
use faults::{
    observer::Observer,
    oracle::end_state::{difference, end_state},
    test_cluster::TestCluster,
    token::Token,
    worker::Worker,
    workload::{self, CONTROLLERS, Workload},
};

use crate::support::program;

/// Long enough for Kubernetes' own controllers to recover.
const PATIENCE: Duration = Duration::from_mins(3);

/// Returns the workload that changes the objects of a controller without deleting them.
fn change(controller: &str) -> &'static Workload {
    let name = if ["podset", "memcached"].contains(&controller) { "scale-up" } else { "change" };
    workload::of(controller).iter().find(|workload| workload.name == name).unwrap()
}

/// Clients of the API server that must be restarted with a backup.
const CLIENTS: [Component; 3] = [Component::KubeScheduler, Component::KubeControllerManager, Component::Kwok];

/// Stops the control plane, modifies its data folder, and starts it again.
async fn while_stopped(test_cluster: &TestCluster, act: impl FnOnce(&Path)) {
    let cluster = &test_cluster.cluster;
    for part in CLIENTS.into_iter().chain([Component::KubeApiserver, Component::Etcd]) {
        cluster.stop_component(part).unwrap();
    }
    act(&cluster.record().dir.join("etcd"));
    for part in [Component::Etcd, Component::KubeApiserver] {
        cluster.start_component(part).unwrap();
    }
    // They exit after waiting too long for the API server.
    cluster.ready(PATIENCE).await.unwrap();
    for part in CLIENTS {
        cluster.start_component(part).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("--archive").args([from, to]).status().unwrap();
    assert!(done.success());
}

async fn go(test_cluster: &TestCluster, runs: &[(&Workload, Token)], what: impl Fn(&Workload) -> Steps) {
    for (workload, token) in runs {
        test_cluster.take(*token, what(workload)(&token.to_string()), PATIENCE).await.unwrap();
    }
}

async fn reach(observer: &Observer, runs: &[(&Workload, Token)]) {
    eventually("all objects to be ready", PATIENCE, async || {
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
async fn controllers_accept_restored_backup() {
    let test_cluster = Arc::new(TestCluster::start(&program(), PATIENCE).await.unwrap());
    let worker = Worker::replica(test_cluster.clone(), "restored", Vec::new()).await.unwrap();
    // The simulated databases of PostgresClusters are not part of the backup.
    let others = CONTROLLERS.iter().filter(|controller| **controller != "postgres");
    let runs = others.map(|controller| (change(controller), test_cluster.token()));
    let runs: Vec<_> = runs.collect();
    go(&test_cluster, &runs, |workload| workload.before).await;
    let end_states = runs.iter().map(|(_, token)| end_state(*token, &test_cluster.observer.state(*token)));
    let end_states: Vec<_> = end_states.collect();

    let backup: PathBuf = test_cluster.cluster.record().dir.join("backup");
    while_stopped(&test_cluster, |data| copy(data, &backup)).await;
    go(&test_cluster, &runs, |workload| workload.act).await;
    reach(&test_cluster.observer, &runs).await;

    let position = worker.log_position();
    while_stopped(&test_cluster, |data| {
        std::fs::remove_dir_all(data).unwrap();
        copy(&backup, data);
    })
    .await;
    // Restarts the component, as a kubelet does.
    eventually("the manager to detect the restore and exit", PATIENCE, async || {
        Ok(worker.ensure_running().is_err())
    })
    .await
    .unwrap();
    assert!(worker.log_since(position).unwrap().contains("the resource version of the Lease went backwards"));
    worker.restart().unwrap();
    // Watches from before the restore receive no events.
    let observer = Observer::follow(&test_cluster.client);
    eventually("the state of the backup", PATIENCE, async || {
        let differences = runs.iter().zip(&end_states).filter_map(|((workload, token), end)| {
            let differs = difference(end, &end_state(*token, &observer.state(*token)))?;
            Some(format!("{}: {differs}", workload.controller))
        });
        let differences: Vec<_> = differences.collect();
        Ok(if differences.is_empty() { Ok(()) } else { Err(differences) })
    })
    .await
    .unwrap();

    go(&test_cluster, &runs, |workload| workload.act).await;
    reach(&observer, &runs).await;
    worker.ensure_running().unwrap();
    test_cluster.cluster.ensure_running().unwrap();
}
