//! Computes what the Secret should hold. A pure function of the time, the Secret, and the
//! certificate that this process serves.
//!
//! - After two thirds of its lifetime, a certificate authority gets a successor. The successor is
//!   added to the bundle and signs only after [`Lifetimes::propagation`], when every client trusts
//!   it. The key of the previous authority is removed at once. Its certificate stays in the bundle
//!   until it expires, because certificates that it signed are still served.
//! - The serving certificate is renewed after two thirds of its lifetime, when it lacks a host
//!   name, and when the newest authority may sign.
//! - Lost or damaged parts of the Secret are restored from the certificate that this process
//!   serves, while that is valid. The key of an authority is stored only in the Secret. If it is
//!   lost, a new authority is created, with the same overlap.

use std::fmt;

use certificates::{Authority, IssueError, Lifetimes, Serving, bundle, issue_serving, new_authority};
use jiff::Timestamp;
use rustls::pki_types::ServerName;

use crate::certificates::store::contents::{AUTHORITIES, Contents, Data, bytes};

/// Maximum number of authorities in a bundle. Reached only if the Secret is deleted repeatedly.
const MAX_AUTHORITIES: usize = 16;

/// Certificate that this process serves, and the bundle that the Secret held with it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) serving: Serving,
    pub(crate) authorities: Vec<Authority>,
}

/// Change of the Secret, with the reason that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The Secret held no usable authority.
    FirstAuthority,
    /// Two thirds of the authority's lifetime have passed.
    AuthorityDue,
    /// The private key of the authority is missing.
    AuthorityKeyLost,
    /// The bundle was damaged or replaced; the authorities that this process trusts were added
    /// again.
    BundleRestored,
    /// Expired or unreadable authorities were removed from the bundle.
    BundlePruned,
    /// The certificate that this process serves was written again.
    ServingRestored,
    /// The Secret held no usable serving certificate.
    FirstServing,
    /// Two thirds of the serving certificate's lifetime have passed.
    ServingDue,
    /// The serving certificate is not valid for all host names.
    ServingNameMissing,
    /// The newest authority may sign from now on.
    AuthoritySwitched,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstAuthority => "created a certificate authority: there was none",
            Self::AuthorityDue => {
                "created a new certificate authority: two thirds of the previous lifetime have passed"
            }
            Self::AuthorityKeyLost => {
                "created a new certificate authority: the private key of the previous one is missing"
            }
            Self::BundleRestored => "restored certificate authorities of certificates that are being served",
            Self::BundlePruned => "removed expired or unreadable certificate authorities",
            Self::ServingRestored => "restored the certificate that is being served",
            Self::FirstServing => "issued a serving certificate: there was no usable one",
            Self::ServingDue => "renewed the serving certificate: two thirds of its lifetime have passed",
            Self::ServingNameMissing => "renewed the serving certificate: it lacked a host name",
            Self::AuthoritySwitched => {
                "renewed the serving certificate: the new certificate authority signs from now on"
            }
        })
    }
}

/// Contents that the Secret should have, and the changes that lead there.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) contents: Contents,
    /// Empty if the Secret holds the contents already.
    pub(crate) changes: Vec<Change>,
}

/// Everything that a plan depends on besides the Secret.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) now: Timestamp,
    pub(crate) lifetimes: Lifetimes,
    /// Host names that the serving certificate must be valid for.
    pub(crate) names: &'a [ServerName<'static>],
    pub(crate) served: Option<&'a Served>,
}

/// Computes what the Secret should hold instead of `stored`.
///
/// # Errors
/// Returns an error if keys cannot be generated because the operating system provides no
/// randomness.
pub(crate) fn plan(stored: &Data, inputs: Inputs<'_>) -> Result<Plan, IssueError> {
    let mut plan = Plan { contents: Contents::read(stored), changes: Vec::new() };
    plan.restore_bundle(stored, inputs);
    plan.restore_serving(inputs);
    plan.renew_authority(inputs)?;
    plan.renew_serving(inputs)?;
    let is_current = plan.contents.data().iter().all(|(key, wanted)| stored.get(key) == Some(wanted));
    if plan.changes.is_empty() && !is_current {
        plan.changes.push(Change::BundlePruned);
    }
    Ok(plan)
}

/// Returns the next time at which the plan for these contents can change.
pub(crate) fn next_check(contents: &Contents, now: Timestamp, lifetimes: Lifetimes) -> Option<Timestamp> {
    let mut times: Vec<_> =
        contents.authorities.iter().map(|authority| authority.validity().not_after).collect();
    if let Some((signer, _)) = contents.signer() {
        times.extend([signer.validity().renewal_time(), signer.signs_after(lifetimes)]);
    }
    if let Ok(serving) = &contents.serving {
        times.extend([serving.validity().renewal_time(), serving.validity().not_after]);
    }
    times.into_iter().filter(|time| *time > now).min()
}

impl Served {
    /// Returns the authority by which the served certificate is valid at `now`.
    pub(crate) fn issuer(&self, now: Timestamp) -> Option<&Authority> {
        self.serving.issuer(&self.authorities, now)
    }
}

