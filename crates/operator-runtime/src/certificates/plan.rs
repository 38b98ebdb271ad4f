//! What to do about the Secret: a function of the time, of what it holds and of what this process shows.
//!
//! - An authority that is two thirds through its life gets a successor. The successor joins the bundle, and for
//!   [`Lifetimes::propagation`] nothing else happens: everybody learns to trust it. Then it signs. The older one's key
//!   is forgotten at once; its certificate stays in the bundle until it ends, for what it has signed is still shown.
//! - The serving certificate is replaced when two thirds of its life are over, when it lacks a name, and when the
//!   newest authority may sign.
//! - What is lost or damaged in the Secret is put back from what this process shows, as long as that is good. The key
//!   of an authority is kept nowhere but in the Secret: when it is lost, a new authority follows, with the same overlap.

use std::fmt;

use jiff::Timestamp;
use rustls::pki_types::ServerName;

use super::{
    contents::{AUTHORITIES, Contents, Data, bytes},
    lifetimes::{Lifetimes, after},
    pki::{self, PkiError},
    x509::{Authority, Serving, bundle},
};

/// The most authorities in a bundle; only a Secret that is deleted again and again gets there.
const MOST_AUTHORITIES: usize = 16;

/// What this process shows to its clients, and the bundle that it saw in the Secret along with it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) serving: Serving,
    pub(super) authorities: Vec<Authority>,
}

/// A change of the Secret, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// There was no usable authority at all.
    FirstAuthority,
    /// The authority is two thirds through its life.
    AuthorityDue,
    /// The key of the authority is not there.
    AuthorityKeyLost,
    /// The bundle was damaged or is another one; what this process knows of it was put back.
    BundlePutBack,
    /// Authorities that have ended, or what is no authority, left the bundle.
    BundleTidied,
    /// The serving certificate was put back.
    ServingPutBack,
    /// There was no usable serving certificate.
    FirstServing,
    /// The serving certificate is two thirds through its life.
    ServingDue,
    /// The serving certificate is not made for all names.
    ServingLacksName,
    /// The newest authority takes over.
    AuthorityTakesOver,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstAuthority => "a certificate authority was made, for there was none",
            Self::AuthorityDue => {
                "a new certificate authority was made, for two thirds of the old one's life are over"
            }
            Self::AuthorityKeyLost => {
                "a new certificate authority was made, for the key of the old one was not there"
            }
            Self::BundlePutBack => "authorities were put back that certificates which are being served need",
            Self::BundleTidied => "authorities that have ended, or cannot be read, were taken out",
            Self::ServingPutBack => "the certificate that is being served was put back",
            Self::FirstServing => "a serving certificate was made, for there was none that can be used",
            Self::ServingDue => "the serving certificate was renewed, for two thirds of its life are over",
            Self::ServingLacksName => "the serving certificate was renewed, for it lacked a host name",
            Self::AuthorityTakesOver => "the serving certificate was renewed with the new authority",
        })
    }
}

/// What the Secret should hold, and why.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) contents: Contents,
    /// Nothing, if the Secret holds it already.
    pub(super) changes: Vec<Change>,
}

/// All that a plan depends on, but for the Secret.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) now: Timestamp,
    pub(super) lifetimes: Lifetimes,
    /// The names that the serving certificate has to be made for.
    pub(super) names: &'a [ServerName<'static>],
    pub(super) shown: Option<&'a Shown>,
}

/// Plans what the Secret should hold that now holds `stored`.
///
/// # Errors
/// When keys cannot be made: the operating system gives no randomness.
pub(super) fn plan(stored: &Data, situation: Situation<'_>) -> Result<Plan, PkiError> {
    let mut plan = Plan { contents: Contents::read(stored), changes: Vec::new() };
    plan.mend_bundle(stored, situation);
    plan.mend_serving(situation);
    plan.renew_authority(situation)?;
    plan.renew_serving(situation)?;
    let holds_it = plan.contents.data().iter().all(|(key, wanted)| stored.get(key) == Some(wanted));
    if plan.changes.is_empty() && !holds_it {
        plan.changes.push(Change::BundleTidied);
    }
    Ok(plan)
}

/// When the plan for these contents may be another one, if nothing happens before.
pub(super) fn next_look(contents: &Contents, now: Timestamp, lifetimes: Lifetimes) -> Option<Timestamp> {
    let mut moments: Vec<_> =
        contents.authorities.iter().map(|authority| authority.validity.not_after).collect();
    if let Some((signer, _)) = contents.signer() {
        moments.extend([signer.validity.due(), may_sign_from(signer, lifetimes)]);
    }
    if let Ok(serving) = &contents.serving {
        moments.extend([serving.validity.due(), serving.validity.not_after]);
    }
    moments.into_iter().filter(|moment| *moment > now).min()
}

/// From when on everybody who trusts the bundle trusts this authority in it.
fn may_sign_from(authority: &Authority, lifetimes: Lifetimes) -> Timestamp {
    after(authority.validity.made(), lifetimes.propagation())
}

impl Shown {
    /// The authority by which what is shown is good now.
    pub(super) fn issuer(&self, now: Timestamp) -> Option<&Authority> {
        self.serving.issuer(&self.authorities, now)
    }
}

