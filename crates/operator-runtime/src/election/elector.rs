//! Runs the election of one controller: performs the steps of the state machine and reports
//! leadership.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{Api, api::PostParams};
use lease::{
    LeaseRecord, LossReason, Machine, SharedRenewal, Step, Timing, Write, WriteResult, Writer, anchor_name,
    record_with_anchor,
};
use operator_core::{
    fence::{Fence, now},
    metrics::Metrics,
};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tracing::{error, info};

use super::{controller_lease, lease_cache::LeaseCache, outage_log::OutageLog};

/// Extra delay before acquiring a free Lease for each controller that this process already leads,
/// so that replicas share the controllers, and its maximum.
const ACQUIRE_DELAY: Duration = Duration::from_millis(200);
const MAX_ACQUIRE_DELAY: Duration = Duration::from_secs(1);

/// State that the candidates of a process share.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) api: Api<Lease>,
    pub(super) namespace: String,
    /// Value of `holderIdentity` for this process.
    pub(super) identity: String,
    pub(super) timing: Timing,
    /// Number of controllers that this process leads.
    pub(super) leads: Arc<AtomicUsize>,
    /// The renewal of all Leases of this process.
    pub(super) renewal: watch::Sender<SharedRenewal>,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// A candidate for the Lease of one controller.
pub(super) struct Elector {
    process: Process,
    controller: &'static str,
    name: String,
    machine: Machine,
    writer: Writer,
    /// The Lease as it was last read or written.
    lease: Option<Lease>,
    /// Highest resource version of any response.
    highest_version: u64,
    /// Whether a response had a lower resource version than an earlier one.
    went_backwards: bool,
    cache: watch::Receiver<LeaseCache>,
    renewal: watch::Receiver<SharedRenewal>,
    /// The Lease as the watch last delivered it.
    cached: Option<LeaseRecord>,
    /// Random delay, so that candidates do not all acquire a free Lease at once.
    jitter: Duration,
    fence: Fence,
    leads: watch::Sender<bool>,
    outages: OutageLog,
}

impl Elector {
    pub(super) fn new(
        process: Process,
        controller: &'static str,
        cache: watch::Receiver<LeaseCache>,
        fence: Fence,
        leads: watch::Sender<bool>,
    ) -> Self {
        Self {
            controller,
            name: controller_lease::name(controller),
            machine: Machine::new(process.identity.clone(), process.timing, now()),
            writer: controller_lease::writer(controller, &process.identity, process.timing),
            lease: None,
            highest_version: 0,
            went_backwards: false,
            cache,
            renewal: process.renewal.subscribe(),
            cached: None,
            jitter: Duration::from_millis(fastrand::u64(0..100)),
            fence,
            leads,
            outages: OutageLog::of(controller, &process.namespace),
            process,
        }
    }

    /// Runs the election until it resigns, and then releases the Lease.
    ///
    /// Returns early if resource versions went backwards, for example because etcd was restored
    /// from a backup. The caches of this process are invalid then, and watches deliver nothing
    /// until versions reach their former height.
    pub(super) async fn run(mut self, mut resign: oneshot::Receiver<()>) {
        let mut resigned = false;
        loop {
            self.observe_anchor();
            let is_live = self.is_watching();
            let step = self.machine.next(now(), self.acquire_delay(), is_live);
            self.update_fence();
            match step {
                Step::Read => self.read().await,
                Step::Write(write) => self.write(write).await,
                Step::Done => return,
                Step::Wait(until) => tokio::select! {
                    biased;
                    _ = &mut resign, if !resigned => {
                        resigned = true;
                        self.machine.resign(now());
                    }
                    Ok(()) = self.cache.changed() => self.observe_cache(),
                    Ok(()) = self.renewal.changed() => {}
                    () = sleep(until.saturating_sub(now())) => {}
                },
            }
            if self.went_backwards {
                return;
            }
            self.update_fence();
        }
    }

    fn acquire_delay(&self) -> Duration {
        let leads = self.process.leads.load(Ordering::Relaxed);
        self.jitter + MAX_ACQUIRE_DELAY.min(ACQUIRE_DELAY * leads.try_into().unwrap_or(u32::MAX))
    }

    fn observe_cache(&mut self) {
        let cache = self.cache.borrow_and_update();
        let news = cache.record(&self.name);
        if cache.is_live && self.cached != news {
            self.cached.clone_from(&news);
            self.machine.watch_event(now(), news);
        }
    }

    fn is_watching(&self) -> bool {
        self.cache.borrow().is_live
    }

    /// Extends leadership if the anchor of this process has been renewed.
    fn observe_anchor(&mut self) {
        let Some(lease) = &self.lease else { return };
        let (cache, identity) = (self.cache.borrow(), &self.process.identity);
        let renewal = self.renewal.borrow_and_update();
        self.machine.expect_anchor(cache.is_live && renewal.covers(lease, identity));
        let started = renewal.renewal_of(lease, identity, cache.leases());
        if let (Some(started), Some(version)) = (started, &lease.metadata.resource_version) {
            self.machine.renewed_with_anchor(version, started, now());
        }
    }

