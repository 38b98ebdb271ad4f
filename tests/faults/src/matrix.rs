//! Executes all selected runs, with one worker per controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, future::try_join_all, stream};

use crate::{
    baseline::{Baseline, RECORDINGS, baseline},
    batch, clock,
    injection::Injection,
    plan::{Planned, plan},
    run::{Verdict, record, try_fault},
    selection::Selection,
    test_cluster::TestCluster,
    track::{Progress, Track},
    worker::Worker,
    workload::{self, Workload},
};

/// Maximum number of concurrent runs per worker.
const MAX_CONCURRENT: usize = 6;
/// Maximum number of attempts to record a baseline. On a slow machine, Kubernetes' own controllers
/// may exceed the waiting time.
const ATTEMPTS: usize = 3;
/// Maximum number of repetitions of a run whose fault was not triggered.
const REPEATS: usize = 2;

/// Executes the selected runs. Returns their verdicts.
pub async fn run(program: &Path, selection: &Selection) -> Result<Vec<Verdict>> {
    if selection.classes.iter().any(|class| class.is_about_clocks()) {
        // Fail early instead of after all other runs.
        clock::ahead(0)?;
    }
    let test_cluster = Arc::new(TestCluster::start(program, selection.patience).await?);
    let progress = Progress::new();
    let tracks = tracks(&test_cluster, selection).await?;
    let planned = planned(&tracks, selection);
    println!("{} runs planned", planned.len());
    let (shared, own): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|planned| matches!(planned.injection, Injection::Outage(_)));
    futures::future::join_all(tracks.iter().map(|track| {
        let own = own.iter().filter(|planned| planned.id.controller == track.controller);
        run_track(track, own.cloned().collect(), &progress)
    }))
    .await;
    batch::run_all(&test_cluster, &tracks, shared, &progress).await?;
    let mut verdicts = progress.into_verdicts();
    verdicts.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(verdicts)
}

/// Returns the runs that would be executed.
pub async fn list(program: &Path, selection: &Selection) -> Result<Vec<Planned>> {
    let test_cluster = Arc::new(TestCluster::start(program, selection.patience).await?);
    Ok(planned(&tracks(&test_cluster, selection).await?, selection))
}

async fn tracks(test_cluster: &Arc<TestCluster>, selection: &Selection) -> Result<Vec<Track>> {
    let has_runs = |controller: &&'static str| {
        workload::of(controller).iter().any(|workload| selection.includes(workload))
    };
    let selected = selection.controllers.iter().copied().filter(has_runs);
    // A needed controller without selected runs has no baselines, so nothing is planned for it.
    let started: BTreeSet<_> =
        selected.flat_map(|controller| [controller].into_iter().chain(workload::needs(controller))).collect();
    try_join_all(started.into_iter().map(async |controller| {
        let worker = Worker::start(test_cluster.clone(), controller).await?;
        let baselines = record_baselines(&worker, controller, selection).await?;
        println!("{controller}: {} baselines recorded", baselines.len());
        Ok(Track { worker, controller, baselines })
    }))
    .await
}

fn planned(tracks: &[Track], selection: &Selection) -> Vec<Planned> {
    let all = tracks
        .iter()
        .flat_map(|track| plan(track.controller, &selection.classes, selection.latency, &track.baselines));
    selection.filter(all.collect())
}

/// Executes the runs of a track: concurrent ones first, then exclusive ones.
async fn run_track(track: &Track, planned: Vec<Planned>, progress: &Progress) {
    let (alone, beside): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|planned| planned.id.class.is_exclusive());
    let attempt = async |planned: Planned| progress.add(attempt(track, &planned).await);
    stream::iter(beside.into_iter().map(&attempt)).buffer_unordered(MAX_CONCURRENT).collect::<()>().await;
    for planned in alone {
        attempt(planned).await;
    }
}

async fn record_baselines(
    worker: &Worker,
    controller: &'static str,
    selection: &Selection,
) -> Result<BTreeMap<&'static str, Baseline>> {
    let selected = workload::of(controller).iter().filter(|workload| selection.includes(workload));
    let looks = selected.map(async |workload| {
        let mut learnt = record_baseline(worker, workload).await;
        for _ in 1..ATTEMPTS {
            if learnt.is_err() {
                learnt = record_baseline(worker, workload).await;
            }
        }
        learnt.with_context(|| format!("record the baseline of {controller}/{}", workload.name))
    });
    let learnt: Vec<Result<_>> = stream::iter(looks).buffer_unordered(MAX_CONCURRENT).collect().await;
    let (good, bad): (Vec<_>, Vec<_>) = learnt.into_iter().partition(Result::is_ok);
    let bad: Vec<_> = bad.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    good.into_iter().collect()
}

async fn record_baseline(worker: &Worker, workload: &Workload) -> Result<(&'static str, Baseline)> {
    let mut recordings = Vec::new();
    for _ in 0..RECORDINGS {
        recordings.push(record(worker, workload).await?);
    }
    baseline(&recordings).map(|baseline| (workload.name, baseline))
}

/// Executes a run, and repeats it if its fault was not triggered.
async fn attempt(track: &Track, planned: &Planned) -> Verdict {
    let once = async || {
        let (workload, baseline) = track.workload_and_baseline(planned)?;
        try_fault(&track.worker, workload, planned, baseline).await
    };
    let mut verdict = Verdict::of(planned, once().await);
    for _ in 0..REPEATS {
        if verdict.injected || !verdict.is_good() {
            break;
        }
        verdict = Verdict::of(planned, once().await);
    }
    verdict
}
