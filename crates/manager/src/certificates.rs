//! Keeping the certificates of the HTTPS servers.

use anyhow::{Context, Result};
use operator_core::{
    Environment, Registration,
    admission::configuration::{self, Reach},
};
use operator_runtime::{
    certificates::{self, CaBundleHolder, Config},
    https::Identity,
};
use tokio::task::JoinHandle;

use crate::Flags;

/// Starts to keep them. Ends with the process; if it ends before, the process is asked to stop.
pub(crate) fn start(
    flags: &Flags,
    environment: &Environment,
    identity: &Identity,
    has_webhooks: bool,
) -> JoinHandle<Result<()>> {
    let controllers = if has_webhooks { flags.controllers.as_slice() } else { &[] };
    let config = Config {
        source: flags.certificates,
        namespace: flags.namespace.clone(),
        hosts: flags.webhook_hosts.clone(),
        holders: ca_bundle_holders(controllers),
    };
    let (environment, identity) = (environment.clone(), identity.clone());
    tokio::spawn(async move {
        let ended = certificates::run(config, &environment, identity).await;
        environment.stop.cancel();
        ended.context("the keeping of certificates ended by itself")
    })
}

/// The objects in which the API server is told to call the webhooks and conversions of these controllers.
pub fn ca_bundle_holders(controllers: &[Registration]) -> Vec<CaBundleHolder> {
    controllers.iter().flat_map(holders).collect()
}

fn holders(controller: &Registration) -> impl Iterator<Item = CaBundleHolder> + use<> {
    // How the API server reaches us makes no difference to what the objects are called.
    let reach = Reach::Service { namespace: String::new() };
    let name = || configuration::name(controller.name);
    let validating =
        configuration::validating(controller, &reach).map(|_| CaBundleHolder::Validating(name()));
    let mutating = configuration::mutating(controller, &reach).map(|_| CaBundleHolder::Mutating(name()));
    let conversions = (controller.conversions)();
    let conversions: Vec<_> =
        conversions.iter().map(|conversion| CaBundleHolder::Conversion(conversion.definition())).collect();
    validating.into_iter().chain(mutating).chain(conversions)
}
