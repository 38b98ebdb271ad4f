//! Certificates of the HTTPS servers.

use anyhow::{Context, Result};
use operator_core::{
    Environment, Registration,
    manifests::webhooks::{self, ClientConfig},
};
use operator_runtime::{
    certificates::{self, CaBundleTarget, Config},
    https::Identity,
};
use tokio::task::JoinHandle;

use crate::Flags;

/// Starts the task that issues, loads, and rotates the certificates.
///
/// The task runs until the process stops. If it ends earlier, it stops the process.
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
        let result = certificates::run(config, &environment, identity).await;
        environment.stop.cancel();
        result.context("the certificate task has failed")
    })
}

/// Returns the objects that need a `caBundle` for the webhooks and conversions of these controllers.
pub fn ca_bundle_targets(controllers: &[Registration]) -> Vec<CaBundleTarget> {
    controllers.iter().flat_map(targets).collect()
}

fn targets(controller: &Registration) -> impl Iterator<Item = CaBundleTarget> + use<> {
    // The names of the objects do not depend on the client configuration.
    let client_config = ClientConfig::Service { namespace: String::new() };
    let name = || webhooks::name(controller.name);
    let validating =
        webhooks::validating(controller, &client_config).map(|_| CaBundleTarget::Validating(name()));
    let mutating = webhooks::mutating(controller, &client_config).map(|_| CaBundleTarget::Mutating(name()));
    let conversions = (controller.conversions)();
    let conversions: Vec<_> =
        conversions.iter().map(|conversion| CaBundleTarget::Conversion(conversion.definition())).collect();
    validating.into_iter().chain(mutating).chain(conversions)
}
