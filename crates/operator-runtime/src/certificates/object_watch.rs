//! Watch of a single object by name, which needs rights on that name only.

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
    metrics::{Metrics, WatchRestart},
    watch_connection::WATCH_SECONDS,
};

use super::outage_log::OutageLog;

/// Backoff after a broken watch: minimum and maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Returns a stream of the object's states, with `None` while it does not exist. The stream never
/// ends. The client of `api` must detect dead connections.
pub(super) fn watch_object<K: Kind>(
    api: Api<K>,
    name: &str,
    metrics: Arc<dyn Metrics>,
) -> impl Stream<Item = Option<K>> + Send + use<K> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let mut outages = OutageLog::new(format!("watch the {} {name}", K::kind(&())));
    let mut was_listed = false;
    watcher(api, config).backoff(WatchBackoff::new(RETRY.0, RETRY.1)).filter_map(move |event| {
        report(&event, &mut outages);
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
        Ok(Event::Init) => metrics.watch_restarted(&K::kind(&()), WatchRestart::Listed),
        Err(error) if !is_expired(error) => metrics.watch_restarted(&K::kind(&()), WatchRestart::Failed),
        _ => {}
    }
}

fn report<K>(event: &Result<Event<K>, Error>, outages: &mut OutageLog) {
    match event {
        // The start of a list is not a success yet.
        Ok(Event::Init) => {}
        Ok(_) => outages.recovered(),
        Err(error) if is_expired(error) => {}
        Err(Error::WatchError(status)) => outages.failed(&status.message),
        Err(Error::InitialListFailed(cause) | Error::WatchStartFailed(cause) | Error::WatchFailed(cause)) => {
            outages.failed(&chain(cause));
        }
        Err(error) => outages.failed(&chain(error)),
    }
}

/// Returns whether the watch expired, so that it only has to list again.
fn is_expired(error: &Error) -> bool {
    match error {
        Error::WatchError(status) => status.code == 410,
        Error::WatchFailed(kube::Error::Api(status)) | Error::WatchStartFailed(kube::Error::Api(status)) => {
            status.code == 410
        }
        _ => false,
    }
}
