//! Injects the certificate authorities into `caBundle` of webhook configurations and
//! CustomResourceDefinitions.
//!
//! Each write is a patch that contains only `caBundle` and the resource version that was read. It
//! has a field manager of its own, so applying the manifests again, which have no `caBundle`, does
//! not remove it.

mod client_config;
mod target;

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use client_config::ClientConfig;
pub(super) use client_config::{Endpoints, ServiceName};
use futures::StreamExt;
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
use serde_json::json;
use target::PatchType;
pub(super) use target::{ConversionDefinition, Target};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    object_watch::watch_object,
    outage_log::OutageLog,
    rotation::{RotationError, Rotator, write_limiter::WriteLimiter},
};

/// Field manager of `caBundle`.
const FIELD_MANAGER: &str = "ensemble-certificates";
/// Backoff after a failed write: minimum and maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Keeps `caBundle` of one object up to date.
pub(super) struct Injector<K> {
    pub(super) api: Api<K>,
    pub(super) name: String,
    pub(super) endpoints: Endpoints,
    pub(super) rotator: Arc<Rotator>,
    pub(super) metrics: Arc<dyn Metrics>,
}

/// Error while `caBundle` is written.
#[derive(Debug, thiserror::Error)]
enum InjectionError {
    #[error(transparent)]
    Secret(#[from] RotationError),
    #[error("cannot patch caBundle{advice}")]
    Write { advice: &'static str, source: kube::Error },
    #[error("another client keeps changing caBundle: see managedFields of the object")]
    RateLimited(Duration),
}

impl<K: Target> Injector<K> {
    /// Writes `caBundle` whenever the object exists and its value is outdated, until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let what = format!("inject caBundle into the {} {}", K::kind(&()), self.name);
        let (mut outages, mut limiter) = (OutageLog::new(what), WriteLimiter::default());
        let mut backoff = WatchBackoff::new(RETRY.0, RETRY.1);
        let mut objects = pin!(watch_object(self.api.clone(), &self.name, self.metrics.clone()));
        let mut bundles = self.rotator.bundle();
        let (mut object, mut retry) = (None, None);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(seen) = objects.next() => object = seen,
                Ok(()) = bundles.changed() => {}
                () = wait(retry) => {}
            }
            let known = bundles.borrow_and_update().clone();
            retry = match self.inject(object.as_ref(), known, &mut limiter).await {
                Ok(()) => {
                    outages.recovered();
                    backoff = WatchBackoff::new(RETRY.0, RETRY.1);
                    None
                }
                Err(error) => {
                    outages.failed(&chain(&error));
                    if let InjectionError::RateLimited(wait) = error { Some(wait) } else { backoff.next() }
                }
            };
        }
    }

    async fn inject(
        &self,
        object: Option<&K>,
        known: Vec<u8>,
        limiter: &mut WriteLimiter,
    ) -> Result<(), InjectionError> {
        let Some(object) = object else { return Ok(()) };
        if self.outdated(object, &known).is_empty() {
            return Ok(());
        }
        // Read the Secret before writing: a replica that has not seen a new bundle yet must not
        // write the old one.
        let bundle = self.rotator.sync().await?.bundle;
        let client_configs = self.outdated(object, &bundle);
        if client_configs.is_empty() {
            return Ok(());
        }
        limiter.acquire(fence::now()).map_err(InjectionError::RateLimited)?;
        self.write(object, &client_configs, bundle).await
    }

    /// Returns the client configurations that refer to this manager and do not have the bundle.
    /// Empty if there is no bundle yet.
    fn outdated(&self, object: &K, bundle: &[u8]) -> Vec<ClientConfig> {
        if bundle.is_empty() {
            return Vec::new();
        }
        let holds = |client_config: &ClientConfig| {
            client_config.ca_bundle.as_ref().is_some_and(|held| held.0 == bundle)
        };
        object
            .client_configs()
            .into_iter()
            .filter(|client_config| self.endpoints.contain(client_config) && !holds(client_config))
            .collect()
    }

    async fn write(
        &self,
        object: &K,
        client_configs: &[ClientConfig],
        bundle: Vec<u8>,
    ) -> Result<(), InjectionError> {
        let mut change = K::patch(client_configs, &ByteString(bundle));
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
                info!(kind = %K::kind(&()), object = self.name, "injected caBundle");
                Ok(())
            }
            // The watch delivers the new state of the object.
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(()),
            Err(source) => Err(InjectionError::Write { advice: advice(&source), source }),
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
