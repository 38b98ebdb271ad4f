//! A run with its fault.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    baseline::Baseline,
    injection::{Expiry, Injection, Sender, Trigger},
    kinds::OBSERVED,
    observer::{Change, State},
    oracle::{
        counts::{counts, lost, most_deletions, surplus},
        end_state::{difference, end_state},
        invariants::violations,
        log::problems,
    },
    plan::Planned,
    proxy::{
        Control,
        rules::{Fault, FrameFault, FrameRule, RequestRule, Stale, Which},
    },
    test_cluster::TestCluster,
    token::Token,
    worker::Worker,
    workload::{Step, Workload, is_observed},
};

/// Time without changes after which a run is complete.
pub(crate) const IDLE: Duration = Duration::from_millis(300);
/// Polling interval.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// How long an outdated state is returned.
const OUTDATED_FOR: Duration = Duration::from_millis(1500);
/// Longer than an informer waits for the next bookmark.
const SILENT_FOR: Duration = Duration::from_secs(95);
/// How many slow requests can follow each other, with a margin: 85 create a PostgresCluster.
const SLOW_REQUESTS: u32 = 100;
/// Recovery time of Kubernetes' own controllers after an outage of the API server.
const RECOVERY: Duration = Duration::from_mins(2);

impl Planned {
    /// Executes the action of a fault.
    pub(crate) async fn act(&self, worker: &Worker, workload: &Workload, token: Token) -> Result<()> {
        let (test_cluster, name) = (&worker.test_cluster, token.to_string());
        let patience = self.patience(test_cluster);
        test_cluster.take(token, (workload.act)(&name), patience).await?;
        if let Injection::Modify(steps) = &self.injection {
            test_cluster.until(token, &(workload.goals)(&name), patience).await?;
            test_cluster.take(token, steps(&name), patience).await?;
        }
        Ok(())
    }

    /// Returns the timeout for each step and for convergence.
    pub(crate) fn patience(&self, test_cluster: &TestCluster) -> Duration {
        let longer = match self.injection {
            Injection::Silence(_) => SILENT_FOR,
            Injection::Outage(_) => RECOVERY,
            Injection::Requests { fault: Fault::Delay(delay), .. } => delay * SLOW_REQUESTS,
            _ => Duration::ZERO,
        };
        test_cluster.patience + longer
    }

    /// Returns how many more creations and deletions the fault allows. A deleted object is
    /// recreated. An outdated spec may cause objects to be created and deleted again. With an
    /// outdated cache, other Pods may be selected for deletion.
    fn allowed(&self, token: Token, baseline: &Baseline) -> usize {
        match self.injection {
            Injection::Modify(steps) => {
                let deletions = |step: &&Step| matches!(step, Step::Delete(_));
                steps(&token.to_string()).iter().filter(deletions).count()
            }
            Injection::OutdatedCache(_) => most_deletions(&baseline.counts).max(1),
            _ => 0,
        }
    }
}

/// A run with its fault.
pub(crate) struct Trial<'t> {
    worker: &'t Worker,
    token: Token,
    baseline: &'t Baseline,
    pub(crate) planned: &'t Planned,
    pub(crate) began: Instant,
    /// Number of changes before the run.
    first_change: usize,
    /// When the manager started to see an outdated state.
    outdated_cache: Option<Instant>,
    injected: bool,
}

impl<'t> Trial<'t> {
    pub(crate) fn new(
        worker: &'t Worker,
        token: Token,
        baseline: &'t Baseline,
        planned: &'t Planned,
    ) -> Self {
        let first_change = worker.test_cluster.observer.count(token);
        Self {
            worker,
            token,
            baseline,
            planned,
            began: Instant::now(),
            first_change,
            outdated_cache: None,
            injected: true,
        }
    }

    pub(crate) fn arm(&mut self) {
        let (token, proxy) = (self.token, &self.worker.proxy);
        let inject_request = |sender, which: &Which, fault: &Fault| {
            let (which, fault) = (which.clone(), fault.clone());
            self.worker.rules_of(sender).add_request_fault(RequestRule { token, which, fault });
        };
        let inject_frame = |resource: Option<&String>, event: Option<&String>, nth, fault| {
            let (resource, event) = (resource.cloned(), event.cloned());
            proxy.rules().add_frame_fault(FrameRule { token, resource, event, nth, fault });
        };
        match &self.planned.injection {
            Injection::Requests { sender, which, fault, .. } => inject_request(*sender, which, fault),
            Injection::Frames(frames) => {
                for frame in frames {
                    inject_frame(frame.resource.as_ref(), frame.event.as_ref(), frame.nth, frame.fault);
                }
            }
            Injection::OutdatedCache(Trigger::Write(key, nth)) => {
                inject_request(Sender::Manager, &Which::Nth(key.clone(), *nth), &Fault::CrashAfter);
            }
            Injection::OutdatedCache(Trigger::Gone(resource)) => {
                inject_frame(Some(resource), Some(&"DELETED".to_owned()), Some(1), FrameFault::Crash);
            }
            Injection::Expire(resource, Expiry::InStream) => {
                proxy.send_control(Control::Expire(Some(resource.clone())));
            }
            Injection::Expire(resource, Expiry::AtConnect) => {
                proxy.rules().expired.push(resource.clone());
                proxy.send_control(Control::End(resource.clone()));
            }
            Injection::Expire(resource, Expiry::Continue) => {
                proxy.rules().paged = true;
                proxy.send_control(Control::Expire(Some(resource.clone())));
            }
            Injection::Silence(resource) => proxy.send_control(Control::Silence(Some(resource.clone()))),
            Injection::Outage(_) | Injection::Modify(_) => {}
        }
    }

