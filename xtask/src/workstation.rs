//! The webhooks of a manager that runs on a workstation: the API server is told of them by URL, for as long as it runs.
//!
//! Configurations of a manager that is deployed in the cluster, which are by Service, are never touched.

mod addresses;
mod takeback;
mod told;

pub(crate) use addresses::{Addresses, BIND_FLAG};
use anyhow::{Result, ensure};
use manager::Flags;
use operator_core::Registration;
use operator_runtime::connect::connect;
pub(crate) use takeback::remove_leftovers;
pub(crate) use told::Webhooks;

/// Who the API server remembers as the writer.
pub(crate) const FIELD_MANAGER: &str = "ensemble";

const HOST_FLAG: &str = "--webhook-host";

/// A manager that runs on this machine, and whether the API server is to ask it.
pub(crate) struct Workstation {
    flags: Vec<String>,
    webhooks: Option<Webhooks>,
}

impl Workstation {
    /// A manager with these flags, its webhooks at an address that was `chosen` for it unless the flags name another. Where
    /// its webhooks would not work they are left out, and it is said why.
    pub(crate) async fn new(flags: &Flags, chosen: Option<&str>) -> Self {
        match Self::with_webhooks(flags, chosen).await {
            Ok(this) => this,
            Err(error) => {
                eprintln!("the webhooks are left out: {error:#}");
                Self { flags: vec![format!("{BIND_FLAG}=0")], webhooks: None }
            }
        }
    }

    async fn with_webhooks(parsed: &Flags, chosen: Option<&str>) -> Result<Self> {
        let mut flags: Vec<_> = chosen.map(ToOwned::to_owned).into_iter().collect();
        let Some(address) = parsed.webhook_bind_address.filter(|_| are_declared(&parsed.controllers)) else {
            return Ok(Self { flags, webhooks: None });
        };
        ensure!(address.port() != 0, "give {BIND_FLAG} a port, so that the API server can be told of it");
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
            "the API server asks a manager that is deployed in the cluster, and goes on doing so"
        );
        webhooks.make_namespace().await?;
        Ok(Self { flags, webhooks: Some(webhooks) })
    }

    /// What the manager's arguments begin with.
    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Whether the manager serves webhooks.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.webhooks.is_some()
    }

    /// Tells the API server, once the manager listens.
    pub(crate) async fn register(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.register().await,
            None => Ok(()),
        }
    }

    /// Takes back what the API server was told.
    pub(crate) async fn withdraw(&self) -> Result<()> {
        match &self.webhooks {
            Some(webhooks) => webhooks.withdraw().await,
            None => Ok(()),
        }
    }
}

/// Whether a manager of these controllers serves webhooks.
fn are_declared(controllers: &[Registration]) -> bool {
    let declares = |one: &Registration| !(one.webhooks)().is_empty() || !(one.conversions)().is_empty();
    controllers.iter().any(declares)
}
