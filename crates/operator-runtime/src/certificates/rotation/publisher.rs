//! Serves a certificate on new connections.

use std::sync::Arc;

use certificates::{Authority, Serving};
use operator_core::metrics::{Certificate, Metrics};
use tracing::{error, info};

use crate::https::Identity;

/// Identity of the servers, and the metrics that report its expiry.
pub(crate) struct Publisher {
    pub(crate) identity: Identity,
    pub(crate) metrics: Arc<dyn Metrics>,
}

impl Publisher {
    /// Serves this certificate on new connections.
    pub(crate) fn publish(&self, serving: &Serving, authority: Option<&Authority>) {
        // Parsing has verified that certificate and key belong together, so this does not fail.
        if let Err(error) = self.identity.set(serving.chain_pem(), serving.key_pem()) {
            error!(error = %format!("{error:#}"), "cannot serve the certificate");
            return;
        }
        let not_after = serving.validity().not_after;
        info!(%not_after, "serving a new certificate");
        self.metrics.certificate(Certificate::Serving, not_after);
        if let Some(authority) = authority {
            self.metrics.certificate(Certificate::Authority, authority.validity().not_after);
        }
    }
}
