//! The places in an object where a client configuration says whom to call and whom to trust.

use http::Uri;
use k8s_openapi::{ByteString, api::admissionregistration::v1::WebhookClientConfig};
use rustls::pki_types::ServerName;
use serde::Deserialize;

/// Whom the API server calls, and whom it trusts to be that.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Place {
    /// The webhook, in objects that have several.
    #[serde(skip)]
    pub(super) webhook: Option<String>,
    #[serde(default)]
    pub(super) service: Option<ServiceName>,
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) ca_bundle: Option<ByteString>,
}

/// The name of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ServiceName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Place {
    pub(super) fn of(webhook: &str, config: &WebhookClientConfig) -> Self {
        let service = config.service.as_ref();
        Self {
            webhook: Some(webhook.to_owned()),
            service: service.map(|service| ServiceName {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
            }),
            url: config.url.clone(),
            ca_bundle: config.ca_bundle.clone(),
        }
    }
}

/// Where our webhooks are reached.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) service: ServiceName,
    /// Hosts in URLs.
    pub(crate) hosts: Vec<ServerName<'static>>,
}

impl Reach {
    /// Whether the API server is told to call us. What is somebody else's is none of our business.
    pub(super) fn covers(&self, place: &Place) -> bool {
        match (&place.service, &place.url) {
            (Some(service), _) => *service == self.service,
            (None, Some(url)) => host(url).is_some_and(|host| self.hosts.contains(&host)),
            (None, None) => false,
        }
    }
}

fn host(url: &str) -> Option<ServerName<'static>> {
    let url: Uri = url.parse().ok()?;
    let host = url.host()?.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::testing::names;

    #[test]
    fn only_what_calls_us_is_ours() {
        let service = |namespace: &str, name: &str| ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let reach = Reach { service: service("a", "b"), hosts: names(&["127.0.0.1", "::1", "dev.example"]) };
        let by_service = |service| Place { service: Some(service), ..Place::default() };
        let by_url = |url: &str| Place { url: Some(url.to_owned()), ..Place::default() };
        assert!(reach.covers(&by_service(service("a", "b"))));
        assert!(!reach.covers(&by_service(service("a", "c"))));
        assert!(!reach.covers(&by_service(service("c", "b"))));
        for ours in ["https://127.0.0.1:9443/a", "https://[::1]:1/", "https://dev.example/x"] {
            assert!(reach.covers(&by_url(ours)), "{ours}");
        }
        for other in ["https://127.0.0.2:9443/a", "https://example/", "", "%", "https://[::2]/"] {
            assert!(!reach.covers(&by_url(other)), "{other}");
        }
        assert!(!reach.covers(&Place::default()));
    }
}