impl Plan {
    /// The bundle: nothing that has ended. If it was damaged, or is another one, that which this process knows comes
    /// back: other replicas may show what was signed by any authority in it.
    fn mend_bundle(&mut self, stored: &Data, situation: Situation<'_>) {
        let Situation { now, shown, .. } = situation;
        let authorities = &mut self.contents.authorities;
        let is_damaged = *bytes(stored, AUTHORITIES) != bundle(authorities);
        let before = authorities.len();
        authorities.retain(|authority| !authority.validity.has_ended(now));
        if authorities.len() < before {
            self.changes.push(Change::BundleTidied);
        }
        let Some((shown, issuer)) = shown.and_then(|shown| Some((shown, shown.issuer(now)?))) else { return };
        if authorities.contains(issuer) && !is_damaged {
            return;
        }
        let before = authorities.len();
        for known in &shown.authorities {
            if !known.validity.has_ended(now) && !authorities.contains(known) {
                authorities.push(known.clone());
            }
        }
        if authorities.len() > before {
            self.changes.push(Change::BundlePutBack);
            self.forget_some(situation);
        }
    }

    /// The serving certificate: the Secret's if it is good, else the one that this process shows if that is good.
    fn mend_serving(&mut self, Situation { now, shown, .. }: Situation<'_>) {
        let is_good = |serving: &Serving| serving.issuer(&self.contents.authorities, now).is_some();
        if self.contents.serving.as_ref().is_ok_and(is_good) {
            return;
        }
        if let Some(shown) = shown
            && is_good(&shown.serving)
        {
            self.contents.serving = Ok(shown.serving.clone());
            self.changes.push(Change::ServingPutBack);
        }
    }

    /// The authority that signs.
    fn renew_authority(&mut self, situation: Situation<'_>) -> Result<(), PkiError> {
        let Situation { now, lifetimes, .. } = situation;
        let change = match self.contents.signer() {
            Some((signer, _)) if signer.validity.covers(now) && now < signer.validity.due() => return Ok(()),
            Some(_) => Change::AuthorityDue,
            None if self.contents.authorities.is_empty() => Change::FirstAuthority,
            None => Change::AuthorityKeyLost,
        };
        let (authority, key) = pki::authority(now, lifetimes)?;
        self.contents.lead_with(authority, &key);
        self.changes.push(change);
        self.forget_some(situation);
        Ok(())
    }

    /// Keeps the bundle from growing for ever. What is being shown stays trusted; those that never were allowed to
    /// sign go first, then the oldest.
    fn forget_some(&mut self, Situation { now, lifetimes, shown, .. }: Situation<'_>) {
        let authorities = &mut self.contents.authorities;
        let serving = self.contents.serving.as_ref().ok();
        let needed = [
            authorities.first().cloned(),
            serving.and_then(|serving| serving.issuer(authorities, now)).cloned(),
            shown.and_then(|shown| shown.issuer(now)).cloned(),
        ];
        let is_idle = |authority: &Authority| !needed.iter().flatten().any(|needed| needed == authority);
        let never_signed =
            |authority: &Authority| is_idle(authority) && now < may_sign_from(authority, lifetimes);
        while authorities.len() > MOST_AUTHORITIES {
            let last = |which: &dyn Fn(&Authority) -> bool| authorities.iter().rposition(which);
            let Some(idle) = last(&never_signed).or_else(|| last(&is_idle)) else { return };
            authorities.remove(idle);
        }
    }

    /// The serving certificate, signed by whoever signs now.
    fn renew_serving(&mut self, situation: Situation<'_>) -> Result<(), PkiError> {
        let Situation { now, lifetimes, names, .. } = situation;
        let Some((signer, key)) = self.contents.signer() else { return Ok(()) };
        let Some(change) = self.serving_change(signer, situation) else { return Ok(()) };
        let mut names = names.to_vec();
        if change == Change::ServingLacksName
            && let Ok(serving) = &self.contents.serving
        {
            // Another manager may want those that this one does not; they go when the certificate is due.
            names.extend(serving.names().into_iter().filter(|name| !situation.names.contains(name)));
        }
        self.contents.serving = Ok(pki::serving(now, lifetimes, &names, signer, &key)?);
        self.changes.push(change);
        Ok(())
    }

    /// Why the serving certificate should be made anew now, if it should.
    fn serving_change(&self, signer: &Authority, situation: Situation<'_>) -> Option<Change> {
        let Situation { now, lifetimes, names, .. } = situation;
        let serving = self.contents.serving.as_ref().ok();
        let Some((serving, issuer)) =
            serving.and_then(|serving| Some((serving, serving.issuer(&self.contents.authorities, now)?)))
        else {
            return Some(Change::FirstServing);
        };
        // Until then the certificate that is there has to do, and does: a third of its life is left.
        if now < may_sign_from(signer, lifetimes) && issuer != signer {
            return None;
        }
        if issuer != signer {
            Some(Change::AuthorityTakesOver)
        } else if !serving.is_for(names) {
            Some(Change::ServingLacksName)
        } else {
            (serving.validity.due() <= now).then_some(Change::ServingDue)
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
