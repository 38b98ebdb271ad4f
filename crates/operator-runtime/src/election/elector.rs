//! A candidate at work: does what the machine says, and tells the controller whether it leads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, api::PostParams};
use operator_core::{
    fence::{Fence, now},
    metrics::Metrics,
};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tracing::{error, info};

use super::{
    board::Board,
    lease::{self, Writer, seen},
    machine::{Lost, Machine, Seen, Step, Write, Written},
    timing::Timing,
    trouble::Trouble,
};

/// How much longer a candidate leaves a free Lease to others for each controller that it leads already, so that
/// replicas share them; and the most of it.
const HANDICAP: Duration = Duration::from_millis(200);
const MOST_HANDICAP: Duration = Duration::from_secs(1);

/// What the candidates of a process share.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) api: Api<Lease>,
    pub(super) namespace: String,
    /// Its name among the holders.
    pub(super) identity: String,
    pub(super) timing: Timing,
    /// How many controllers it leads.
    pub(super) leads: Arc<AtomicUsize>,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// One candidate.
pub(super) struct Elector {
    process: Process,
    controller: &'static str,
    name: String,
    machine: Machine,
    writer: Writer,
    /// As last read or written.
    lease: Option<Lease>,
    /// The highest version that an answer had.
    newest: u64,
    /// Whether an answer had a lower version than one before it.
    went_back: bool,
    board: watch::Receiver<Board>,
    /// What was last heard.
    heard: Option<Seen>,
    /// Differs between candidates, so that not all go for a free Lease at once.
    jitter: Duration,
    fence: Fence,
    leads: watch::Sender<bool>,
    trouble: Trouble,
}

impl Elector {
    pub(super) fn new(
        process: Process,
        controller: &'static str,
        board: watch::Receiver<Board>,
        fence: Fence,
        leads: watch::Sender<bool>,
    ) -> Self {
        Self {
            controller,
            name: lease::name(controller),
            machine: Machine::new(process.identity.clone(), process.timing, now()),
            writer: Writer { me: process.identity.clone(), timing: process.timing },
            lease: None,
            newest: 0,
            went_back: false,
            board,
            heard: None,
            jitter: Duration::from_millis(fastrand::u64(0..100)),
            fence,
            leads,
            trouble: Trouble::of(controller, &process.namespace),
            process,
        }
    }

    /// Holds the election until asked to resign, and then gives the Lease back.
    ///
    /// Ends by itself when the API server has gone back in time, as by a backup that was restored: what this process knows
    /// is of another world then, and no watch tells of changes until versions are as high again as they were.
    pub(super) async fn run(mut self, mut resign: oneshot::Receiver<()>) {
        let mut resigned = false;
        loop {
            let is_live = self.board.borrow().is_live;
            let step = self.machine.next(now(), self.handicap(), is_live);
            self.show();
            match step {
                Step::Look => self.look().await,
                Step::Write(write) => self.write(write).await,
                Step::Done => return,
                Step::Wait(until) => tokio::select! {
                    biased;
                    _ = &mut resign, if !resigned => {
                        resigned = true;
                        self.machine.resign(now());
                    }
                    Ok(()) = self.board.changed() => self.hear(),
                    () = sleep(until.saturating_sub(now())) => {}
                },
            }
            if self.went_back {
                return;
            }
            self.show();
        }
    }

    fn handicap(&self) -> Duration {
        let leads = self.process.leads.load(Ordering::Relaxed);
        self.jitter + MOST_HANDICAP.min(HANDICAP * leads.try_into().unwrap_or(u32::MAX))
    }

    fn hear(&mut self) {
        let board = self.board.borrow_and_update();
        let news = board.get(&self.name).cloned();
        if board.is_live && self.heard != news {
            self.heard.clone_from(&news);
            self.machine.heard(now(), news);
        }
    }

    /// How long a request may take. Nobody waits for an answer past the end of the term.
    fn patience(&self) -> Duration {
        let left = self.machine.leads_until().saturating_sub(now());
        let attempt = self.process.timing.attempt();
        if left.is_zero() { attempt } else { attempt.min(left) }
    }

    async fn look(&mut self) {
        let answer = timeout(self.patience(), self.process.api.get_opt(&self.name)).await;
        if let Ok(Ok(found)) = answer {
            if let Some(lease) = &found {
                self.compare(lease);
            }
            self.machine.looked(now(), Ok(found.as_ref().map(seen)));
            // What a deleted Lease said is needed to make it anew.
            self.lease = found.or_else(|| self.lease.take());
        } else {
            self.trouble.failed("read", answer.ok().and_then(Result::err).as_ref());
            self.machine.looked(now(), Err(()));
        }
    }

