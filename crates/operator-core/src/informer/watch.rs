//! The loop between kube's watcher and a store.

use std::{fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource,
    core::{DeserializeGuard, Status, error_boundary::InvalidObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Error, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tracing::{debug, info, warn};

use super::Informer;
use crate::{
    backoff::WatchBackoff,
    error,
    kind::{Kind, ObjectKey, describe},
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

/// Follows a kind for ever.
pub(super) async fn follow<K: Kind>(informer: Informer<K>, api: Api<K>, labels: Option<&'static str>) {
    follow_with(informer, api, labels, Some).await;
}

/// Follows a kind for ever whose objects people write, and whose definition may be another version than ours:
/// an object that we cannot read is told of and passed over, and does not stop the others.
pub(super) async fn follow_guarded<K: Kind>(
    informer: Informer<K>,
    api: Api<DeserializeGuard<K>>,
    labels: Option<&'static str>,
) {
    follow_with(informer, api, labels, readable).await;
}

async fn follow_with<K: Kind, W>(
    informer: Informer<K>,
    api: Api<W>,
    labels: Option<&'static str>,
    read: fn(Event<W>) -> Option<Event<K>>,
) where
    W: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut health = Health::default();
    let mut lists = Lists::Streamed;
    loop {
        let events = watcher(api.clone(), config(labels, lists));
        let events = events.modify(|object| object.meta_mut().managed_fields = None);
        let mut events = pin!(events.backoff(WatchBackoff::new(RETRY.0, RETRY.1)));
        while let Some(event) = events.next().await {
            if lists == Lists::Streamed && event.as_ref().is_err_and(cannot_stream) {
                debug!(kind = %K::kind(&()), "the API server does not stream lists; they are read in pages");
                lists = Lists::Paged;
                break;
            }
            health.judge::<K, _>(&event);
            if let Some(event) = event.ok().and_then(read) {
                take_in(&informer, event);
            }
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

/// The event, unless it is about an object that we cannot read. Such an object stays in the store as it was
/// last readable; a relist takes it out.
fn readable<K: Kind>(event: Event<DeserializeGuard<K>>) -> Option<Event<K>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(read(object)?),
        Event::Apply(object) => Event::Apply(read(object)?),
        Event::Delete(object) => Event::Delete(read(object)?),
    })
}

fn read<K: Kind>(object: DeserializeGuard<K>) -> Option<K> {
    match object.0 {
        Ok(object) => Some(object),
        Err(InvalidObject { error, metadata }) => {
            let object = describe::<K>(&ObjectKey::of_meta(&metadata));
            warn!(%object, %error, "an object cannot be read and is left alone; install the CRDs of this version");
            None
        }
    }
}

fn take_in<K: Kind>(informer: &Informer<K>, event: Event<K>) {
    match event {
        Event::Init => informer.store().relist_began(),
        Event::InitApply(object) => informer.change(|store| store.listed(object)),
        Event::InitDone => {
            informer.change(super::Store::relist_ended);
            informer.shared.synced.send_replace(true);
        }
        Event::Apply(object) => informer.change(|store| store.applied(object)),
        Event::Delete(object) => informer.change(|store| store.deleted(&object)),
    }
}

/// Whether the watch works, so that each turn is logged once.
#[derive(Default)]
struct Health {
    /// What was last told.
    broken: Option<String>,
    /// A refusal that has not been told yet: for a moment after its start an API server knows of no rights.
    refused: bool,
}

impl Health {
    fn judge<K: Kind, E>(&mut self, event: &Result<E, Error>) {
        match event {
            Ok(_) => self.healed::<K>(),
            Err(broken) => self.broke::<K>(broken),
        }
    }

    fn broke<K: Kind>(&mut self, broken: &Error) {
        if is_expired(broken) {
            debug!(kind = %K::kind(&()), "the watch expired and lists anew");
            return;
        }
        if status_code(broken) == Some(403) && !std::mem::replace(&mut self.refused, true) {
            debug!(kind = %K::kind(&()), "the watch was refused; it is told if it stays so");
            return;
        }
        let message = words(broken);
        if self.broken.as_ref() != Some(&message) {
            warn!(kind = %K::kind(&()), error = %message, "{}", advice::<K>(broken));
            self.broken = Some(message);
        }
    }

    fn healed<K: Kind>(&mut self) {
        self.refused = false;
        if self.broken.take().is_some() {
            info!(kind = %K::kind(&()), "the watch works again");
        }
    }
}

/// What a person can do about a watch that does not work.
fn advice<K: Kind>(broken: &Error) -> String {
    let kind = K::kind(&());
    match status_code(broken) {
        Some(404) => format!(
            "cannot watch {kind}: the API server does not know it; install its CRD (--install-crds does)"
        ),
        Some(401) => format!(
            "cannot watch {kind}: the API server does not accept the credentials; renew the token or kubeconfig"
        ),
        Some(403) => {
            format!("cannot watch {kind}: not allowed; apply the ClusterRole and binding of deploy/rbac")
        }
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
