//! Following a Secret that cert-manager keeps.

use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tracing::warn;

use super::{
    contents::{AUTHORITIES, CHAIN, KEY, bytes},
    display::Display,
    keeper::{KeeperError, Settled, until},
    secret::{SharedSecret, data},
    x509::{Authority, Serving, tidied},
};

/// What this replica shows, and for which names it should.
pub(super) struct Followed {
    names: Vec<ServerName<'static>>,
    shown: Option<Serving>,
}

impl Followed {
    pub(super) fn new(names: Vec<ServerName<'static>>) -> Self {
        Self { names, shown: None }
    }

    /// Reads the Secret and shows what it holds. A certificate that is not valid now is shown only if there is
    /// none that is. Never writes.
    pub(super) async fn settle(
        &mut self,
        secret: &SharedSecret,
        display: &Display,
    ) -> Result<Settled, KeeperError> {
        let stored = secret.read().await.map_err(|error| KeeperError::read(secret, error))?;
        let held = data(Some(&stored.ok_or_else(|| KeeperError::missing(secret))?)).clone();
        let serving = Serving::read(bytes(&held, CHAIN), bytes(&held, KEY))
            .map_err(|reason| KeeperError::unusable(secret, reason))?;
        let (now, trusted) = (Timestamp::now(), bytes(&held, AUTHORITIES));
        let look_again = Some(until(now, serving.validity.not_after));
        if self.should_show(&serving, now) {
            for name in self.names.iter().filter(|name| !serving.is_for(std::slice::from_ref(name))) {
                warn!(secret = %secret, host = %name.to_str(), "the certificate is not made for this name; add it to the Certificate");
            }
            display.show(&serving, serving.issuer(&Authority::read_all(trusted), now));
            self.shown = Some(serving);
        }
        Ok(Settled { bundle: tidied(trusted), look_again })
    }

    fn should_show(&self, serving: &Serving, now: Timestamp) -> bool {
        match &self.shown {
            None => true,
            Some(shown) => shown != serving && (serving.validity.covers(now) || !shown.validity.covers(now)),
        }
    }
}