impl Plan {
    /// Removes expired authorities from the bundle. If the bundle was damaged or replaced, adds
    /// every authority that this process trusts, because other replicas may serve certificates of
    /// any of them.
    fn restore_bundle(&mut self, stored: &Data, inputs: Inputs<'_>) {
        let Inputs { now, served, .. } = inputs;
        let authorities = &mut self.contents.authorities;
        let is_damaged = *bytes(stored, AUTHORITIES) != bundle(authorities);
        let before = authorities.len();
        authorities.retain(|authority| !authority.validity().has_ended(now));
        if authorities.len() < before {
            self.changes.push(Change::BundlePruned);
        }
        let Some((served, issuer)) = served.and_then(|served| Some((served, served.issuer(now)?))) else {
            return;
        };
        if authorities.contains(issuer) && !is_damaged {
            return;
        }
        let before = authorities.len();
        for known in &served.authorities {
            if !known.validity().has_ended(now) && !authorities.contains(known) {
                authorities.push(known.clone());
            }
        }
        if authorities.len() > before {
            self.changes.push(Change::BundleRestored);
            self.prune_authorities(inputs);
        }
    }

    /// Keeps the Secret's serving certificate if it is valid, and otherwise restores the one that
    /// this process serves.
    fn restore_serving(&mut self, Inputs { now, served, .. }: Inputs<'_>) {
        let is_valid = |serving: &Serving| serving.issuer(&self.contents.authorities, now).is_some();
        if self.contents.serving.as_ref().is_ok_and(is_valid) {
            return;
        }
        if let Some(served) = served
            && is_valid(&served.serving)
        {
            self.contents.serving = Ok(served.serving.clone());
            self.changes.push(Change::ServingRestored);
        }
    }

    /// Creates a new authority if the signing one is due, expired, or missing.
    fn renew_authority(&mut self, inputs: Inputs<'_>) -> Result<(), IssueError> {
        let Inputs { now, lifetimes, .. } = inputs;
        let change = match self.contents.signer() {
            Some((signer, _)) if signer.validity().covers(now) && now < signer.validity().renewal_time() => {
                return Ok(());
            }
            Some(_) => Change::AuthorityDue,
            None if self.contents.authorities.is_empty() => Change::FirstAuthority,
            None => Change::AuthorityKeyLost,
        };
        let (authority, key) = new_authority(now, lifetimes)?;
        self.contents.prepend_authority(authority, &key);
        self.changes.push(change);
        self.prune_authorities(inputs);
        Ok(())
    }

    /// Limits the size of the bundle. Authorities of certificates that are being served stay.
    /// Authorities that have not signed yet are removed first, then the oldest.
    fn prune_authorities(&mut self, Inputs { now, lifetimes, served, .. }: Inputs<'_>) {
        let authorities = &mut self.contents.authorities;
        let serving = self.contents.serving.as_ref().ok();
        let needed = [
            authorities.first().cloned(),
            serving.and_then(|serving| serving.issuer(authorities, now)).cloned(),
            served.and_then(|served| served.issuer(now)).cloned(),
        ];
        let is_unused = |authority: &Authority| !needed.iter().flatten().any(|needed| needed == authority);
        let never_signed =
            |authority: &Authority| is_unused(authority) && now < authority.signs_after(lifetimes);
        while authorities.len() > MAX_AUTHORITIES {
            let last = |which: &dyn Fn(&Authority) -> bool| authorities.iter().rposition(which);
            let Some(unused) = last(&never_signed).or_else(|| last(&is_unused)) else { return };
            authorities.remove(unused);
        }
    }

    /// Issues a new serving certificate if one is needed.
    fn renew_serving(&mut self, inputs: Inputs<'_>) -> Result<(), IssueError> {
        let Inputs { now, lifetimes, names, .. } = inputs;
        let Some((signer, key)) = self.contents.signer() else { return Ok(()) };
        let Some(change) = self.serving_change(signer, inputs) else { return Ok(()) };
        let mut names = names.to_vec();
        if change == Change::ServingNameMissing
            && let Ok(serving) = &self.contents.serving
        {
            // Another replica may need names that this one does not. They are dropped at the next
            // regular renewal.
            names.extend(serving.names().into_iter().filter(|name| !inputs.names.contains(name)));
        }
        self.contents.serving = Ok(issue_serving(now, lifetimes, &names, signer, &key)?);
        self.changes.push(change);
        Ok(())
    }

    /// Returns why the serving certificate has to be renewed now, if it has.
    fn serving_change(&self, signer: &Authority, inputs: Inputs<'_>) -> Option<Change> {
        let Inputs { now, lifetimes, names, .. } = inputs;
        let serving = self.contents.serving.as_ref().ok();
        let Some((serving, issuer)) =
            serving.and_then(|serving| Some((serving, serving.issuer(&self.contents.authorities, now)?)))
        else {
            return Some(Change::FirstServing);
        };
        // The current certificate is still valid until then: a third of its lifetime is left.
        if now < signer.signs_after(lifetimes) && issuer != signer {
            return None;
        }
        if issuer != signer {
            Some(Change::AuthoritySwitched)
        } else if !serving.is_valid_for(names) {
            Some(Change::ServingNameMissing)
        } else {
            (serving.validity().renewal_time() <= now).then_some(Change::ServingDue)
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
