//! All runs that are asked for, each controller in a lane of its own.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use parking_lot::Mutex;

use crate::{
    class::Class,
    id::RunId,
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
/// How often a run is repeated whose fault found nothing to strike.
const REPEATS: usize = 2;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The controllers.
    pub controllers: Vec<&'static str>,
    /// The classes of faults.
    pub classes: Vec<Class>,
    /// The one run, if it is one.
    pub only: Option<RunId>,
    /// Which part of how many of the runs: the first is 1.
    pub shard: (usize, usize),
    /// How long a run may take until it is as it should be.
    pub patience: Duration,
    /// What part of 1 s, 5 s and 30 s slow requests take longer.
    pub latency: f64,
}

impl Asked {
    /// Everything.
    pub fn everything() -> Self {
        Self {
            controllers: workload::CONTROLLERS.into(),
            classes: Class::all().collect(),
            only: None,
            shard: (1, 1),
            patience: Duration::from_mins(1),
            latency: 0.1,
        }
    }

    fn wants(&self, workload: &Workload) -> bool {
        let only = self.only.as_ref();
        self.controllers.contains(&workload.controller)
            && only.is_none_or(|id| id.controller == workload.controller && id.workload == workload.name)
    }

    /// The runs of a plan that are asked for.
    fn pick(&self, planned: Vec<Planned>) -> Vec<Planned> {
        if let Some(only) = &self.only {
            return planned.into_iter().filter(|run| run.id == *only).collect();
        }
        let (part, parts) = self.shard;
        let is_mine = |place: usize| place % parts.max(1) == part.saturating_sub(1);
        planned.into_iter().enumerate().filter(|(place, _)| is_mine(*place)).map(|(_, run)| run).collect()
    }
}

/// What has been done so far.
struct Progress {
    began: Instant,
    done: AtomicUsize,
    verdicts: Mutex<Vec<Verdict>>,
}

impl Progress {
    fn take(&self, controller: &str, verdict: Verdict) {
        if !verdict.is_good() {
            println!("{}", complaint(&verdict));
        }
        self.verdicts.lock().push(verdict);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(50) {
            println!("{done} runs after {:.0} s ({controller})", self.began.elapsed().as_secs_f64());
        }
    }
}

/// Runs what is asked for. Returns what came of it.
pub async fn run(program: &Path, asked: &Asked) -> Result<Vec<Verdict>> {
    let stage = Arc::new(Stage::start(program, asked.patience).await?);
    let progress = Progress { began: Instant::now(), done: AtomicUsize::new(0), verdicts: Mutex::default() };
    let lanes = asked
        .controllers
        .iter()
        .filter(|controller| workload::of(controller).iter().any(|workload| asked.wants(workload)));
    try_join_all(lanes.map(|controller| run_lane(stage.clone(), controller, asked, &progress))).await?;
    let mut verdicts = progress.verdicts.into_inner();
    verdicts.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(verdicts)
}

/// What would be run.
pub async fn list(program: &Path, asked: &Asked) -> Result<Vec<Planned>> {
    let stage = Arc::new(Stage::start(program, asked.patience).await?);
    let mut all = Vec::new();
    for controller in &asked.controllers {
        let lane = Lane::start(stage.clone(), controller).await?;
        let references = learn(&lane, asked).await?;
        all.extend(asked.pick(plan(controller, &asked.classes, asked.latency, &references)));
    }
    Ok(all)
}

async fn run_lane(
    stage: Arc<Stage>,
    controller: &'static str,
    asked: &Asked,
    progress: &Progress,
) -> Result<()> {
    let lane = Lane::start(stage, controller).await?;
    let references = learn(&lane, asked).await?;
    let planned = asked.pick(plan(controller, &asked.classes, asked.latency, &references));
    println!("{controller}: {} workloads learnt, {} runs planned", references.len(), planned.len());
    let (alone, beside): (Vec<_>, Vec<_>) =
        planned.into_iter().partition(|planned| planned.id.class.is_exclusive());
    let attempt = async |planned: Planned| {
        let verdict = attempt(&lane, &planned, &references).await;
        let verdict = verdict.with_context(|| format!("the run {}", planned.id))?;
        progress.take(controller, verdict);
        Ok::<_, anyhow::Error>(())
    };
    stream::iter(beside.into_iter().map(&attempt)).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    for planned in alone {
        attempt(planned).await?;
    }
    lane.kill()
}

async fn learn(lane: &Lane, asked: &Asked) -> Result<BTreeMap<&'static str, Reference>> {
    let wanted = workload::of(lane.controller).iter().filter(|workload| asked.wants(workload));
    let looks = wanted.map(async |workload| {
        let mut seen = Vec::new();
        for _ in 0..TIMES {
            seen.push(look(lane, workload).await?);
        }
        reference(&seen).map(|reference| (workload.name, reference))
    });
    let named = looks.zip(workload::of(lane.controller).iter().filter(|workload| asked.wants(workload)));
    let named = named.map(async |(look, workload)| {
        look.await.with_context(|| format!("learn {}/{}", workload.controller, workload.name))
    });
    let learnt: Vec<Result<_>> = stream::iter(named).buffer_unordered(AT_ONCE).collect().await;
    let (good, bad): (Vec<_>, Vec<_>) = learnt.into_iter().partition(Result::is_ok);
    let bad: Vec<_> = bad.into_iter().filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(bad.is_empty(), "{}", bad.join("\n"));
    good.into_iter().collect()
}

/// One run, again if its fault found nothing to strike.
async fn attempt(
    lane: &Lane,
    planned: &Planned,
    references: &BTreeMap<&'static str, Reference>,
) -> Result<Verdict> {
    let name = planned.id.workload.as_str();
    let workload = workload::of(lane.controller).iter().find(|workload| workload.name == name);
    let workload = workload.context("the workload is known")?;
    let reference = references.get(name).context("the workload was learnt")?;
    let mut verdict = try_fault(lane, workload, planned, reference).await?;
    for _ in 0..REPEATS {
        if verdict.struck || !verdict.is_good() {
            break;
        }
        verdict = try_fault(lane, workload, planned, reference).await?;
    }
    Ok(verdict)
}
