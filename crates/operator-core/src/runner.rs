//! The loop of a controller, and the wrapper around each of its reconciles.

use std::{
    any::Any,
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use kube::Resource;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span, debug, error, field::Empty, info, info_span, warn};

use crate::{
    backoff::ObjectBackoff,
    builder::ControllerBuilder,
    conditions::reasons::{DEFAULT_OBJECT_FAILED, FINALIZER_FAILED, RECONCILE_PANICKED, RECONCILE_TIMED_OUT},
    controller::{Controller, DrainResult, Runnable},
    environment::Environment,
    error::{chain, is_conflict_within, is_unavailable, is_undefined},
    events::Events,
    finalizer,
    informer::{Informer, Subscription},
    kind::{ObjectKey, is_deleting},
    metrics::ReconcileResult,
    outcome::{Outcome, ReconcileError},
    queue::{Queue, QueueItem},
    writer::Writer,
};

/// How long to wait before trying again while the API server is away. Its absence is nothing that an object
/// did, so it does not count towards the object's backoff.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(3);

/// How long to wait before trying again to make an object of a kind that is not defined: as often as its watch tries.
const UNKNOWN_KIND_RETRY: Duration = Duration::from_secs(5);

/// Wires a controller.
pub(crate) fn build<T: Controller>(environment: &Environment) -> Box<dyn Runnable> {
    let mut builder = ControllerBuilder::<T::Object>::new(environment, T::NAME);
    let controller = T::build(&mut builder);
    let client = builder.client();
    let events = builder.events();
    let objects = builder.objects().clone();
    builder.finish();
    let ControllerBuilder { queue, subscriptions, .. } = builder;
    let waiting = Arc::downgrade(&queue);
    environment.metrics.queue(T::NAME, Box::new(move || waiting.upgrade().map_or(0, |queue| queue.len())));
    let defaults = T::defaults().into_iter().map(|object| (ObjectKey::of(&object), object)).collect();
    let timeout = environment.reconcile_timeout;
    Box::new(Runner::<T> {
        shared: Arc::new(Shared { controller, client, objects, defaults, timeout }),
        environment: environment.clone(),
        queue,
        events,
        backoff: ObjectBackoff::default(),
        reported: HashMap::new(),
        running: TaskTracker::new(),
        _subscriptions: subscriptions,
    })
}

struct Runner<T: Controller> {
    shared: Arc<Shared<T>>,
    environment: Environment,
    queue: Arc<Queue>,
    events: Events,
    backoff: ObjectBackoff,
    /// What was last reported about an object that fails, so that one cause is one Event.
    reported: HashMap<ObjectKey, String>,
    /// The reconciles that have not come to their end, cut off or not.
    running: TaskTracker,
    _subscriptions: Vec<Subscription>,
}

/// What the tasks of a controller's reconciles share.
struct Shared<T: Controller> {
    controller: T,
    client: kube::Client,
    objects: Informer<T::Object>,
    /// What must always be there.
    defaults: HashMap<ObjectKey, T::Object>,
    timeout: Duration,
}

/// A reconcile that came to its end.
struct CompletedReconcile {
    key: ObjectKey,
    took: Duration,
    result: Result<Outcome, Failure>,
    /// The object, unless it is gone.
    about: Option<k8s_openapi::api::core::v1::ObjectReference>,
}

/// Why a reconcile failed.
struct Failure {
    ended: ReconcileResult,
    reason: &'static str,
    message: String,
    quiet: bool,
    unavailable: bool,
}

impl<T: Controller> Runnable for Runner<T> {
    fn synced(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.queue.opened())
    }

    fn run(&mut self) -> BoxFuture<'_, DrainResult> {
        Box::pin(self.work())
    }
}

impl<T: Controller> Runner<T> {
    /// Forgets an earlier run. A reconcile that was cut off then may still be on its way to its next pause; it ends
    /// before this one begins.
    async fn begin_anew(&mut self) {
        self.running.close();
        self.running.wait().await;
        self.running.reopen();
        self.backoff = ObjectBackoff::default();
        self.reported.clear();
    }