    /// Removes the fault. Returns whether it was triggered.
    pub(crate) fn disarm(&mut self) -> bool {
        let is_left = self.worker.clear_faults(self.token);
        let mut rules = self.worker.proxy.rules();
        let is_left = is_left || rules.paged || !rules.expired.is_empty();
        if self.planned.id.class.is_exclusive() {
            (rules.paged, rules.expired) = (false, Vec::new());
        }
        self.injected && !is_left
    }

    /// Performs the pending actions of the fault.
    pub(crate) fn poll_fault(&mut self) -> Result<()> {
        if self.planned.id.class.is_exclusive() && self.worker.crash().is_some() {
            self.worker.kill()?;
            if matches!(self.planned.injection, Injection::OutdatedCache(_)) {
                self.worker.proxy.rules().stale = self.outdated_state();
                self.outdated_cache = Some(Instant::now());
            }
            self.worker.restart()?;
        }
        if self.outdated_cache.is_some_and(|since| since.elapsed() >= OUTDATED_FOR) {
            self.outdated_cache = None;
            self.worker.proxy.rules().stale = None;
            self.worker.proxy.send_control(Control::Expire(None));
        }
        if let Injection::Requests { heal_after: Some(after), .. } = &self.planned.injection
            && self.began.elapsed() >= *after
        {
            self.worker.clear_faults(self.token);
        }
        Ok(())
    }

    /// Returns the state before the first deletion, or `None` if the observer has not seen one.
    fn outdated_state(&mut self) -> Option<Stale> {
        let history = self.worker.test_cluster.observer.history(self.token);
        let ends = |change: &&Change| {
            change.is_gone || change.object.pointer("/metadata/deletionTimestamp").is_some()
        };
        let first =
            history.changes.iter().skip(self.first_change).filter(ends).map(|change| change.version).min();
        self.injected = first.is_some();
        let mut objects = HashMap::<_, Vec<_>>::new();
        for (id, object) in history.before(first?) {
            let kind = OBSERVED.into_iter().find(|kind| kind.singular == id.kind)?;
            objects.entry(kind.resource()).or_default().push((*object).clone());
        }
        Some(Stale { token: self.token, objects })
    }

    /// Waits until the end state equals the baseline and stays so. Returns the difference on
    /// timeout.
    pub(crate) async fn converge(&mut self) -> Result<Option<String>> {
        let observer = &self.worker.test_cluster.observer;
        let deadline = Instant::now() + self.planned.patience(&self.worker.test_cluster);
        let mut count = usize::MAX;
        let mut differs = None;
        let mut since = Instant::now();
        loop {
            self.poll_fault()?;
            if observer.count(self.token) != count {
                count = observer.count(self.token);
                differs = self.differs(&observer.state(self.token));
                since = Instant::now();
            }
            if differs.is_none() && since.elapsed() >= IDLE && self.outdated_cache.is_none() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(differs.or_else(|| Some("the run does not become idle".to_owned())));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the difference to the baseline.
    fn differs(&self, state: &State) -> Option<String> {
        let outdated = state.iter().find(|(_, object)| {
            object.pointer("/status/observedGeneration").is_some() && !is_observed(object)
        });
        if let Some((id, _)) = outdated {
            return Some(format!("the status of {} {} describes another generation", id.kind, id.name));
        }
        difference(&self.baseline.end, &end_state(self.token, state))
    }

    pub(crate) fn violations(&self, log_start: u64, took: Duration) -> Result<Vec<String>> {
        let history = self.worker.test_cluster.observer.history(self.token);
        let mut broken = violations(&history);
        broken.extend(surplus(
            &self.baseline.counts,
            &counts(self.token, &history),
            self.planned.allowed(self.token, self.baseline),
        ));
        if !matches!(self.planned.injection, Injection::Modify(_)) {
            broken.extend(lost(self.token, &self.baseline.counts, &history));
        }
        broken.extend(self.worker.test_cluster.members.violations(self.token));
        let writes = self.worker.proxy.rules().writes(self.token);
        let blind = writes.iter().filter(|write| write.lacks_uid);
        broken.extend(blind.map(|write| format!("{} has no UID precondition", write.key)));
        let minutes = usize::try_from(took.as_secs() / 60).unwrap_or_default() + 1;
        broken.extend(problems(self.token, &self.worker.log_since(log_start)?, minutes));
        Ok(broken)
    }

    /// Returns the history for debugging: the changes and the manager's writes.
    pub(crate) fn history(&self) -> Vec<String> {
        let changes = self.worker.test_cluster.observer.history(self.token).in_order();
        let writes = self.worker.proxy.rules().writes(self.token);
        let writes =
            writes.iter().map(|write| format!("response to the manager: {} {}", write.key, write.code));
        changes.iter().map(ToString::to_string).chain(writes).collect()
    }
}
