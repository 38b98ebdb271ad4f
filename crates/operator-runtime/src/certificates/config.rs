//! Configuration of certificates.

use std::{fmt, str::FromStr};

use certificates::Lifetimes;
use rustls::pki_types::ServerName;

/// Name of the Secret that all replicas share, in the manager's namespace.
pub const SECRET: &str = "ensemble-certificates";
/// Name of the Service through which API servers call the webhooks.
pub const WEBHOOK_SERVICE: &str = "ensemble-webhook";
/// Name of the Service through which metrics are scraped.
pub const METRICS_SERVICE: &str = "ensemble-metrics";

/// Issuer of the certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The manager issues them with a certificate authority of its own.
    Managed(Lifetimes),
    /// cert-manager writes `tls.crt`, `tls.key`, and `ca.crt` of the Secret. The manager only reads
    /// them.
    CertManager,
}

/// An object whose `caBundle` is kept up to date. It does not have to exist.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CaBundleTarget {
    /// The ValidatingWebhookConfiguration of this name.
    Validating(String),
    /// The MutatingWebhookConfiguration of this name.
    Mutating(String),
    /// The CustomResourceDefinition of this name, for its conversion.
    Conversion(String),
}

/// Configuration of [`run`](super::run).
#[derive(Clone, Debug)]
pub struct Config {
    /// Issuer of the certificates.
    pub source: Source,
    /// Namespace that the manager runs in.
    pub namespace: String,
    /// Host names and addresses of the servers, in addition to the names of their Services.
    pub hosts: Vec<Host>,
    /// Objects whose `caBundle` is kept up to date.
    pub targets: Vec<CaBundleTarget>,
}

impl Config {
    /// Returns every name that the serving certificate has to be valid for. API servers call a
    /// Service by `<name>.<namespace>.svc`; the cluster domain is never part of it.
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

/// Error for text that is neither a DNS name nor an IP address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a DNS name nor an IP address; leave out any port or path")]
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
    fn accepts_dns_names_and_addresses_as_hosts() {
        for host in ["127.0.0.1", "::1", "localhost", "dev.example.com"] {
            assert_eq!(host.parse::<Host>().unwrap().to_string(), host);
        }
        for other in ["", "a b", "https://a", "a:1", "a/b", "*.a", "[::1]"] {
            assert!(other.parse::<Host>().is_err(), "{other}");
        }
    }
}
