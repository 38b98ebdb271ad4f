//! Showing a certificate to clients.

use std::sync::Arc;

use operator_core::metrics::{Certificate, Metrics};
use tracing::{error, info};

use super::x509::{Authority, Serving};
use crate::https::Identity;

/// The servers' identity, and who is told when it ends.
pub(super) struct Display {
    pub(super) identity: Identity,
    pub(super) metrics: Arc<dyn Metrics>,
}

impl Display {
    /// Shows this certificate on new connections.
    pub(super) fn show(&self, serving: &Serving, authority: Option<&Authority>) {
        // Reading it has shown that certificate and key fit together, so this does not fail.
        if let Err(error) = self.identity.show(&serving.chain_pem, &serving.key_pem) {
            error!(error = %format!("{error:#}"), "a certificate cannot be served");
            return;
        }
        let not_after = serving.validity.not_after;
        info!(%not_after, "the servers show a new certificate");
        self.metrics.certificate(Certificate::Serving, not_after);
        if let Some(authority) = authority {
            self.metrics.certificate(Certificate::Authority, authority.validity.not_after);
        }
    }
}
