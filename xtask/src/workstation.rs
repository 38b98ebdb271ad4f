//! The webhooks of a manager that runs on a workstation: the API server is told of them by URL, for as long as it runs.
//!
//! Configurations of a manager that is deployed in the cluster, which are by Service, are never touched.

mod takeback;
mod told;

use std::net::{SocketAddr, TcpListener};

use anyhow::{Result, ensure};
use manager::Task;
use operator_runtime::connect::connect;
pub(crate) use takeback::remove_leftovers;
pub(crate) use told::Webhooks;

use crate::stage::free_address;

/// Who the API server remembers as the writer.
pub(crate) const FIELD_MANAGER: &str = "ensemble";

/// Where the webhooks are served unless the flags say something else, if nobody has it yet.
const ADDRESS: &str = "127.0.0.1:9443";
const BIND_FLAG: &str = "--webhook-bind-address";
const HOST_FLAG: &str = "--webhook-host";

/// A manager that runs on this machine, and whether the API server is to ask it.
pub(crate) struct Workstation {
    flags: Vec<String>,
    webhooks: Option<Webhooks>,
}

impl Workstation {
    /// A manager with these arguments. Where its webhooks would not work they are left out, and it is said why.
    pub(crate) async fn new(args: &[String]) -> Self {
        match Self::with_webhooks(args).await {
            Ok(this) => this,
            Err(error) => {
                eprintln!("the webhooks are left out: {error:#}");
                Self { flags: vec![format!("{BIND_FLAG}=0")], webhooks: None }
            }
        }
    }

    async fn with_webhooks(args: &[String]) -> Result<Self> {
        let mut flags = Vec::new();
        if !is_given(args, BIND_FLAG) && std::env::var_os("ENSEMBLE_WEBHOOK_BIND_ADDRESS").is_none() {
            flags.push(format!("{BIND_FLAG}={}", usual_or_free_address()?));
        }
        let line = ["ensemble-manager".to_owned()].into_iter().chain(flags.iter().chain(args).cloned());
        let parsed = manager::parse_from(line.map(Into::into)).unwrap_or_else(|error| error.exit());
        if parsed.task != Task::Run {
            return Ok(Self { flags, webhooks: None });
        }
        let Some(address) = parsed.webhook_bind_address else { return Ok(Self { flags, webhooks: None }) };
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

/// The usual address, or a port that is free if somebody has that: another manager on this machine.
fn usual_or_free_address() -> Result<SocketAddr> {
    TcpListener::bind(ADDRESS).and_then(|listener| listener.local_addr()).or_else(|_| free_address())
}

fn is_given(args: &[String], flag: &str) -> bool {
    args.iter().any(|arg| arg == flag || arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
}
