//! The loop of a controller and the handling of each reconcile: timeouts, panics, retries.

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
    error::{chain, is_conflict_within, is_unavailable, is_unknown_kind},
    events::Events,
    finalizer,
    informer::{Informer, Subscription},
    kind::{ObjectKey, is_deleting},
    metrics::ReconcileResult,
    outcome::{Outcome, ReconcileError},
    queue::{Queue, QueueItem},
    writer::Writer,
};

/// Delay before a retry while the API server is unavailable. Such a failure does not count towards
/// the backoff of the object.
const UNAVAILABLE_RETRY: Duration = Duration::from_secs(3);

/// Delay before a retry of the creation of an object whose kind is unknown: the same as the longest
/// delay of its watch.
const UNKNOWN_KIND_RETRY: Duration = Duration::from_secs(5);

/// Builds a controller and its runner.
pub(crate) fn build<T: Controller>(environment: &Environment) -> Box<dyn Runnable> {
    let mut builder = ControllerBuilder::<T::Object>::new(environment, T::NAME);
    let controller = T::build(&mut builder);
    let client = builder.client();
    let events = builder.events();
    let objects = builder.objects().clone();
    builder.finish();
    let ControllerBuilder { queue, subscriptions, .. } = builder;
    let weak = Arc::downgrade(&queue);
    environment.metrics.queue(T::NAME, Box::new(move || weak.upgrade().map_or(0, |queue| queue.len())));
    let default_objects =
        T::default_objects().into_iter().map(|object| (ObjectKey::of(&object), object)).collect();
    let timeout = environment.reconcile_timeout;
    Box::new(Runner::<T> {
        shared: Arc::new(Shared { controller, client, objects, default_objects, timeout }),
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
    /// Last reported failure of each object, so that one cause produces one Event.
    reported: HashMap<ObjectKey, String>,
    /// Reconciles that have not returned, also those that were aborted.
    running: TaskTracker,
    _subscriptions: Vec<Subscription>,
}

/// State that all reconciles of a controller share.
struct Shared<T: Controller> {
    controller: T,
    client: kube::Client,
    objects: Informer<T::Object>,
    /// See [`Controller::default_objects`].
    default_objects: HashMap<ObjectKey, T::Object>,
    timeout: Duration,
}

/// A finished reconcile.
struct CompletedReconcile {
    key: ObjectKey,
    duration: Duration,
    result: Result<Outcome, Failure>,
    /// Reference to the object, if it still existed.
    reference: Option<k8s_openapi::api::core::v1::ObjectReference>,
}

/// A failed reconcile.
struct Failure {
    result: ReconcileResult,
    reason: &'static str,
    message: String,
    quiet: bool,
    unavailable: bool,
}

impl<T: Controller> Runnable for Runner<T> {
    fn synced(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.queue.wait_open())
    }

    fn run(&mut self) -> BoxFuture<'_, DrainResult> {
        Box::pin(self.run_loop())
    }
}

impl<T: Controller> Runner<T> {
    /// Discards the state of an earlier run.
    ///
    /// An aborted reconcile continues until its next await point. Waits for it first.
    async fn reset(&mut self) {
        self.running.close();
        self.running.wait().await;
        self.running.reopen();
        self.backoff = ObjectBackoff::default();
        self.reported.clear();
    }

    async fn run_loop(&mut self) -> DrainResult {
        self.reset().await;
        info!(controller = T::NAME, "the controller starts");
        let stop = self.environment.stop.clone();
        let _resumed = self.queue.resume();
        for object in self.shared.objects.store().list() {
            self.queue.add(ObjectKey::of(object.as_ref()));
        }
        for key in self.shared.default_objects.keys() {
            self.queue.add(key.clone());
        }
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completed) = running.join_next() => self.finish(completed),
                item = self.queue.next(), if running.len() < self.environment.concurrency => {
                    self.start(&mut running, item);
                }
            }
        }
        let drained = async { while running.join_next().await.is_some() {} };
        if timeout(self.environment.drain_timeout, drained).await.is_err() {
            warn!(controller = T::NAME, "aborted reconciles that did not finish in time");
            return DrainResult::TimedOut;
        }
        DrainResult::Complete
    }

    fn start(&self, running: &mut JoinSet<CompletedReconcile>, QueueItem { key, waited }: QueueItem) {
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

    fn finish(&mut self, completed: Result<CompletedReconcile, tokio::task::JoinError>) {
        // `reconcile_one` catches panics, and nothing aborts a single task.
        let Ok(completed) = completed else { return };
        let key = completed.key.clone();
        let (result, requeue_after) = match &completed.result {
            Ok(outcome) => {
                self.backoff.reset(&key);
                self.reported.remove(&key);
                success(*outcome)
            }
            Err(failure) => (failure.result, self.handle_failure(&completed, failure)),
        };
        self.environment.metrics.reconciled(T::NAME, result, completed.duration);
        self.queue.done(&key, requeue_after);
    }

    /// Logs a failure and publishes an Event. Returns when to retry.
    fn handle_failure(&mut self, completed: &CompletedReconcile, failure: &Failure) -> Option<Duration> {
        let key = &completed.key;
        let before = self.backoff.failures(key);
        let retry_in = match failure.result {
            ReconcileResult::TerminalError => None,
            _ if failure.unavailable => Some(UNAVAILABLE_RETRY),
            _ => Some(self.backoff.failed(key, tokio::time::Instant::now())),
        };
        let Failure { reason, message, .. } = failure;
        let failures = self.backoff.failures(key);
        // Another change triggered the reconcile before the retry was due, and the cause is the
        // same.
        let is_known = failures == before && self.reported.get(key) == Some(message);
        if failure.quiet || failure.unavailable || is_known {
            debug!(controller = T::NAME, object = %key, reason, error = %message, "the reconcile will be retried");
            return retry_in;
        }
        warn!(controller = T::NAME, object = %key, reason, error = %message, failures, retry_in = ?retry_in, "reconcile failed");
        if let Some(reference) = &completed.reference
            && self.reported.get(key) != Some(message)
        {
            self.events.warning(reference.clone(), reason, "Reconcile", message);
            self.reported.insert(key.clone(), message.clone());
        }
        retry_in
    }
}

