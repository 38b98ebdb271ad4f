//! The candidate for the Lease of the cluster.
//!
//! The plan says what to do with the Lease; this task does it, and says until when PostgreSQL may write.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, api::PostParams};
use lease::{Machine, Step, Timing, Write, WriteResult, Writer, record, unused};
use postgres_model::instance::{LeaseIntent, LeaseView, Moment};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::clock::now;

/// How long to wait after a failed request, and between two looks at a Lease of somebody else.
const RETRY: Duration = Duration::from_millis(500);

/// Returns the durations of a Lease: the deadline is two thirds of it.
///
/// # Errors
/// Returns an error if the Lease is too short.
pub fn timing(lease: Duration) -> Result<Timing, lease::TimingError> {
    Timing::new(lease, lease * 2 / 3, RETRY)
}

/// The main loop's side of the election.
#[derive(Debug)]
pub struct Election {
    intent: watch::Sender<LeaseIntent>,
    view: watch::Receiver<LeaseView>,
}

/// The task.
struct Candidate {
    api: Api<Lease>,
    name: String,
    namespace: String,
    /// Name and UID of the Pod.
    identity: String,
    timing: Timing,
    set_until: Box<dyn Fn(Moment) + Send>,
    view: watch::Sender<LeaseView>,
    candidacy: Option<Candidacy>,
    /// Number of candidacies so far: an identity is never used twice.
    candidacies: u64,
    failing: bool,
}

/// A candidacy for one epoch.
struct Candidacy {
    epoch: u64,
    machine: Machine,
    writer: Writer,
    lease: Option<Lease>,
    released: bool,
}

impl Election {
    /// Starts the task, as a candidate for the Lease of this name. It calls `set_until` with the moment until
    /// which PostgreSQL may write, before anybody else learns of it.
    pub fn start(
        api: Api<Lease>,
        namespace: &str,
        name: &str,
        identity: String,
        timing: Timing,
        set_until: impl Fn(Moment) + Send + 'static,
    ) -> Self {
        let (intent, intents) = watch::channel(LeaseIntent::None);
        let (sender, view) = watch::channel(LeaseView::default());
        let candidate = Candidate {
            api,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            identity,
            timing,
            set_until: Box::new(set_until),
            view: sender,
            candidacy: None,
            candidacies: 0,
            failing: false,
        };
        tokio::spawn(candidate.run(intents));
        Self { intent, view }
    }

    /// Says what to do with the Lease.
    pub fn set(&self, intent: LeaseIntent) {
        self.intent.send_if_modified(|present| {
            let is_new = *present != intent;
            *present = intent;
            is_new
        });
    }

    /// Returns the Lease, as far as this instance holds it.
    pub fn view(&self) -> LeaseView {
        *self.view.borrow()
    }

