//! The watch loop of an informer, on top of kube's watcher.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api,
    core::Status,
    runtime::{
        WatchStreamExt,
        watcher::{self, Error, Event, watcher},
    },
};
use tracing::{debug, info, warn};

use super::{
    Informer,
    raw::{DecodeError, RawObject},
    store,
};
use crate::{
    backoff::WatchBackoff,
    error,
    kind::Kind,
    metrics::{Metrics, WatchRestart},
    watch_connection::WATCH_SECONDS,
};

/// Shortest and longest delay before a failed watch is retried.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Interval at which a watch asks for an optional kind that the API server does not know, as Kubernetes'
/// garbage collector does.
const DISCOVERY: Duration = Duration::from_secs(30);

/// How a watch lists the existing objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListMode {
    /// As events of the watch, one object at a time. Supported since Kubernetes 1.32.
    Streamed,
    /// In pages.
    Paged,
}

/// Number of objects per page. Small, because a page is parsed as a whole.
const PAGE: u32 = 100;

/// One watch of an informer.
///
/// Not generic over the kind: otherwise the program would contain a copy of the loop for every
/// kind.
pub(super) struct Watch {
    pub(super) handler: Arc<dyn WatchHandler>,
    /// Kind, for messages.
    pub(super) kind: String,
    /// Namespace of the watch. `None` for the whole cluster.
    pub(super) watched_namespace: Option<Arc<str>>,
    pub(super) labels: Option<&'static str>,
    /// Whether the API server need not know the kind.
    pub(super) is_optional: bool,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// Receives the events of a watch.
pub(super) trait WatchHandler: Send + Sync {
    /// Applies an event of the watch of this namespace. An object that cannot be decoded stays at
    /// its last valid version until the next relist, which removes it.
    fn apply(&self, watched_namespace: Option<&str>, event: Event<RawObject>) -> Result<(), DecodeError>;

    /// Records whether the API server forbids the watch of this namespace.
    fn set_forbidden(&self, watched_namespace: Option<&str>, is_forbidden: bool);

    /// Records that a watch delivers, or that it has failed.
    fn set_failed(&self, has_failed: bool);

    /// Records that a watch, or a list before it, is requested.
    fn record_request(&self);

    /// Records that the API server has accepted a watch.
    fn record_open(&self);
}

impl<K: Kind> WatchHandler for Informer<K> {
    fn apply(&self, watched_namespace: Option<&str>, event: Event<RawObject>) -> Result<(), DecodeError> {
        match event {
            Event::Init => self.store().begin_relist(watched_namespace),
            Event::InitApply(object) => {
                let object = object.decode()?;
                self.update(|store| store.apply_listed(object));
            }
            Event::InitDone => self.end_relist(watched_namespace),
            Event::Apply(object) => {
                let object = object.decode()?;
                self.update(|store| store.apply_event(object));
            }
            Event::Delete(object) => {
                self.update(|store| store.apply_deletion(&object.key(), store::version(&object)));
            }
        }
        Ok(())
    }

    fn set_forbidden(&self, watched_namespace: Option<&str>, is_forbidden: bool) {
        self.store().set_forbidden(watched_namespace, is_forbidden);
    }

    fn set_failed(&self, has_failed: bool) {
        if has_failed {
            self.shared.failure.record_interruption();
        } else {
            self.shared.failure.record_success();
        }
    }

    fn record_request(&self) {
        self.shared.failure.record_interruption();
    }

    fn record_open(&self) {
        self.shared.failure.record_open();
    }
}

impl Watch {
    /// Watches a kind until it is aborted.
    ///
    /// An object that cannot be decoded, for example because its CRD has another version, is logged
    /// and skipped. It does not affect other objects.
    pub(super) async fn run(self, api: Api<RawObject>) {
        let mut health = Health::default();
        let mut mode = ListMode::Streamed;
        loop {
            let events = watcher(api.clone(), config(self.labels, mode));
            let mut events = pin!(events.backoff(WatchBackoff::new(RETRY.0, RETRY.1)));
            while let Some(event) = events.next().await {
                if mode == ListMode::Streamed && event.as_ref().is_err_and(rejects_streaming) {
                    debug!(kind = %self.kind, "the API server does not stream lists; listing in pages");
                    mode = ListMode::Paged;
                    break;
                }
                if self.is_optional && event.as_ref().is_err_and(is_unknown) {
                    self.handle_absence(&mut health);
                    tokio::time::sleep(DISCOVERY).await;
                    break;
                }
                self.handle(event, &mut health);
            }
        }
    }

    /// Empties the cache of a kind that the API server does not know. This is no failure.
    fn handle_absence(&self, health: &mut Health) {
        let watched_namespace = self.watched_namespace.as_deref();
        health.record_success(&self.kind, watched_namespace);
        self.handler.set_forbidden(watched_namespace, false);
        self.handler.set_failed(false);
        for event in [Event::Init, Event::InitDone] {
            self.apply(event);
        }
    }