    async fn work(&mut self) -> DrainResult {
        self.begin_anew().await;
        info!(controller = T::NAME, "the controller starts");
        let stop = self.environment.stop.clone();
        let _resumed = self.queue.resume();
        for object in self.shared.objects.store().list() {
            self.queue.add(ObjectKey::of(object.as_ref()));
        }
        for key in self.shared.defaults.keys() {
            self.queue.add(key.clone());
        }
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completed) = running.join_next() => self.ended(completed),
                work = self.queue.next(), if running.len() < self.environment.concurrency => {
                    self.begin(&mut running, work);
                }
            }
        }
        let drained = async { while running.join_next().await.is_some() {} };
        if timeout(self.environment.drain_timeout, drained).await.is_err() {
            warn!(controller = T::NAME, "reconciles that did not finish in time are cut off");
            return DrainResult::TimedOut;
        }
        DrainResult::Complete
    }

    fn begin(&self, running: &mut JoinSet<CompletedReconcile>, QueueItem { key, waited }: QueueItem) {
        self.environment.metrics.dequeued(T::NAME, waited);
        let object = self.shared.objects.store().get(&key);
        let generation = object.as_ref().and_then(|object| object.meta().generation);
        let span = info_span!(
            "reconcile",
            controller = T::NAME,
            namespace = key.namespace(),
            name = key.name(),
            generation,
            outcome = Empty
        );
        let completed = reconcile_one(self.shared.clone(), key, object).instrument(span);
        running.spawn(self.running.track_future(completed));
    }

    fn ended(&mut self, completed: Result<CompletedReconcile, tokio::task::JoinError>) {
        // A panic inside is caught there; what is left is a task that was aborted, which we never do here.
        let Ok(completed) = completed else { return };
        let key = completed.key.clone();
        let (ended, again) = match &completed.result {
            Ok(outcome) => {
                self.backoff.reset(&key);
                self.reported.remove(&key);
                succeeded(*outcome)
            }
            Err(failure) => (failure.ended, self.failed(&completed, failure)),
        };
        self.environment.metrics.reconciled(T::NAME, ended, completed.took);
        self.queue.done(&key, again);
    }

    /// The one place where errors become log lines and Events. Returns when to try again.
    fn failed(&mut self, completed: &CompletedReconcile, failure: &Failure) -> Option<Duration> {
        let key = &completed.key;
        let before = self.backoff.failures(key);
        let again = match failure.ended {
            ReconcileResult::TerminalError => None,
            _ if failure.unavailable => Some(UNAVAILABLE_RETRY),
            _ => Some(self.backoff.failed(key, tokio::time::Instant::now())),
        };
        let Failure { reason, message, .. } = failure;
        let failures = self.backoff.failures(key);
        // What fails for the known cause because something else has changed is nothing new to anybody.
        let is_known = failures == before && self.reported.get(key) == Some(message);
        if failure.quiet || failure.unavailable || is_known {
            debug!(controller = T::NAME, object = %key, reason, error = %message, "reconcile will be tried again");
            return again;
        }
        warn!(controller = T::NAME, object = %key, reason, error = %message, failures, retry_in = ?again, "reconcile failed");
        if let Some(about) = &completed.about
            && self.reported.get(key) != Some(message)
        {
            self.events.warning(about.clone(), reason, "Reconcile", message);
            self.reported.insert(key.clone(), message.clone());
        }
        again
    }
}

fn succeeded(outcome: Outcome) -> (ReconcileResult, Option<Duration>) {
    match outcome {
        Outcome::Done => (ReconcileResult::Done, None),
        Outcome::AwaitChange => (ReconcileResult::AwaitChange, None),
        Outcome::RequeueAfter(wait) => (ReconcileResult::Requeued, Some(wait)),
    }
}

