//! What the batches of a matrix share: the progress, and a track for each controller.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;

use crate::{
    baseline::Baseline,
    plan::Planned,
    report::failure_line,
    run::Verdict,
    worker::Worker,
    workload::{self, Workload},
};

/// Progress of the matrix.
pub(crate) struct Progress {
    began: Instant,
    done: AtomicUsize,
    verdicts: Mutex<Vec<Verdict>>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), done: AtomicUsize::new(0), verdicts: Mutex::default() }
    }

    /// Returns the verdicts so far.
    pub(crate) fn into_verdicts(self) -> Vec<Verdict> {
        self.verdicts.into_inner()
    }

    pub(crate) fn add(&self, verdict: Verdict) {
        if !verdict.is_good() {
            println!("{}", failure_line(&verdict));
        }
        self.verdicts.lock().push(verdict);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(50) {
            println!("{done} runs after {:.0} s", self.began.elapsed().as_secs_f64());
        }
    }
}

/// A controller with its worker and baselines.
pub(crate) struct Track {
    pub(crate) worker: Worker,
    pub(crate) controller: &'static str,
    pub(crate) baselines: BTreeMap<&'static str, Baseline>,
}

impl Track {
    /// Returns the workload of a run and its baseline.
    pub(crate) fn workload_and_baseline(&self, planned: &Planned) -> Result<(&'static Workload, &Baseline)> {
        let name = planned.id.workload.as_str();
        let workload = workload::of(self.controller).iter().find(|workload| workload.name == name);
        let baseline = self.baselines.get(name).context("the workload has no baseline")?;
        Ok((workload.context("the workload does not exist")?, baseline))
    }
}
