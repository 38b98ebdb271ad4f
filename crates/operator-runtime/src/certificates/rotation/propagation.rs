//! The certificate that this process serves, and when it switches to a new one.

use std::time::Duration;

use certificates::Authority;
use jiff::Timestamp;

use super::plan::Served;
use crate::certificates::store::contents::Contents;

/// Tracks the served certificate and since when each authority has been in the bundle.
#[derive(Debug, Default)]
pub(crate) struct Propagation {
    served: Option<Served>,
    known: Vec<(Authority, Duration)>,
}

/// What to serve after a check of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Keep serving the current certificate.
    Keep,
    /// Serve the Secret's certificate from now on.
    Serve,
    /// Serve the Secret's certificate after this time, because its authority is new to the bundle.
    Wait(Duration),
}

impl Propagation {
    pub(crate) fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }

    /// Processes the contents of the Secret. `uptime` is a monotonic clock.
    ///
    /// While the current certificate is valid, a certificate is not served until its authority has
    /// been in the bundle for `propagation`: some API servers may not trust it yet.
    pub(crate) fn observe(
        &mut self,
        contents: &Contents,
        now: Timestamp,
        uptime: Duration,
        propagation: Duration,
    ) -> Step {
        let authorities = &contents.authorities;
        self.update_known(authorities, uptime);
        let mut known = authorities.clone();
        let Some((stored, issuer)) = contents
            .serving
            .as_ref()
            .ok()
            .and_then(|serving| Some((serving, serving.issuer(authorities, now)?)))
        else {
            return Step::Keep;
        };
        if let Some(served) = &self.served
            && let Some(present) = served.issuer(now).cloned()
        {
            if served.serving == *stored {
                return Step::Keep;
            }
            let age = self
                .known
                .iter()
                .find(|(known, _)| known == issuer)
                .map(|(_, since)| uptime.saturating_sub(*since));
            let left = propagation.saturating_sub(age.unwrap_or_default());
            if present != *issuer && !left.is_zero() {
                return Step::Wait(left);
            }
        }
        let before = self.served.iter().flat_map(|served| &served.authorities);
        known.extend(before.filter(|authority| !authorities.contains(authority)).cloned());
        self.served = Some(Served { serving: stored.clone(), authorities: known });
        Step::Serve
    }

    /// Records the bundle of a Secret that holds what it should.
    pub(crate) fn synced(&mut self, authorities: &[Authority]) {
        if let Some(served) = &mut self.served {
            served.authorities = authorities.to_vec();
        }
    }

    fn update_known(&mut self, authorities: &[Authority], uptime: Duration) {
        self.known.retain(|(known, _)| authorities.contains(known));
        for authority in authorities {
            if !self.known.iter().any(|(known, _)| known == authority) {
                self.known.push((authority.clone(), uptime));
            }
        }
    }
}
