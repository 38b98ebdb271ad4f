//! Default ports of the manager and of the proxy.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};

/// Default ports of the manager.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) probes: u16,
    pub(crate) webhook: u16,
    pub(crate) metrics: u16,
}

impl Ports {
    /// Returns the default ports from the manager's flags.
    ///
    /// # Errors
    /// Returns an error if a flag does not exist, or if its default is not an address.
    pub(crate) fn of_manager() -> Result<Self> {
        let command = manager::command();
        Ok(Self {
            probes: port(&command, "health-probe-bind-address")?,
            webhook: port(&command, "webhook-bind-address")?,
            metrics: port(&command, "metrics-bind-address")?,
        })
    }
}

/// Default ports of the proxy of Tenants.
#[derive(Clone, Copy)]
pub(crate) struct ProxyPorts {
    pub(crate) probes: u16,
    pub(crate) api: u16,
    pub(crate) metrics: u16,
}

impl ProxyPorts {
    /// Returns the default ports from the flags of the proxy.
    ///
    /// # Errors
    /// Returns an error if a flag does not exist, or if its default is not an address.
    pub(crate) fn of_proxy() -> Result<Self> {
        let command = tenant_proxy::flags::Flags::command();
        Ok(Self {
            probes: port(&command, "health-probe-bind-address")?,
            api: port(&command, "bind-address")?,
            metrics: port(&command, "metrics-bind-address")?,
        })
    }
}

fn port(command: &Command, flag: &str) -> Result<u16> {
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
    let default = argument.and_then(|argument| argument.get_default_values().first());
    let address = default.and_then(|default| default.to_str()?.parse::<SocketAddr>().ok());
    Ok(address.with_context(|| format!("the default of the flag --{flag} is not an address"))?.port())
}
