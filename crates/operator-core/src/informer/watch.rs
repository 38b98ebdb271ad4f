//! The loop between kube's watcher and a store.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource,
    core::{DeserializeGuard, error_boundary::InvalidObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Error, Event, watcher},
    },
};
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

/// Follows a kind for ever.
pub(super) async fn follow<K: Kind>(informer: Informer<K>, api: Api<K>, labels: Option<&'static str>) {
    let events = watcher(api, config(labels)).modify(|object| object.meta_mut().managed_fields = None);
    let mut events = pin!(events.backoff(WatchBackoff::new(RETRY.0, RETRY.1)));
    let mut health = Health::default();
    while let Some(event) = events.next().await {
        health.judge::<K, _>(&event);
        if let Ok(event) = event {
            take_in(&informer, event);
        }
    }
}

/// Follows a kind for ever whose objects people write, and whose definition may be another version than ours:
/// an object that we cannot read is told of and passed over, and does not stop the others.
pub(super) async fn follow_guarded<K: Kind>(
    informer: Informer<K>,
    api: Api<DeserializeGuard<K>>,
    labels: Option<&'static str>,
) {
    let events = watcher(api, config(labels)).modify(|object| object.meta_mut().managed_fields = None);
    let mut events = pin!(events.backoff(WatchBackoff::new(RETRY.0, RETRY.1)));
    let mut health = Health::default();
    while let Some(event) = events.next().await {
        health.judge::<K, _>(&event);
        if let Some(event) = event.ok().and_then(readable) {
            take_in(&informer, event);
        }
    }
}

fn config(labels: Option<&'static str>) -> watcher::Config {
    let config = watcher::Config::default().timeout(WATCH_SECONDS).streaming_lists();
    match labels {
        Some(labels) => config.labels(labels),
        None => config,
    }
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
    broken: Option<String>,
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
        let message = words(broken);
        if self.broken.as_ref() != Some(&message) {
            warn!(kind = %K::kind(&()), error = %message, "{}", advice::<K>(broken));
            self.broken = Some(message);
        }
    }

    fn healed<K: Kind>(&mut self) {
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
    match broken {
        Error::WatchError(status)
        | Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}
