//! Following one object by its name, so that the right to follow it is enough.

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future::ready};
use kube::{
    Api,
    runtime::{
        WatchStreamExt,
        watcher::{self, Error, Event, watcher},
    },
};
use operator_core::{
    backoff::WatchBackoff,
    error::chain,
    kind::Kind,
    metrics::{Metrics, Restarted},
};

use super::trouble::Trouble;

/// How long a watch lasts before it is opened anew, in seconds: a connection that died in silence is noticed by then.
const WATCH_SECONDS: u32 = 55;
/// How long to wait between attempts to open a broken watch.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The object, or that there is none, each time that either may have changed. Never ends.
pub(super) fn follow<K: Kind>(
    api: Api<K>,
    name: &str,
    metrics: Arc<dyn Metrics>,
) -> impl Stream<Item = Option<K>> + Send + use<K> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let mut trouble = Trouble::new(format!("watch the {} {name}", K::kind(&())));
    let mut was_listed = false;
    watcher(api, config).backoff(WatchBackoff::new(RETRY.0, RETRY.1)).filter_map(move |event| {
        tell(&event, &mut trouble);
        count::<K>(&event, &*metrics);
        ready(match event {
            Ok(Event::Init) => {
                was_listed = false;
                None
            }
            Ok(Event::InitApply(object)) => {
                was_listed = true;
                Some(Some(object))
            }
            Ok(Event::Apply(object)) => Some(Some(object)),
            Ok(Event::Delete(_)) => Some(None),
            Ok(Event::InitDone) if !was_listed => Some(None),
            Ok(Event::InitDone) | Err(_) => None,
        })
    })
}

fn count<K: Kind>(event: &Result<Event<K>, Error>, metrics: &dyn Metrics) {
    match event {
        Ok(Event::Init) => metrics.watch_restarted(&K::kind(&()), Restarted::Listed),
        Err(error) if !is_expired(error) => metrics.watch_restarted(&K::kind(&()), Restarted::Failed),
        _ => {}
    }
}

fn tell<K>(event: &Result<Event<K>, Error>, trouble: &mut Trouble) {
    match event {
        // That a list begins says nothing yet.
        Ok(Event::Init) => {}
        Ok(_) => trouble.worked(),
        Err(error) if is_expired(error) => {}
        Err(Error::WatchError(status)) => trouble.failed(&status.message),
        Err(Error::InitialListFailed(cause) | Error::WatchStartFailed(cause) | Error::WatchFailed(cause)) => {
            trouble.failed(&chain(cause));
        }
        Err(error) => trouble.failed(&chain(error)),
    }
}

/// Whether the watch only has to list anew.
fn is_expired(error: &Error) -> bool {
    match error {
        Error::WatchError(status) => status.code == 410,
        Error::WatchFailed(kube::Error::Api(status)) | Error::WatchStartFailed(kube::Error::Api(status)) => {
            status.code == 410
        }
        _ => false,
    }
}
