//! Keeping the certificates of the HTTPS servers.

use anyhow::{Context, Result};
use operator_core::{
    Environment, Registration,
    admission::configuration::{self, ClientConfig},
};
use operator_runtime::{
    certificates::{self, CaBundleTarget, Config},
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
        targets: ca_bundle_targets(controllers),
    };
    let (environment, identity) = (environment.clone(), identity.clone());
    tokio::spawn(async move {
        let ended = certificates::run(config, &environment, identity).await;
        environment.stop.cancel();
        ended.context("the keeping of certificates ended by itself")
    })
}

/// The objects in which the API server is told to call the webhooks and conversions of these controllers.
pub fn ca_bundle_targets(controllers: &[Registration]) -> Vec<CaBundleTarget> {
    controllers.iter().flat_map(targets).collect()
}

fn targets(controller: &Registration) -> impl Iterator<Item = CaBundleTarget> + use<> {
    // How the API server reaches us makes no difference to what the objects are called.
    let reach = ClientConfig::Service { namespace: String::new() };
    let name = || configuration::name(controller.name);
    let validating =
        configuration::validating(controller, &reach).map(|_| CaBundleTarget::Validating(name()));
    let mutating = configuration::mutating(controller, &reach).map(|_| CaBundleTarget::Mutating(name()));
    let conversions = (controller.conversions)();
    let conversions: Vec<_> =
        conversions.iter().map(|conversion| CaBundleTarget::Conversion(conversion.definition())).collect();
    validating.into_iter().chain(mutating).chain(conversions)
}
