//! All runs that are asked for, each controller in a lane of its own.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, future::try_join_all, stream};
use parking_lot::Mutex;

use crate::{
    asked::Asked,
    batch,
    blow::Blow,
    clock,
    lane::Lane,
    learn::{Reference, TIMES, reference},
    plan::{Planned, plan},
    report::complaint,
    run::{Verdict, look, try_fault},
    stage::Stage,
    workload::{self, Workload},
};

/// How many runs that do not disturb each other go on at once in a lane.
const AT_ONCE: usize = 6;
/// How often it is tried to learn a workload: on a busy machine, Kubernetes' own controllers may take longer than it is
/// waited for what is still to come.
const ATTEMPTS: usize = 3;
/// How often a run is repeated whose fault found nothing to strike.
const REPEATS: usize = 2;

/// What has been done so far.
pub(crate) struct Progress {
    began: Instant,
    done: AtomicUsize,
    verdicts: Mutex<Vec<Verdict>>,
}

impl Progress {
    pub(crate) fn take(&self, verdict: Verdict) {
        if !verdict.is_good() {
            println!("{}", complaint(&verdict));
        }
        self.verdicts.lock().push(verdict);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(50) {
            println!("{done} runs after {:.0} s", self.began.elapsed().as_secs_f64());
        }
    }
}

/// A controller, and what is known of its workloads.
pub(crate) struct Track {
    pub(crate) lane: Lane,
    pub(crate) controller: &'static str,
    references: BTreeMap<&'static str, Reference>,
}

impl Track {
    /// The workload of a run, and what it is held to.
    pub(crate) fn held(&self, planned: &Planned) -> Result<(&'static Workload, &Reference)> {
        let name = planned.id.workload.as_str();
        let workload = workload::of(self.controller).iter().find(|workload| workload.name == name);
        let reference = self.references.get(name).context("the workload was learnt")?;
        Ok((workload.context("the workload is known")?, reference))
    }
}

/// Runs what is asked for. Returns what came of it.
pub async fn run(program: &Path, asked: &Asked) -> Result<Vec<Verdict>> {
    if asked.classes.iter().any(|class| class.is_about_clocks()) {
        // Said now and not after all else.
        clock::ahead(0)?;
    }
    let stage = Arc::new(Stage::start(program, asked.patience).await?);
    let progress = Progress { began: Instant::now(), done: AtomicUsize::new(0), verdicts: Mutex::default() };
    let tracks = tracks(&stage, asked).await?;
    let planned = planned(&tracks, asked);
    println!("{} runs planned", planned.len());
    let (shared, own): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|planned| matches!(planned.blow, Blow::Outage(_)));
    futures::future::join_all(tracks.iter().map(|track| {
        let own = own.iter().filter(|planned| planned.id.controller == track.controller);
        run_track(track, own.cloned().collect(), &progress)
    }))
    .await;
    batch::run_all(&stage, &tracks, shared, &progress).await?;
    let mut verdicts = progress.verdicts.into_inner();
    verdicts.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(verdicts)
}

/// What would be run.
pub async fn list(program: &Path, asked: &Asked) -> Result<Vec<Planned>> {
    let stage = Arc::new(Stage::start(program, asked.patience).await?);
    Ok(planned(&tracks(&stage, asked).await?, asked))
}

async fn tracks(stage: &Arc<Stage>, asked: &Asked) -> Result<Vec<Track>> {
    let wanted = asked
        .controllers
        .iter()
        .filter(|controller| workload::of(controller).iter().any(|workload| asked.wants(workload)));
    try_join_all(wanted.map(async |controller| {
        let lane = Lane::start(stage.clone(), controller).await?;
        let references = learn(&lane, controller, asked).await?;
        println!("{controller}: {} workloads learnt", references.len());
        Ok(Track { lane, controller, references })
    }))
    .await
}

fn planned(tracks: &[Track], asked: &Asked) -> Vec<Planned> {
    let all = tracks
        .iter()
        .flat_map(|track| plan(track.controller, &asked.classes, asked.latency, &track.references));
    asked.pick(all.collect())
}

/// Those that disturb each other come one by one, after those that do not.
async fn run_track(track: &Track, planned: Vec<Planned>, progress: &Progress) {
    let (alone, beside): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|planned| planned.id.class.is_exclusive());
    let attempt = async |planned: Planned| progress.take(attempt(track, &planned).await);
    stream::iter(beside.into_iter().map(&attempt)).buffer_unordered(AT_ONCE).collect::<()>().await;
    for planned in alone {
        attempt(planned).await;
    }
}

async fn learn(
    lane: &Lane,
    controller: &'static str,
    asked: &Asked,
) -> Result<BTreeMap<&'static str, Reference>> {
    let wanted = workload::of(controller).iter().filter(|workload| asked.wants(workload));
    let looks = wanted.map(async |workload| {
        let mut learnt = learn_one(lane, workload).await;
        for _ in 1..ATTEMPTS {
            if learnt.is_err() {
                learnt = learn_one(lane, workload).await;
            }
        }
        learnt.with_context(|| format!("learn {controller}/{}", workload.name))
    });
    let learnt: Vec<Result<_>> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
    let (good, bad): (Vec<_>, Vec<_>) = learnt.into_iter().partition(Result::is_ok);
    let bad: Vec<_> = bad.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    good.into_iter().collect()
}

async fn learn_one(lane: &Lane, workload: &Workload) -> Result<(&'static str, Reference)> {
    let mut seen = Vec::new();
    for _ in 0..TIMES {
        seen.push(look(lane, workload).await?);
    }
    reference(&seen).map(|reference| (workload.name, reference))
}

/// One run, again if its fault found nothing to strike.
async fn attempt(track: &Track, planned: &Planned) -> Verdict {
    let once = async || {
        let (workload, reference) = track.held(planned)?;
        try_fault(&track.lane, workload, planned, reference).await
    };
    let mut verdict = Verdict::of(planned, once().await);
    for _ in 0..REPEATS {
        if verdict.struck || !verdict.is_good() {
            break;
        }
        verdict = Verdict::of(planned, once().await);
    }
    verdict
}
