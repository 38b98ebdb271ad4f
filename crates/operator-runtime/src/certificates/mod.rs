//! Serving certificates of the process: issued, shared between replicas through one Secret, rotated
//! with overlap, and injected into `caBundle`.
//!
//! The Secret `ensemble-certificates` holds all state, and there is no leader. Every replica reads
//! the Secret when it changes and when a certificate becomes due, computes the
//! contents that the Secret should have, and replaces it with the resource version that it read. On
//! a conflict it starts again. Every replica serves what the Secret holds, without a restart, and
//! keeps `caBundle` equal to the Secret's bundle in every webhook configuration and
//! CustomResourceDefinition that refers to this manager.
//!
//! ```text
//! store         reads and writes the Secret, and parses what it holds
//! rotation      decides what the Secret should hold, when to check again, and which certificate is served
//! ca_injection  writes caBundle where the API server looks for it
//! ```
//!
//! The crate `certificates` creates keys and certificates, and verifies them.

mod ca_injection;
mod config;
mod object_watch;
mod outage_log;
mod rbac;
mod rotation;
mod store;
#[cfg(test)]
mod testing;

use std::sync::Arc;

pub use certificates::{Lifetimes, LifetimesError, lifetime};
pub use config::{CaBundleTarget, Config, Host, HostError, METRICS_SERVICE, SECRET, Source, WEBHOOK_SERVICE};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, Client, core::PartialObjectMeta};
use operator_core::{Environment, watch_connection::watch_client};
pub use rbac::{cluster_rules, rules};
pub use store::contents::CHAIN;
use tokio::task::{JoinError, JoinSet};

use self::{
    ca_injection::{ConversionDefinition, Endpoints, Injector, ServiceName, Target},
    rotation::{Mode, Rotator, cert_manager::CertManager, publisher::Publisher, self_signed::SelfSigned},
    store::SharedSecret,
};
use crate::https::Identity;

/// Name of this component in the `User-Agent` of its requests.
const AGENT: &str = "certificates";

/// Rotates the certificates until the environment stops.
///
/// `identity` serves the certificate as soon as the Secret holds one; nothing is served that the
/// Secret does not hold. An unreachable API server or a missing right is logged once and retried,
/// and the certificate that is being served stays in use.
///
/// # Errors
/// Returns an error if one of its tasks panicked, which is a bug. Restart the process then.
pub async fn run(config: Config, environment: &Environment, identity: Identity) -> Result<(), JoinError> {
    // Its watches end when their connection is dead.
    let client = watch_client(&environment.clients.named(AGENT));
    let metrics = environment.metrics.clone();
    let secret = SharedSecret::new(client.clone(), &config.namespace, SECRET);
    let mode = match config.source {
        Source::Managed(lifetimes) => Mode::SelfSigned(SelfSigned::new(lifetimes, config.names())),
        Source::CertManager => Mode::CertManager(CertManager::new(config.names())),
    };
    let publisher = Publisher { identity, metrics: metrics.clone() };
    let rotator = Arc::new(Rotator::new(secret, publisher, mode));

    let mut tasks = JoinSet::new();
    // The metadata is enough to see that the Secret changed. Its keys are read only when they are
    // needed.
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), &config.namespace);
    let changes = object_watch::watch_object(secrets, SECRET, metrics);
    tasks.spawn(rotator.clone().run(changes, environment.stop.clone()));
    let injectors = Injectors { rotator, client, environment, endpoints: endpoints(&config) };
    for target in config.targets {
        match target {
            CaBundleTarget::Validating(name) => {
                injectors.spawn::<ValidatingWebhookConfiguration>(name, &mut tasks);
            }
            CaBundleTarget::Mutating(name) => {
                injectors.spawn::<MutatingWebhookConfiguration>(name, &mut tasks);
            }
            CaBundleTarget::Conversion(name) => injectors.spawn::<ConversionDefinition>(name, &mut tasks),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

fn endpoints(config: &Config) -> Endpoints {
    let service = ServiceName { namespace: config.namespace.clone(), name: WEBHOOK_SERVICE.to_owned() };
    Endpoints { service, hosts: config.hosts.iter().map(|host| host.0.clone()).collect() }
}

/// Starts one task for each object whose `caBundle` is kept up to date.
struct Injectors<'a> {
    rotator: Arc<Rotator>,
    client: Client,
    environment: &'a Environment,
    endpoints: Endpoints,
}

impl Injectors<'_> {
    fn spawn<K: Target>(&self, name: String, tasks: &mut JoinSet<()>) {
        let injector = Injector::<K> {
            api: K::api(self.client.clone(), None),
            name,
            endpoints: self.endpoints.clone(),
            rotator: self.rotator.clone(),
            metrics: self.environment.metrics.clone(),
        };
        tasks.spawn(injector.run(self.environment.stop.clone()));
    }
}
