//! The loop between kube's watcher and a store.

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
    raw::{Raw, Unreadable},
    store,
};
use crate::{
    backoff::WatchBackoff,
    error,
    kind::Kind,
    metrics::{Metrics, WatchRestart},
};

/// How long a watch lasts before it is opened anew, in seconds. Well below the 290 s that kube takes, so that
/// a connection that died in silence is noticed in about a minute.
const WATCH_SECONDS: u32 = 55;

/// How long to wait between attempts to open a broken watch.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How a watch gets what is there before it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// As events of the watch itself, one object at a time. Servers can since Kubernetes 1.32.
    Streamed,
    /// In pages.
    Paged,
}

/// Objects in a page; few, for a page is parsed as a whole.
const PAGE: u32 = 100;

/// One watch of an informer. It is the same for all kinds: there are many of them, and each would be a copy of the whole
/// loop in the program.
pub(super) struct Watch {
    pub(super) sink: Box<dyn Sink>,
    /// What is watched, for messages.
    pub(super) kind: String,
    /// The namespace that it is limited to.
    pub(super) limit: Option<Arc<str>>,
    pub(super) labels: Option<&'static str>,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// What takes in what a watch tells.
pub(super) trait Sink: Send + Sync {
    /// Something has happened in this part of the store. An object that cannot be read stays as it was last readable; a
    /// relist takes it out.
    fn take_in(&self, limit: Option<&str>, event: Event<Raw>) -> Result<(), Unreadable>;

    /// Whether the API server refuses the watch with this limit.
    fn refused(&self, limit: Option<&str>, is_refused: bool);
}

impl<K: Kind> Sink for Informer<K> {
    fn take_in(&self, limit: Option<&str>, event: Event<Raw>) -> Result<(), Unreadable> {
        match event {
            Event::Init => self.store().relist_began(limit),
            Event::InitApply(object) => {
                let object = object.read()?;
                self.change(|store| store.listed(object));
            }
            Event::InitDone => self.relist_ended(limit),
            Event::Apply(object) => {
                let object = object.read()?;
                self.change(|store| store.applied(object));
            }
            Event::Delete(object) => {
                self.change(|store| store.deleted(&object.key(), store::version(&object)));
            }
        }
        Ok(())
    }

    fn refused(&self, limit: Option<&str>, is_refused: bool) {
        self.store().refused(limit, is_refused);
    }
}

impl Watch {
    /// Follows a kind for ever. An object that cannot be read, because people have written it, or its definition is another
    /// version than ours, is told of and passed over, and does not stop the others.
    pub(super) async fn follow(self, api: Api<Raw>) {
        let mut health = Health::default();
        let mut lists = Lists::Streamed;
        loop {
            let events = watcher(api.clone(), config(self.labels, lists));
            let mut events = pin!(events.backoff(WatchBackoff::new(RETRY.0, RETRY.1)));
            while let Some(event) = events.next().await {
                if lists == Lists::Streamed && event.as_ref().is_err_and(cannot_stream) {
                    debug!(kind = %self.kind, "the API server does not stream lists; they are read in pages");
                    lists = Lists::Paged;
                    break;
                }
                self.tell(event, &mut health);
            }
        }
    }

    fn tell(&self, event: Result<Event<Raw>, Error>, health: &mut Health) {
        let limit = self.limit.as_deref();
        if let Some(why) = restarted(&event) {
            self.metrics.watch_restarted(&self.kind, why);
        }
        // The beginning of a relist says nothing yet: in pages, it comes before the request.
        if !matches!(event, Ok(Event::Init)) {
            health.judge(&self.kind, limit, &event);
            self.sink.refused(limit, event.as_ref().is_err_and(is_refused));
        }
        if let Ok(event) = event
            && let Err(Unreadable { key, error }) = self.sink.take_in(limit, event)
        {
            let object = format!("{} {key}", self.kind);
            warn!(%object, %error, "an object cannot be read and is left alone; install the CRDs of this version");
        }
    }
}

fn config(labels: Option<&'static str>, lists: Lists) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let config = match lists {
        Lists::Streamed => config.streaming_lists(),
        Lists::Paged => config.page_size(PAGE),
    };
    match labels {
        Some(labels) => config.labels(labels),
        None => config,
    }
}

/// Whether the API server refuses to stream lists: it does not know how, or its etcd is too old for it.
fn cannot_stream(error: &Error) -> bool {
    let Some(status) = status(error) else { return false };
    status.code == 422
        || status.message.contains("sendInitialEvents")
        || status.message.contains("RequestWatchProgress")
}

/// Whether and why the watch starts over. One that has expired lists anew, and is counted then.
fn restarted<W>(event: &Result<Event<W>, Error>) -> Option<WatchRestart> {
    match event {
        Ok(Event::Init) => Some(WatchRestart::Listed),
        Err(broken) if !is_expired(broken) => Some(WatchRestart::Failed),
        _ => None,
    }
}

/// Whether a watch works, so that each turn is logged once.
#[derive(Default)]
struct Health {
    /// What was last told.
    broken: Option<String>,
    /// A refusal that has not been told yet: for a moment after its start an API server knows of no rights.
    refused: bool,
}

impl Health {
    fn judge<E>(&mut self, kind: &str, namespace: Option<&str>, event: &Result<E, Error>) {
        match event {
            Ok(_) => self.healed(kind, namespace),
            Err(broken) => self.broke(kind, namespace, broken),
        }
    }

    fn broke(&mut self, kind: &str, namespace: Option<&str>, broken: &Error) {
        if is_expired(broken) {
            debug!(%kind, namespace, "the watch expired and lists anew");
            return;
        }
        if status_code(broken) == Some(403) && !std::mem::replace(&mut self.refused, true) {
            debug!(%kind, namespace, "the watch was refused; it is told if it stays so");
            return;
        }
        let message = words(broken);
        if self.broken.as_ref() != Some(&message) {
            warn!(%kind, namespace, error = %message, "{}", advice(kind, broken, namespace));
            self.broken = Some(message);
        }
    }

    fn healed(&mut self, kind: &str, namespace: Option<&str>) {
        self.refused = false;
        if self.broken.take().is_some() {
            info!(%kind, namespace, "the watch works again");
        }
    }
}

/// What a person can do about a watch that does not work.
fn advice(kind: &str, broken: &Error, namespace: Option<&str>) -> String {
    match (status_code(broken), namespace) {
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

/// What is wrong, once: kube's own text has the API server's answer in it three times.
fn words(broken: &Error) -> String {
    match broken {
        Error::WatchError(status) => status.message.clone(),
        Error::InitialListFailed(cause) | Error::WatchStartFailed(cause) | Error::WatchFailed(cause) => {
            error::chain(cause)
        }
        Error::NoResourceVersion => error::chain(broken),
    }
}

fn is_refused(broken: &Error) -> bool {
    status_code(broken) == Some(403)
}

fn is_expired(broken: &Error) -> bool {
    status_code(broken) == Some(410)
}

fn status_code(broken: &Error) -> Option<u16> {
    status(broken).map(|status| status.code)
}

fn status(broken: &Error) -> Option<&Status> {
    match broken {
        Error::WatchError(status)
        | Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}
