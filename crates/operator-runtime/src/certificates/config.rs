//! What the keeping of certificates is told.

use std::{fmt, str::FromStr};

use rustls::pki_types::ServerName;

use super::Lifetimes;

/// The Secret that all replicas share, in the manager's own namespace.
pub const SECRET: &str = "ensemble-certificates";
/// The Service by which API servers reach the webhooks.
pub const WEBHOOK_SERVICE: &str = "ensemble-webhook";
/// The Service by which the metrics are read.
pub const METRICS_SERVICE: &str = "ensemble-metrics";

/// Who makes the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The manager does.
    Managed(Lifetimes),
    /// cert-manager does: `tls.crt`, `tls.key` and `ca.crt` of the Secret are its business, and are followed.
    CertManager,
}

/// An object in which the API server is told to call us. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CaBundleHolder {
    /// The ValidatingWebhookConfiguration of this name.
    Validating(String),
    /// The MutatingWebhookConfiguration of this name.
    Mutating(String),
    /// The CustomResourceDefinition of this name, for its conversion.
    Conversion(String),
}

/// What the keeping of certificates is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who makes them.
    pub source: Source,
    /// The namespace that the manager runs in.
    pub namespace: String,
    /// By which names the servers are reached, besides those of their Services.
    pub hosts: Vec<Host>,
    /// Where `caBundle` is kept right.
    pub holders: Vec<CaBundleHolder>,
}

impl Config {
    /// Every name that the serving certificate has to be made for. The Services are called `<name>.<namespace>.svc` by
    /// API servers; what lies behind that depends on the cluster's domain, and nobody needs it.
    pub(super) fn names(&self) -> Vec<ServerName<'static>> {
        let services =
            [WEBHOOK_SERVICE, METRICS_SERVICE].map(|name| format!("{name}.{}.svc", self.namespace));
        let services = services.into_iter().filter_map(|name| ServerName::try_from(name).ok());
        let mut names: Vec<_> = Vec::new();
        for name in services.chain(self.hosts.iter().map(|host| host.0.clone())) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// A DNS name or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(pub(super) ServerName<'static>);

/// Something is neither a DNS name nor an IP address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a DNS name nor an IP address; a port or path does not belong here")]
pub struct HostError(String);

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        ServerName::try_from(text.to_owned()).map(Self).map_err(|_| HostError(text.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses_and_nothing_else() {
        for host in ["127.0.0.1", "::1", "localhost", "dev.example.com"] {
            assert_eq!(host.parse::<Host>().unwrap().to_string(), host);
        }
        for other in ["", "a b", "https://a", "a:1", "a/b", "*.a", "[::1]"] {
            assert!(other.parse::<Host>().is_err(), "{other}");
        }
    }
}