fn success(outcome: Outcome) -> (ReconcileResult, Option<Duration>) {
    match outcome {
        Outcome::Done => (ReconcileResult::Done, None),
        Outcome::AwaitChange => (ReconcileResult::AwaitChange, None),
        Outcome::RequeueAfter(wait) => (ReconcileResult::Requeued, Some(wait)),
    }
}

/// Reconciles one object. Converts panics and timeouts into failures.
async fn reconcile_one<T: Controller>(
    shared: Arc<Shared<T>>,
    key: ObjectKey,
    object: Option<Arc<T::Object>>,
) -> CompletedReconcile {
    let start = Instant::now();
    let reference = object.as_ref().map(|object| object.object_ref(&()));
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
    let label = result.as_ref().map_or_else(|failure| failure.result, |outcome| success(*outcome).0);
    Span::current().record("outcome", label.label());
    CompletedReconcile { key, duration: start.elapsed(), result, reference }
}

async fn reconcile_or_clean_up<T: Controller>(
    shared: &Shared<T>,
    mut object: Arc<T::Object>,
) -> Result<Outcome, Failure> {
    if is_deleting(object.as_ref()) {
        return clean_up(shared, object).await;
    }
    if let Some(finalizer) = T::FINALIZER {
        let epoch = shared.objects.store().epoch();
        let added = finalizer::add(&shared.client, object.as_ref(), finalizer).await;
        if let Some(changed) = added.map_err(|error| failure(FINALIZER_FAILED, false, false, &error))? {
            shared.objects.record_write(epoch, changed.clone());
            object = Arc::new(changed);
        }
    }
    shared.controller.reconcile(object).await.map_err(|error| controller_failure(&error))
}

/// Creates a missing object if it is one of [`Controller::default_objects`].
async fn create_default<T: Controller>(shared: &Shared<T>, key: &ObjectKey) -> Result<Outcome, Failure> {
    let Some(default) = shared.default_objects.get(key) else { return Ok(Outcome::Done) };
    let created = Writer::new(shared.client.clone(), shared.objects.clone()).create(key, default).await;
    match created {
        // The watch of the kind already logs that the kind is unknown.
        Err(error) if error.api_error().is_some_and(is_unknown_kind) => {
            Ok(Outcome::RequeueAfter(UNKNOWN_KIND_RETRY))
        }
        Err(error) if !error.is_stale_cache() => Err(failure(DEFAULT_OBJECT_FAILED, false, false, &error)),
        _ => Ok(Outcome::Done),
    }
}

async fn clean_up<T: Controller>(shared: &Shared<T>, object: Arc<T::Object>) -> Result<Outcome, Failure> {
    if T::FINALIZER.is_some_and(|finalizer| !finalizer::has(object.as_ref(), finalizer)) {
        return Ok(Outcome::Done);
    }
    let outcome =
        shared.controller.cleanup(object.clone()).await.map_err(|error| controller_failure(&error))?;
    if let Some(finalizer) = T::FINALIZER.filter(|_| outcome == Outcome::Done) {
        let removed = finalizer::remove(&shared.client, object.as_ref(), finalizer).await;
        removed.map_err(|error| failure(FINALIZER_FAILED, false, false, &error))?;
    }
    Ok(outcome)
}

fn controller_failure<E: ReconcileError>(error: &E) -> Failure {
    failure(error.reason(), error.is_terminal(), error.is_quiet(), error)
}

fn failure(
    reason: &'static str,
    terminal: bool,
    quiet: bool,
    error: &(dyn std::error::Error + 'static),
) -> Failure {
    Failure {
        result: if terminal { ReconcileResult::TerminalError } else { ReconcileResult::Failed },
        reason,
        message: chain(error),
        // A conflict means that the cache was stale. The next attempt reads the new version.
        quiet: quiet || is_conflict_within(error),
        unavailable: is_unavailable(error),
    }
}

fn timed_out(limit: Duration) -> Failure {
    Failure {
        result: ReconcileResult::TimedOut,
        reason: RECONCILE_TIMED_OUT,
        message: format!("the reconcile did not finish within {limit:?}"),
        quiet: false,
        unavailable: false,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    error!(panic = %message, "a reconcile panicked; this is a bug, please report it");
    Failure {
        result: ReconcileResult::Panicked,
        reason: RECONCILE_PANICKED,
        message: format!("a bug in the controller stopped the reconcile: {message}"),
        quiet: false,
        unavailable: false,
    }
}