    /// Waits until the Lease was acquired, renewed, or lost.
    pub async fn changed(&mut self) {
        if self.view.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Candidate {
    async fn run(mut self, mut intents: watch::Receiver<LeaseIntent>) {
        loop {
            let intent = intents.borrow_and_update().clone();
            self.adopt(&intent);
            let step = self.next(&intent);
            self.publish();
            match step {
                Some(Step::Read) => self.read().await,
                Some(Step::Write(write)) => self.write(write).await,
                Some(Step::Done) => self.candidacy = None,
                Some(Step::Wait(until)) => tokio::select! {
                    changed = intents.changed() => if changed.is_err() { return },
                    () = sleep(until.saturating_sub(now())) => {}
                },
                None if intents.changed().await.is_err() => return,
                None => {}
            }
            self.publish();
        }
    }

    /// Begins or ends a candidacy, as the plan says.
    fn adopt(&mut self, intent: &LeaseIntent) {
        let leads = now() < self.leads_until();
        match (intent, &mut self.candidacy) {
            (LeaseIntent::Acquire { epoch, expired }, candidacy)
                if candidacy.as_ref().is_none_or(|present| present.epoch != *epoch || present.released) =>
            {
                self.begin(*epoch, expired.clone());
            }
            (LeaseIntent::None, Some(_)) if !leads => self.candidacy = None,
            (LeaseIntent::Release, Some(candidacy)) if !candidacy.released => {
                candidacy.released = true;
                candidacy.machine.resign(now());
            }
            _ => {}
        }
    }

    fn begin(&mut self, epoch: u64, expired: Option<String>) {
        self.candidacies += 1;
        let identity = format!("{}_{epoch}_{}", self.identity, self.candidacies);
        info!(lease = self.name, epoch, "acquiring the Lease");
        self.candidacy = Some(Candidacy {
            epoch,
            machine: Machine::new(identity.clone(), self.timing, now()).with_expired(expired),
            writer: Writer::new(identity, self.timing),
            lease: None,
            released: false,
        });
    }

    /// Returns the next step. The Lease is left alone unless the plan wants it.
    fn next(&mut self, intent: &LeaseIntent) -> Option<Step> {
        let candidacy = self.candidacy.as_mut()?;
        let is_active =
            matches!(intent, LeaseIntent::Acquire { .. } | LeaseIntent::Renew | LeaseIntent::Release);
        is_active.then(|| candidacy.machine.next(now(), Duration::ZERO, false))
    }

    fn leads_until(&self) -> Moment {
        self.candidacy.as_ref().map_or(Moment::ZERO, |candidacy| candidacy.machine.leads_until())
    }

    fn publish(&self) {
        let view = LeaseView {
            leads_until: self.leads_until(),
            epoch: self.candidacy.as_ref().map(|candidacy| candidacy.epoch),
        };
        (self.set_until)(view.leads_until);
        self.view.send_if_modified(|present| std::mem::replace(present, view) != view);
    }

    async fn read(&mut self) {
        let Some(candidacy) = &mut self.candidacy else { return };
        let started = now();
        let answer = timeout(candidacy.machine.request_timeout(started), self.api.get_opt(&self.name)).await;
        let found = answer.map_err(anyhow::Error::from).and_then(|answer| answer.map_err(Into::into));
        match found {
            Ok(found) => {
                candidacy.machine.read_done(started, now(), Ok(found.as_ref().map(record)));
                // Keep a deleted Lease: its contents are needed to recreate it.
                candidacy.lease = found.or_else(|| candidacy.lease.take());
                self.succeeded();
            }
            Err(error) => {
                candidacy.machine.read_done(started, now(), Err(()));
                self.failed("read", &error);
            }
        }
    }

    async fn write(&mut self, write: Write) {
        let Some(candidacy) = &mut self.candidacy else { return };
        let started = now();
        let unused = || unused(&self.name, &self.namespace, BTreeMap::new());
        let last = candidacy.lease.as_ref();
        let Some(lease) = candidacy.writer.desired(&write, last, unused, Timestamp::now()) else {
            return candidacy.machine.write_done(&write, started, now(), WriteResult::Rejected);
        };
        let params = PostParams::default();
        let request = async {
            match write {
                Write::Create | Write::Recreate => self.api.create(&params, &lease).await,
                Write::Acquire(_) | Write::Renew(_) | Write::Release(_) => {
                    self.api.replace(&self.name, &params, &lease).await
                }
            }
        };
        let answer = timeout(candidacy.machine.request_timeout(now()), request).await;
        let (result, error) = match answer {
            Ok(Ok(lease)) => {
                let version = lease.metadata.resource_version.clone().unwrap_or_default();
                candidacy.lease = Some(lease);
                (WriteResult::Committed(version), None)
            }
            Ok(Err(error)) => (classify(&error), Some(error.into())),
            Err(elapsed) => (WriteResult::Unknown, Some(elapsed.into())),
        };
        candidacy.machine.write_done(&write, started, now(), result);
        match error {
            None => self.succeeded(),
            Some(error) => self.failed("write", &error),
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.failing) {
            info!(lease = self.name, "the API server answers requests for the Lease again");
        }
    }

    fn failed(&mut self, action: &str, error: &anyhow::Error) {
        if !std::mem::replace(&mut self.failing, true) {
            warn!(lease = self.name, action, error = %format_args!("{error:#}"), "cannot read or write the Lease; trying again");
        }
    }
}

fn classify(error: &kube::Error) -> WriteResult {
    match error {
        kube::Error::Api(status) => WriteResult::of_error(status.code),
        _ => WriteResult::Unknown,
    }
}
