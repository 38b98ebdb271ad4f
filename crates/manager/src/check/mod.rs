//! `ensemble-manager check`: checks that the managers of an installation work.
//!
//! The Helm chart runs it as its test. `ensemblectl check` checks more, and needs the permissions
//! of an administrator.

mod managers;
mod rbac;
mod webhooks;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::Client;
use operator_core::client::Clients;
use operator_runtime::connect::connect;
pub use rbac::{namespace_rules, webhook_rules};
use tokio::time::sleep;
use tracing::info;
pub use webhooks::create_webhook;

use crate::Flags;

/// Name in the `User-Agent` of the requests.
const AGENT: &str = "check";
/// Time between two attempts.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `ensemble-manager check`: repeats the checks until all succeed, for at most `wait`.
///
/// # Errors
/// Returns an error with all failures of the last attempt.
pub(crate) async fn run(flags: &Flags, wait: Duration) -> Result<()> {
    let client = Clients::new(connect().await?).named(AGENT);
    let started = Instant::now();
    loop {
        let failures = failures(&client, flags).await;
        if failures.is_empty() {
            info!(namespace = %flags.namespace, "the installation works");
            return Ok(());
        }
        let message = failures.join("; ");
        ensure!(started.elapsed() < wait, "the installation does not work: {message}");
        info!(failures = %message, "waiting for the installation to work");
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns what does not work. The webhooks are left out if the managers do not work, because their
/// calls would fail, too.
async fn failures(client: &Client, flags: &Flags) -> Vec<String> {
    let failures = managers::failures(client, flags).await;
    if !failures.is_empty() || flags.webhook_bind_address.is_none() {
        return failures;
    }
    webhooks::failures(client, &flags.controllers).await
}

#[cfg(test)]
mod testing {
    use kube::core::Status;

    /// Returns an error response of the API server.
    pub(super) fn api_error(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }
}