    async fn read(&mut self) {
        let started = now();
        match timeout(self.machine.request_timeout(started), self.get()).await {
            Ok(Ok((found, anchor))) => {
                if let Some(lease) = &found {
                    self.check_version(lease);
                }
                let record = found.as_ref().map(|lease| record_with_anchor(lease, anchor.as_ref()));
                self.machine.read_done(started, now(), Ok(record));
                // Keep a deleted Lease: its contents are needed to recreate it.
                self.lease = found.or_else(|| self.lease.take());
            }
            failed => {
                self.outages.failed("read", failed.ok().and_then(Result::err).as_ref());
                self.machine.read_done(started, now(), Err(()));
            }
        }
    }

    /// Returns the Lease, and its anchor if another process holds it.
    async fn get(&self) -> kube::Result<(Option<Lease>, Option<Lease>)> {
        let api = &self.process.api;
        let Some(lease) = api.get_opt(&self.name).await? else { return Ok((None, None)) };
        let anchor = match anchor_name(&lease) {
            Some(anchor) if !self.is_holder(&lease) => api.get_opt(anchor).await?,
            _ => None,
        };
        Ok((Some(lease), anchor))
    }

    fn is_holder(&self, lease: &Lease) -> bool {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        holder == Some(&self.process.identity)
    }

    /// Creates, acquires, renews, or releases the Lease.
    async fn write(&mut self, write: Write) {
        let started = now();
        let unused = || controller_lease::unused(self.controller, &self.process.namespace);
        let desired = self.writer.desired(&write, self.lease.as_ref(), unused, Timestamp::now());
        let written = match desired {
            Some(mut lease) => {
                self.renewal.borrow().complete(&write, &mut lease, self.is_watching());
                self.send(&write, &lease).await
            }
            None => WriteResult::Rejected,
        };
        let is_committed = matches!(written, WriteResult::Committed(_));
        self.machine.write_done(&write, started, now(), written);
        if let Some(lease) =
            self.lease.as_ref().filter(|_| is_committed && now() < self.machine.leads_until())
        {
            self.process.renewal.send_if_modified(|renewal| renewal.record_write(lease, started));
        }
    }

    async fn send(&mut self, write: &Write, lease: &Lease) -> WriteResult {
        let (api, params) = (&self.process.api, PostParams::default());
        let request = async {
            match write {
                Write::Create | Write::Recreate => api.create(&params, lease).await,
                Write::Acquire(_) | Write::Renew(_) | Write::Release(_) => {
                    api.replace(&self.name, &params, lease).await
                }
            }
        };
        match timeout(self.machine.request_timeout(now()), request).await {
            Ok(Ok(lease)) => self.sent(write, lease),
            Ok(Err(error)) => {
                self.outages.failed("write", Some(&error));
                classify(&error)
            }
            Err(_elapsed) => {
                self.outages.failed("write", None);
                WriteResult::Unknown
            }
        }
    }

    /// Detects resource versions that went backwards. Every write gets a higher version than all
    /// before it.
    fn check_version(&mut self, lease: &Lease) {
        let version = lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
        let version = version.unwrap_or(self.highest_version);
        if version < self.highest_version {
            self.went_backwards = true;
            let (controller, lease, from) = (self.controller, &self.name, self.highest_version);
            error!(
                controller,
                lease,
                from,
                to = version,
                "the resource version of the Lease went backwards, as after a restore of etcd; exiting so that the process restarts with empty caches"
            );
        }
        self.highest_version = self.highest_version.max(version);
    }

    fn sent(&mut self, write: &Write, lease: Lease) -> WriteResult {
        self.outages.recovered();
        self.check_version(&lease);
        if *write == Write::Create {
            let wait = self.process.timing.lease();
            info!(
                controller = self.controller,
                lease = self.name,
                ?wait,
                "created a missing Lease; no replica leads until the lease duration has passed, because a partitioned leader may still hold the deleted one"
            );
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        self.lease = Some(lease);
        WriteResult::Committed(version)
    }

    /// Opens or closes the fence, and reports a change of leadership.
    fn update_fence(&mut self) {
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
            self.report(leads);
        }
    }

    fn report(&mut self, leads: bool) {
        let (controller, lease, identity) = (self.controller, &self.name, &self.process.identity);
        if leads {
            self.process.leads.fetch_add(1, Ordering::Relaxed);
            info!(controller, lease, identity, "became leader");
        } else {
            self.process.leads.fetch_sub(1, Ordering::Relaxed);
            let reason = match self.machine.lost() {
                Some(LossReason::Deadline) => "the renew deadline passed",
                Some(LossReason::HolderChanged) => "the Lease has another holder",
                None => "the Lease is being released",
            };
            self.end_renewal();
            info!(controller, lease, identity, reason, "stopped leading");
        }
        self.process.metrics.leading(controller, leads);
        self.leads.send_replace(leads);
    }

    fn end_renewal(&self) {
        self.process.renewal.send_if_modified(|renewal| renewal.record_end(&self.name));
    }
}

impl Drop for Elector {
    /// Closes the fence, however the candidate ends. The Lease can expire then, even if an acquisition
    /// was stored without a response.
    fn drop(&mut self) {
        self.fence.close();
        if *self.leads.borrow() {
            self.report(false);
        } else {
            self.end_renewal();
        }
    }
}

fn classify(error: &kube::Error) -> WriteResult {
    match error {
        kube::Error::Api(status) => WriteResult::of_error(status.code),
        _ => WriteResult::Unknown,
    }
}