    async fn write(&mut self, write: Write) {
        let started = now();
        let written = match self.desired(&write) {
            Some(lease) => self.send(&write, &lease).await,
            None => Written::Refused,
        };
        self.machine.wrote(&write, started, now(), written);
    }

    /// The Lease as it is to be written; nothing if the version to be replaced is not the one at hand.
    fn desired(&self, write: &Write) -> Option<Lease> {
        let unused = || lease::unused(self.controller, &self.process.namespace);
        let at_hand = |version: &String| {
            self.lease.clone().filter(|lease| lease.metadata.resource_version.as_ref() == Some(version))
        };
        let now = Timestamp::now();
        Some(match write {
            Write::Found => self.writer.found(unused()),
            Write::Restore => self.writer.restore(unused(), self.lease.as_ref(), now),
            Write::Take(version) | Write::Renew(version) => self.writer.hold(at_hand(version)?, now),
            Write::Release(version) => self.writer.release(at_hand(version)?, now),
        })
    }

    async fn send(&mut self, write: &Write, lease: &Lease) -> Written {
        let (api, params) = (&self.process.api, PostParams::default());
        let request = async {
            match write {
                Write::Found | Write::Restore => api.create(&params, lease).await,
                Write::Take(_) | Write::Renew(_) | Write::Release(_) => {
                    api.replace(&self.name, &params, lease).await
                }
            }
        };
        match timeout(self.patience(), request).await {
            Ok(Ok(lease)) => self.sent(write, lease),
            Ok(Err(error)) => {
                self.trouble.failed("write", Some(&error));
                refused_or_unknown(&error)
            }
            Err(_elapsed) => {
                self.trouble.failed("write", None);
                Written::Unknown
            }
        }
    }

    /// Holds an answer against those before it. Each version of an object is higher than all that were there before it.
    fn compare(&mut self, lease: &Lease) {
        let version = lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
        let version = version.unwrap_or(self.newest);
        if version < self.newest {
            self.went_back = true;
            let (controller, lease, from) = (self.controller, &self.name, self.newest);
            error!(
                controller,
                lease,
                from,
                to = version,
                "the API server has gone back to what it was some time ago; this process ends, to be started anew"
            );
        }
        self.newest = self.newest.max(version);
    }

    fn sent(&mut self, write: &Write, lease: Lease) -> Written {
        self.trouble.over();
        self.compare(&lease);
        if *write == Write::Found {
            let wait = self.process.timing.lease();
            info!(
                controller = self.controller,
                lease = self.name,
                ?wait,
                "there was no Lease; it may have been deleted under a leader that is cut off, so nobody leads before this wait is over"
            );
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        self.lease = Some(lease);
        Written::Done(version)
    }

    /// Opens or closes the fence, and tells when leadership has changed.
    fn show(&mut self) {
        let now = now();
        self.machine.expire(now);
        let until = self.machine.leads_until();
        let leads = now < until;
        if leads {
            self.fence.open_until(until);
        } else {
            self.fence.close();
        }
        if leads != *self.leads.borrow() {
            self.tell(leads);
        }
    }

    fn tell(&mut self, leads: bool) {
        let (controller, lease, identity) = (self.controller, &self.name, &self.process.identity);
        if leads {
            self.process.leads.fetch_add(1, Ordering::Relaxed);
            info!(controller, lease, identity, "became leader");
        } else {
            self.process.leads.fetch_sub(1, Ordering::Relaxed);
            let why = match self.machine.lost() {
                Some(Lost::Deadline) => "the Lease could not be renewed in time",
                Some(Lost::Taken) => "the Lease has another holder",
                None => "it gives the Lease back",
            };
            info!(controller, lease, identity, why, "stopped leading");
        }
        self.process.metrics.leading(controller, leads);
        self.leads.send_replace(leads);
    }
}

impl Drop for Elector {
    /// Whatever ends a candidate, nothing is written after it.
    fn drop(&mut self) {
        self.fence.close();
        if *self.leads.borrow() {
            self.tell(false);
        }
    }
}

/// An answer of the API server that says no is one; anything else may hide a write that was done.
fn refused_or_unknown(error: &kube::Error) -> Written {
    match error {
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            Written::Refused
        }
        _ => Written::Unknown,
    }
}