    fn handle(&self, event: Result<Event<RawObject>, Error>, health: &mut Health) {
        let watched_namespace = self.watched_namespace.as_deref();
        if let Some(reason) = restart_reason(&event) {
            self.metrics.watch_restarted(&self.kind, reason);
        }
        // In pages, the begin of a relist precedes its request, so it is no sign of success.
        if !matches!(event, Ok(Event::Init)) {
            health.update(&self.kind, watched_namespace, &event);
            self.handler.set_forbidden(watched_namespace, event.as_ref().is_err_and(is_forbidden));
            self.handler.set_failed(event.as_ref().is_err_and(|error| !is_expired(error)));
        }
        if let Ok(event) = event {
            self.apply(event);
        }
    }

    fn apply(&self, event: Event<RawObject>) {
        if let Err(DecodeError { key, error }) = self.handler.apply(self.watched_namespace.as_deref(), event)
        {
            let object = format!("{} {key}", self.kind);
            warn!(%object, %error, "an object cannot be read and is left alone; install the CRDs of this version");
        }
    }
}

fn config(labels: Option<&'static str>, mode: ListMode) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let config = match mode {
        ListMode::Streamed => config.streaming_lists(),
        ListMode::Paged => config.page_size(PAGE),
    };
    match labels {
        Some(labels) => config.labels(labels),
        None => config,
    }
}

/// Returns whether the API server cannot stream lists: it is too old, or its etcd is.
fn rejects_streaming(error: &Error) -> bool {
    let Some(status) = status(error) else { return false };
    status.code == 422
        || status.message.contains("sendInitialEvents")
        || status.message.contains("RequestWatchProgress")
}

/// Returns why the watch restarts. An expired watch is counted when it lists again.
fn restart_reason<W>(event: &Result<Event<W>, Error>) -> Option<WatchRestart> {
    match event {
        Ok(Event::Init) => Some(WatchRestart::Listed),
        Err(error) if !is_expired(error) => Some(WatchRestart::Failed),
        _ => None,
    }
}

/// Health of a watch, so that each failure and each recovery is logged once.
#[derive(Default)]
struct Health {
    /// Last logged failure.
    failure: Option<String>,
    /// Whether the last error was a 403. The first one is not logged: shortly after its start, an
    /// API server has not loaded all roles.
    was_forbidden: bool,
}

impl Health {
    fn update<E>(&mut self, kind: &str, namespace: Option<&str>, event: &Result<E, Error>) {
        match event {
            Ok(_) => self.record_success(kind, namespace),
            Err(error) => self.record_failure(kind, namespace, error),
        }
    }

    fn record_failure(&mut self, kind: &str, namespace: Option<&str>, error: &Error) {
        if is_expired(error) {
            debug!(%kind, namespace, "the watch expired; listing again");
            return;
        }
        if is_forbidden(error) && !std::mem::replace(&mut self.was_forbidden, true) {
            debug!(%kind, namespace, "the watch was forbidden; a warning follows if it is forbidden again");
            return;
        }
        let message = message(error);
        if self.failure.as_ref() != Some(&message) {
            warn!(%kind, namespace, error = %message, "{}", advice(kind, error, namespace));
            self.failure = Some(message);
        }
    }

    fn record_success(&mut self, kind: &str, namespace: Option<&str>) {
        self.was_forbidden = false;
        if self.failure.take().is_some() {
            info!(%kind, namespace, "the watch works again");
        }
    }
}

/// Returns the failure and its remedy, for the log.
fn advice(kind: &str, error: &Error, namespace: Option<&str>) -> String {
    match (status_code(error), namespace) {
        (Some(404), _) => format!(
            "cannot watch {kind}: the API server does not know it; install its CRD (--install-crds does)"
        ),
        (Some(401), _) => format!(
            "cannot watch {kind}: the API server does not accept the credentials; renew the token or kubeconfig"
        ),
        (Some(403), None) => {
            format!("cannot watch {kind}: not allowed; apply the ClusterRole and binding of deploy/rbac")
        }
        (Some(403), Some(namespace)) => format!(
            "cannot watch {kind} in {namespace}: not allowed, or there is no such namespace; \
             kubectl apply -n {namespace} the Role and binding of deploy/rbac/namespaced"
        ),
        _ => format!("cannot watch {kind}: trying again until the API server answers"),
    }
}

/// Returns the cause once. kube's text repeats the message of the API server three times.
fn message(error: &Error) -> String {
    match error {
        Error::WatchError(status) => status.message.clone(),
        Error::InitialListFailed(cause) | Error::WatchStartFailed(cause) | Error::WatchFailed(cause) => {
            error::chain(cause)
        }
        Error::NoResourceVersion => error::chain(error),
    }
}

fn is_forbidden(error: &Error) -> bool {
    status_code(error) == Some(403)
}

fn is_unknown(error: &Error) -> bool {
    status_code(error) == Some(404)
}

fn is_expired(error: &Error) -> bool {
    status_code(error) == Some(410)
}

fn status_code(error: &Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::WatchError(status)
        | Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}
