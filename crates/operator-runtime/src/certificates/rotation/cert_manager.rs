//! Rotation by cert-manager: serves what it writes to the Secret, and never writes.

use certificates::{Authority, Serving, readable_certificates};
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tracing::warn;

use super::{RotationError, Synced, publisher::Publisher, until};
use crate::certificates::store::{
    SharedSecret,
    contents::{AUTHORITIES, CHAIN, KEY, bytes},
    data,
};

/// State of this replica between two checks of the Secret.
pub(crate) struct CertManager {
    names: Vec<ServerName<'static>>,
    served: Option<Serving>,
}

impl CertManager {
    pub(crate) fn new(names: Vec<ServerName<'static>>) -> Self {
        Self { names, served: None }
    }

    /// Reads the Secret and serves its certificate. An expired certificate is served only if no
    /// valid one is known.
    pub(crate) async fn sync(
        &mut self,
        secret: &SharedSecret,
        publisher: &Publisher,
    ) -> Result<Synced, RotationError> {
        let stored = secret.read().await.map_err(|error| RotationError::read(secret, error))?;
        let held = data(Some(&stored.ok_or_else(|| RotationError::missing(secret))?)).clone();
        let serving = Serving::read(bytes(&held, CHAIN), bytes(&held, KEY))
            .map_err(|reason| RotationError::unusable(secret, reason))?;
        let (now, trusted) = (Timestamp::now(), bytes(&held, AUTHORITIES));
        let requeue_after = Some(until(now, serving.validity().not_after));
        if self.should_serve(&serving, now) {
            for name in self.names.iter().filter(|name| !serving.is_valid_for(std::slice::from_ref(name))) {
                warn!(secret = %secret, host = %name.to_str(), "the certificate is not valid for a host name of the server; add the name to the Certificate");
            }
            publisher.publish(&serving, serving.issuer(&Authority::read_all(trusted), now));
            self.served = Some(serving);
        }
        Ok(Synced { bundle: readable_certificates(trusted), requeue_after })
    }

    fn should_serve(&self, serving: &Serving, now: Timestamp) -> bool {
        match &self.served {
            None => true,
            Some(served) => {
                served != serving && (serving.validity().covers(now) || !served.validity().covers(now))
            }
        }
    }
}
