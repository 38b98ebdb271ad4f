//! The certificates of the process's servers: made, shared between replicas through one Secret, replaced with overlap,
//! and trusted by the API server.
//!
//! The Secret `ensemble-certificates` holds everything; there is no other state, and no leader. Each replica looks at
//! it when it changes and when it is time, [plans](plan) what it should hold, writes that with the resource version
//! which it read, and starts over if another one was faster. It serves what the Secret holds, without a restart, and
//! keeps `caBundle` equal to the Secret's bundle wherever the API server is told to call it.

mod ca_bundle;
mod config;
mod contents;
mod display;
mod followed;
mod keeper;
mod lifetimes;
mod managed;
mod pace;
mod pki;
mod plan;
mod presence;
mod rules;
mod secret;
#[cfg(test)]
mod testing;
mod trouble;
mod watch;
mod x509;

use std::sync::Arc;

pub use config::{CaBundleHolder, Config, Host, HostError, METRICS_SERVICE, SECRET, Source, WEBHOOK_SERVICE};
pub use contents::CHAIN;
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, core::PartialObjectMeta};
pub use lifetimes::{Lifetimes, LifetimesError};
use operator_core::Environment;
pub use rules::{cluster_rules, rules};
use tokio::task::{JoinError, JoinSet};
pub use x509::lifetime;

use self::{
    ca_bundle::{CaBundle, Definition, Reach, ServiceName},
    display::Display,
    followed::Followed,
    keeper::{Habit, Keeper},
    managed::Managed,
    secret::SharedSecret,
};
use crate::https::Identity;

/// What the requests of this part call themselves.
const AGENT: &str = "certificates";

/// Keeps the certificates, until the environment asks to stop. `identity` shows them as soon as there are any: nothing
/// is shown that the Secret does not hold. An API server that is away, or missing rights, are told once and waited
/// for; what is shown stays meanwhile.
///
/// # Errors
/// When a task of it panicked, which is a bug: the process should end and be started anew.
pub async fn run(config: Config, environment: &Environment, identity: Identity) -> Result<(), JoinError> {
    let client = environment.clients.named(AGENT);
    let metrics = environment.metrics.clone();
    let secret = SharedSecret::new(client.clone(), &config.namespace, SECRET);
    let habit = match config.source {
        Source::Managed(lifetimes) => Habit::Managed(Managed::new(lifetimes, config.names())),
        Source::CertManager => Habit::Followed(Followed::new(config.names())),
    };
    let display = Display { identity, metrics: metrics.clone() };
    let keeper = Arc::new(Keeper::new(secret, display, habit));

    let mut tasks = JoinSet::new();
    // Its metadata is enough to know that it changed: the keys are sent only when they are asked for.
    let secrets = Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), &config.namespace);
    let changes = watch::follow(secrets, SECRET, metrics);
    tasks.spawn(keeper.clone().run(changes, environment.stop.clone()));
    let holders = Holders { keeper, environment, reach: reach(&config) };
    for holder in config.holders {
        match holder {
            CaBundleHolder::Validating(name) => {
                holders.keep::<ValidatingWebhookConfiguration>(name, &mut tasks);
            }
            CaBundleHolder::Mutating(name) => holders.keep::<MutatingWebhookConfiguration>(name, &mut tasks),
            CaBundleHolder::Conversion(name) => holders.keep::<Definition>(name, &mut tasks),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(())
}

fn reach(config: &Config) -> Reach {
    let service = ServiceName { namespace: config.namespace.clone(), name: WEBHOOK_SERVICE.to_owned() };
    Reach { service, hosts: config.hosts.iter().map(|host| host.0.clone()).collect() }
}

struct Holders<'a> {
    keeper: Arc<Keeper>,
    environment: &'a Environment,
    reach: Reach,
}

impl Holders<'_> {
    fn keep<K: ca_bundle::Holder>(&self, name: String, tasks: &mut JoinSet<()>) {
        let one = CaBundle::<K> {
            api: K::api(self.environment.clients.named(AGENT), None),
            name,
            reach: self.reach.clone(),
            keeper: self.keeper.clone(),
            metrics: self.environment.metrics.clone(),
        };
        tasks.spawn(one.run(self.environment.stop.clone()));
    }
}
