//! Keeping `caBundle` right wherever the API server is told to call us.
//!
//! Only `caBundle` is written, as a patch that holds nothing else and that names the resource version which was
//! read, under a field manager of its own: whoever applies the manifests, which have none, does not take it away.

mod holder;
mod place;

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use holder::PatchType;
pub(super) use holder::{Definition, Holder};
use k8s_openapi::ByteString;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use operator_core::{
    backoff::WatchBackoff,
    error::{chain, is_conflict, is_not_found, status},
    fence,
    metrics::Metrics,
};
use place::Place;
pub(super) use place::{Reach, ServiceName};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    keeper::{Keeper, KeeperError},
    pace::Pace,
    trouble::Trouble,
    watch::follow,
};

/// Who the API server remembers as the writer of `caBundle`.
const FIELD_MANAGER: &str = "ensemble-certificates";
/// How long to wait after a write that failed.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// One object and what is known of it.
pub(super) struct CaBundle<K> {
    pub(super) api: Api<K>,
    pub(super) name: String,
    pub(super) reach: Reach,
    pub(super) keeper: Arc<Keeper>,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// Why `caBundle` is not as it should be.
#[derive(Debug, thiserror::Error)]
enum CaBundleError {
    #[error(transparent)]
    Secret(#[from] KeeperError),
    #[error("cannot write it{advice}")]
    Write { advice: &'static str, source: kube::Error },
    #[error("somebody else keeps changing it: its managedFields tell who")]
    TooOften(Duration),
}

impl<K: Holder> CaBundle<K> {
    /// Keeps it right until `stop`, whenever the object exists.
    pub(super) async fn run(self, stop: CancellationToken) {
        let what = format!("keep caBundle of the {} {}", K::kind(&()), self.name);
        let (mut trouble, mut pace) = (Trouble::new(what), Pace::default());
        let mut backoff = WatchBackoff::new(RETRY.0, RETRY.1);
        let mut objects = pin!(follow(self.api.clone(), &self.name, self.metrics.clone()));
        let mut bundles = self.keeper.bundle();
        let (mut object, mut retry) = (None, None);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(seen) = objects.next() => object = seen,
                Ok(()) = bundles.changed() => {}
                () = wait(retry) => {}
            }
            let known = bundles.borrow_and_update().clone();
            retry = match self.heal(object.as_ref(), known, &mut pace).await {
                Ok(()) => {
                    trouble.worked();
                    backoff = WatchBackoff::new(RETRY.0, RETRY.1);
                    None
                }
                Err(error) => {
                    trouble.failed(&chain(&error));
                    if let CaBundleError::TooOften(wait) = error { Some(wait) } else { backoff.next() }
                }
            };
        }
    }

    async fn heal(&self, object: Option<&K>, known: Vec<u8>, pace: &mut Pace) -> Result<(), CaBundleError> {
        let Some(object) = object else { return Ok(()) };
        if self.wrong(object, &known).is_empty() {
            return Ok(());
        }
        // The Secret is read before anything is written: a replica that has not heard of a new bundle yet must not
        // bring the old one back.
        let bundle = self.keeper.settle().await?.bundle;
        let places = self.wrong(object, &bundle);
        if places.is_empty() {
            return Ok(());
        }
        pace.ask(fence::now()).map_err(CaBundleError::TooOften)?;
        self.write(object, &places, bundle).await
    }

    /// The places that are ours and do not hold the bundle. None, if there is no bundle yet.
    fn wrong(&self, object: &K, bundle: &[u8]) -> Vec<Place> {
        if bundle.is_empty() {
            return Vec::new();
        }
        let holds = |place: &Place| place.ca_bundle.as_ref().is_some_and(|held| held.0 == bundle);
        object.places().into_iter().filter(|place| self.reach.covers(place) && !holds(place)).collect()
    }

    async fn write(&self, object: &K, places: &[Place], bundle: Vec<u8>) -> Result<(), CaBundleError> {
        let mut change = K::change(places, &ByteString(bundle));
        if let Some(fields) = change.as_object_mut() {
            fields.insert("metadata".to_owned(), json!({ "resourceVersion": object.resource_version() }));
        }
        let patch = match K::PATCH {
            PatchType::Strategic => Patch::Strategic(change),
            PatchType::Merge => Patch::Merge(change),
        };
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api.patch(&self.name, &params, &patch).await {
            Ok(_) => {
                info!(kind = %K::kind(&()), object = self.name, "caBundle was written");
                Ok(())
            }
            // The watch tells what became of it.
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(()),
            Err(source) => Err(CaBundleError::Write { advice: advice(&source), source }),
        }
    }
}

fn advice(source: &kube::Error) -> &'static str {
    let is_forbidden = status(source).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden { "; apply deploy/rbac/certificates.yaml" } else { "" }
}

async fn wait(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => pending().await,
    }
}