/// One reconcile, with everything that can go wrong around it.
async fn reconcile_one<T: Controller>(
    shared: Arc<Shared<T>>,
    key: ObjectKey,
    object: Option<Arc<T::Object>>,
) -> CompletedReconcile {
    let began = Instant::now();
    let about = object.as_ref().map(|object| object.object_ref(&()));
    let work = AssertUnwindSafe(async {
        match object {
            Some(object) => reconcile_or_clean_up(&shared, object).await,
            None => create_default(&shared, &key).await,
        }
    });
    let result = match timeout(shared.timeout, work.catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(panicked(panic.as_ref())),
        Err(_elapsed) => Err(timed_out(shared.timeout)),
    };
    let ended = result.as_ref().map_or_else(|failure| failure.ended, |outcome| succeeded(*outcome).0);
    Span::current().record("outcome", ended.label());
    CompletedReconcile { key, took: began.elapsed(), result, about }
}

async fn reconcile_or_clean_up<T: Controller>(
    shared: &Shared<T>,
    mut object: Arc<T::Object>,
) -> Result<Outcome, Failure> {
    if is_deleting(object.as_ref()) {
        return clean_up(shared, object).await;
    }
    if let Some(finalizer) = T::FINALIZER {
        let moment = shared.objects.store().now();
        let added = finalizer::add(&shared.client, object.as_ref(), finalizer).await;
        if let Some(changed) = added.map_err(|error| failed(FINALIZER_FAILED, false, false, &error))? {
            shared.objects.wrote(moment, changed.clone());
            object = Arc::new(changed);
        }
    }
    shared.controller.reconcile(object).await.map_err(|error| of_controller(&error))
}

/// Makes an object that is not there, if it is one that must be. Somebody else may be quicker.
async fn create_default<T: Controller>(shared: &Shared<T>, key: &ObjectKey) -> Result<Outcome, Failure> {
    let Some(default) = shared.defaults.get(key) else { return Ok(Outcome::Done) };
    let made = Writer::new(shared.client.clone(), shared.objects.clone()).create(key, default).await;
    match made {
        // The watch of the kind tells people of it.
        Err(error) if error.answer().is_some_and(is_undefined) => {
            Ok(Outcome::RequeueAfter(UNKNOWN_KIND_RETRY))
        }
        Err(error) if !error.shows_stale_cache() => Err(failed(DEFAULT_OBJECT_FAILED, false, false, &error)),
        _ => Ok(Outcome::Done),
    }
}

async fn clean_up<T: Controller>(shared: &Shared<T>, object: Arc<T::Object>) -> Result<Outcome, Failure> {
    if T::FINALIZER.is_some_and(|finalizer| !finalizer::has(object.as_ref(), finalizer)) {
        return Ok(Outcome::Done);
    }
    let outcome = shared.controller.cleanup(object.clone()).await.map_err(|error| of_controller(&error))?;
    if let Some(finalizer) = T::FINALIZER.filter(|_| outcome == Outcome::Done) {
        let removed = finalizer::remove(&shared.client, object.as_ref(), finalizer).await;
        removed.map_err(|error| failed(FINALIZER_FAILED, false, false, &error))?;
    }
    Ok(outcome)
}

fn of_controller<E: ReconcileError>(error: &E) -> Failure {
    failed(error.reason(), error.is_terminal(), error.is_quiet(), error)
}

fn failed(
    reason: &'static str,
    terminal: bool,
    quiet: bool,
    error: &(dyn std::error::Error + 'static),
) -> Failure {
    Failure {
        ended: if terminal { ReconcileResult::TerminalError } else { ReconcileResult::Failed },
        reason,
        message: chain(error),
        // A conflict means that the cache was behind; the next attempt sees what is there.
        quiet: quiet || is_conflict_within(error),
        unavailable: is_unavailable(error),
    }
}

fn timed_out(limit: Duration) -> Failure {
    Failure {
        ended: ReconcileResult::TimedOut,
        reason: RECONCILE_TIMED_OUT,
        message: format!("the reconcile was not finished after {limit:?}"),
        quiet: false,
        unavailable: false,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    error!(panic = %said, "a reconcile panicked; this is a bug, please report it");
    Failure {
        ended: ReconcileResult::Panicked,
        reason: RECONCILE_PANICKED,
        message: format!("a bug in the controller stopped the reconcile: {said}"),
        quiet: false,
        unavailable: false,
    }
}
