//! Client configurations of webhooks: how the API server reaches one, and which authorities it
//! trusts.

use http::Uri;
use k8s_openapi::{ByteString, api::admissionregistration::v1::WebhookClientConfig};
use rustls::pki_types::ServerName;
use serde::Deserialize;

/// Client configuration of a webhook or a conversion.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientConfig {
    /// Name of the webhook; `None` for a conversion.
    #[serde(skip)]
    pub(super) webhook: Option<String>,
    #[serde(default)]
    pub(super) service: Option<ServiceName>,
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) ca_bundle: Option<ByteString>,
}

/// Namespace and name of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ServiceName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ClientConfig {
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

/// Endpoints of this manager's webhook server.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) service: ServiceName,
    /// Host names and addresses that URLs may contain.
    pub(crate) hosts: Vec<ServerName<'static>>,
}

impl Endpoints {
    /// Returns whether a client configuration refers to this manager.
    pub(super) fn contain(&self, client_config: &ClientConfig) -> bool {
        match (&client_config.service, &client_config.url) {
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
    fn selects_only_client_configs_of_this_manager() {
        let service = |namespace: &str, name: &str| ServiceName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let endpoints =
            Endpoints { service: service("a", "b"), hosts: names(&["127.0.0.1", "::1", "dev.example"]) };
        let by_service = |service| ClientConfig { service: Some(service), ..ClientConfig::default() };
        let by_url = |url: &str| ClientConfig { url: Some(url.to_owned()), ..ClientConfig::default() };
        assert!(endpoints.contain(&by_service(service("a", "b"))));
        assert!(!endpoints.contain(&by_service(service("a", "c"))));
        assert!(!endpoints.contain(&by_service(service("c", "b"))));
        for url in ["https://127.0.0.1:9443/a", "https://[::1]:1/", "https://dev.example/x"] {
            assert!(endpoints.contain(&by_url(url)), "{url}");
        }
        for other in ["https://127.0.0.2:9443/a", "https://example/", "", "%", "https://[::2]/"] {
            assert!(!endpoints.contain(&by_url(other)), "{other}");
        }
        assert!(!endpoints.contain(&ClientConfig::default()));
    }
}
