//! Webhooks of a manager on a workstation, which are registered by URL while it runs.
//!
//! Configurations of a manager that is deployed in the cluster refer to a Service, and are never
//! changed.

mod addresses;

pub(crate) use addresses::{Addresses, BIND_FLAG};
use anyhow::{Result, ensure};
use local_manager::Webhooks;
use manager::Flags;
use operator_core::Registration;
use operator_runtime::connect::connect;

const HOST_FLAG: &str = "--webhook-host";

/// Flags of a manager on this machine, and its webhooks.
pub(crate) struct Workstation {
    flags: Vec<String>,
    webhooks: Option<Webhooks>,
}

impl Workstation {
    /// Prepares a manager with these flags. `default` is the flag with the default address of its
    /// webhooks.
    ///
    /// If webhooks cannot work, prints the cause and disables them.
    pub(crate) async fn new(flags: &Flags, default: Option<&str>) -> Self {
        match Self::with_webhooks(flags, default).await {
            Ok(this) => this,
            Err(error) => {
                eprintln!("running without webhooks: {error:#}");
                Self { flags: vec![format!("{BIND_FLAG}=0")], webhooks: None }
            }
        }
    }

    async fn with_webhooks(parsed: &Flags, default: Option<&str>) -> Result<Self> {
        let mut flags: Vec<_> = default.map(ToOwned::to_owned).into_iter().collect();
        let Some(address) = parsed.webhook_bind_address.filter(|_| have_webhooks(&parsed.controllers)) else {
            return Ok(Self { flags, webhooks: None });
        };
        ensure!(address.port() != 0, "cannot register webhooks on port 0; set a port in {BIND_FLAG}");
        let host = parsed.webhook_hosts.first().map_or_else(
            || if address.ip().is_unspecified() { "127.0.0.1".to_owned() } else { address.ip().to_string() },
            ToString::to_string,
        );
        if parsed.webhook_hosts.is_empty() {
            flags.push(format!("{HOST_FLAG}={host}"));
        }
        let webhooks = Webhooks::new(connect().await?, &parsed.controllers, address, &host);
        ensure!(
            !webhooks.are_deployed().await?,
            "the webhooks of a manager that is deployed in the cluster are registered, and are not replaced"
        );
        webhooks.create_namespace().await?;
        Ok(Self { flags, webhooks: Some(webhooks) })
    }

    /// Returns the flags to put before the manager's arguments.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Returns whether the manager serves webhooks.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.webhooks.is_some()
    }

    /// Registers the webhooks when the manager listens.
    pub(crate) async fn register(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.register().await,
            None => Ok(()),
        }
    }

    /// Removes the registration of the webhooks.
    pub(crate) async fn unregister(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.unregister().await,
            None => Ok(()),
        }
    }
}

/// Returns whether any of these controllers has webhooks.
fn have_webhooks(controllers: &[Registration]) -> bool {
    let has_webhooks = |one: &Registration| !(one.webhooks)().is_empty() || !(one.conversions)().is_empty();
    controllers.iter().any(has_webhooks)
}
