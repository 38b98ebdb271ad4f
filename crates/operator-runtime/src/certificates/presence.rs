//! What this process shows to its clients, and when it changes over.

use std::time::Duration;

use jiff::Timestamp;

use super::{contents::Contents, plan::Shown, x509::Authority};

/// What this process shows, and since when it knows the authorities in the bundle.
#[derive(Debug, Default)]
pub(super) struct Presence {
    shown: Option<Shown>,
    known: Vec<(Authority, Duration)>,
}

/// What to do after a look at the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Go on showing what is shown.
    Stay,
    /// The Secret's certificate is shown from now on.
    Show,
    /// The Secret's certificate is to be shown after this time, for its authority is new to the bundle.
    Wait(Duration),
}

impl Presence {
    pub(super) fn shown(&self) -> Option<&Shown> {
        self.shown.as_ref()
    }

    /// Takes in what the Secret holds. `uptime` is a clock that nobody sets.
    ///
    /// A certificate of an authority that this process has not known in the bundle for as long as `propagation` is
    /// not shown yet while what is shown is good: not every API server may trust it already.
    pub(super) fn look(
        &mut self,
        contents: &Contents,
        now: Timestamp,
        uptime: Duration,
        propagation: Duration,
    ) -> Step {
        let authorities = &contents.authorities;
        self.learn(authorities, uptime);
        let mut known = authorities.clone();
        let Some((stored, issuer)) = contents
            .serving
            .as_ref()
            .ok()
            .and_then(|serving| Some((serving, serving.issuer(authorities, now)?)))
        else {
            return Step::Stay;
        };
        if let Some(shown) = &self.shown
            && let Some(present) = shown.issuer(now).cloned()
        {
            if shown.serving == *stored {
                return Step::Stay;
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
        let before = self.shown.iter().flat_map(|shown| &shown.authorities);
        known.extend(before.filter(|authority| !authorities.contains(authority)).cloned());
        self.shown = Some(Shown { serving: stored.clone(), authorities: known });
        Step::Show
    }

    /// Takes in that the Secret holds what it should.
    pub(super) fn settled(&mut self, authorities: &[Authority]) {
        if let Some(shown) = &mut self.shown {
            shown.authorities = authorities.to_vec();
        }
    }

    fn learn(&mut self, authorities: &[Authority], uptime: Duration) {
        self.known.retain(|(known, _)| authorities.contains(known));
        for authority in authorities {
            if !self.known.iter().any(|(known, _)| known == authority) {
                self.known.push((authority.clone(), uptime));
            }
        }
    }
}
