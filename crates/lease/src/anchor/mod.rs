//! One renewal for several Leases of a process.
//!
//! A process that holds several Leases renews one of them, the *anchor*. In the others, an annotation
//! names the anchor and its term: the time at which the process acquired it. Each renewal of the
//! anchor renews them as well.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::machine::{Anchor, Moment, Write};

/// Maximum length of a Lease's name. A request for a longer one fails each time.
const MAX_NAME: usize = 253;
/// Annotation of a member: name of the anchor, a slash, and the time at which its holder acquired it.
const RENEWED_WITH: &str = "ensemble.example.com/renewed-with";
/// Annotation of a Lease that a candidate acquired: the resource version that the acquisition replaced.
const REPLACED: &str = "ensemble.example.com/replaced-version";

/// Returns the anchor of a Lease. `named` is the Lease that [`anchor_name`] names.
pub(crate) fn anchor_of(lease: &Lease, named: Option<&Lease>) -> Anchor {
    let Some((_, named_term)) = renewed_with(lease).filter(|_| holder(lease).is_some()) else {
        return Anchor::None;
    };
    let Some(named) = named else { return Anchor::Ended(None) };
    if holder(named) == holder(lease) && term(named).as_deref() == Some(named_term) {
        Anchor::Held(named.metadata.resource_version.clone().unwrap_or_default())
    } else {
        Anchor::Ended(annotation(named, REPLACED).map(str::to_owned))
    }
}

/// Returns the name of the Lease with whose renewals a Lease is renewed, if that is not itself.
///
/// A candidate that does not hold the Lease has to read both:
/// [`record_with_anchor`](crate::record_with_anchor).
pub fn anchor_name(lease: &Lease) -> Option<&str> {
    renewed_with(lease).map(|(name, _)| name)
}

/// Returns whether the holder of a Lease renews it with this anchor.
pub fn is_renewed_with(lease: &Lease, anchor: &Lease) -> bool {
    matches!(anchor_of(lease, Some(anchor)), Anchor::Held(_))
        && anchor_name(lease) == anchor.metadata.name.as_deref()
}

/// The last renewal of the anchor of this process.
#[derive(Clone, Debug)]
struct Renewal {
    lease: String,
    term: String,
    version: String,
    started: Moment,
    /// Whether the anchor needs a new term, because a Lease that may name this one is no longer renewed.
    is_stale: bool,
}

/// One renewal for all Leases of a process: chooses the anchor, and says which Leases its renewals renew.
/// All candidates of the process share one value.
///
/// The program completes each Lease that it writes with [`SharedRenewal::complete`], reports writes and
/// ends of leadership, and passes [`SharedRenewal::renewal_of`] to
/// [`Machine::renewed_with_anchor`](crate::Machine::renewed_with_anchor). It reads the Lease of another
/// holder together with its anchor, for [`record_with_anchor`](crate::record_with_anchor).
///
/// # Why at most one candidate leads
/// A *member* is a Lease that names an anchor. For other candidates, it has expired when neither its
/// own version nor that of its anchor has changed for a whole lease duration, and a read of both that
/// began later finds the same versions. The anchor's version counts only while the anchor has the same
/// holder and the same term.
///
/// The holder extends its leadership of the member with a renewal of the anchor under two conditions:
/// 1. One watch delivers both Leases in the order of their changes. When it delivered this renewal, the
///    member still had the version with the annotation. So nobody had acquired it before the renewal.
/// 2. The holder still leads the member when it learns that.
///
/// Take a candidate that acquires the member. Renewals of the anchor up to the version that it saw
/// began before it began to wait, so leadership by them is over after the lease duration. A later
/// renewal was stored after the candidate's read, when the holder no longer led. Condition 2 excludes
/// it: the holder then has to renew the member itself, and that write conflicts with the acquisition.
///
/// If the anchor has another holder, another term, or does not exist, it has ended for good, and the
/// member expires a lease duration after a candidate noticed that. It need not wait if the acquisition
/// of the anchor says which version it replaced, and that is the one that the candidate has watched.
#[derive(Clone, Debug, Default)]
pub struct SharedRenewal {
    last: Option<Renewal>,
}

impl SharedRenewal {
    /// Completes a Lease that [`Writer::desired`](crate::Writer::desired) returned for a write.
    ///
    /// `watched` is whether the watch works that [`SharedRenewal::renewal_of`] needs. Otherwise the
    /// Lease names no anchor.
    pub fn complete(&self, write: &Write, lease: &mut Lease, watched: bool) {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.remove(RENEWED_WITH);
        match write {
            Write::Create | Write::Release(_) => return,
            Write::Acquire(replaced) => {
                annotations.insert(REPLACED.to_owned(), replaced.clone());
            }
            Write::Renew(_) | Write::Recreate => {}
        }
        match &self.last {
            Some(last) if last.lease != name && watched => {
                annotations.insert(RENEWED_WITH.to_owned(), format!("{}/{}", last.lease, last.term));
            }
            Some(last) if last.lease == name && !last.is_stale && *write != Write::Recreate => {}
            _ => begin_term(lease),
        }
    }

    /// Records that a Lease by which this process leads was written. It becomes the anchor if there is
    /// none. `started` is the time immediately before the request was sent. Returns whether it is the
    /// anchor, so that other Leases may be renewed.
    pub fn record_write(&mut self, lease: &Lease, started: Moment) -> bool {
        let ObjectMeta { name: Some(name), resource_version: Some(version), .. } = &lease.metadata else {
            return false;
        };
        let is_other = self.last.as_ref().is_some_and(|last| last.lease != *name);
        let Some(term) = term(lease).filter(|_| !is_other && renewed_with(lease).is_none()) else {
            return false;
        };
        let is_stale = self.last.as_ref().is_some_and(|last| last.is_stale && last.term == term);
        self.last = Some(Renewal { lease: name.clone(), term, version: version.clone(), started, is_stale });
        true
    }

    /// Records that this process no longer leads by a Lease. If it was the anchor, there is none now.
    /// Otherwise the anchor gets a new term, so that the Lease can expire. Returns whether the anchor
    /// changed.
    pub fn record_end(&mut self, lease: &str) -> bool {
        match &mut self.last {
            Some(last) if last.lease == lease => {
                self.last = None;
                true
            }
            Some(last) => !std::mem::replace(&mut last.is_stale, true),
            None => false,
        }
    }

    /// Returns whether renewals of the anchor can renew this Lease, which `identity` last read or wrote.
    pub fn covers(&self, lease: &Lease, identity: &str) -> bool {
        let named = renewed_with(lease);
        holder(lease) == Some(identity)
            && self.last.as_ref().is_some_and(|last| named == Some((&last.lease, &last.term)))
    }

    /// Returns when the renewal of the anchor began that also renewed this Lease, which `identity` last
    /// read or wrote: the value for [`Machine::renewed_with_anchor`](crate::Machine::renewed_with_anchor).
    ///
    /// `watched` are the versions of the Leases as one watch delivered them, in the order of their
    /// changes.
    pub fn renewal_of(
        &self,
        lease: &Lease,
        identity: &str,
        watched: &BTreeMap<String, Lease>,
    ) -> Option<Moment> {
        let last = self.last.as_ref().filter(|_| self.covers(lease, identity))?;
        let version = |name: &str| watched.get(name)?.metadata.resource_version.as_deref();
        let own = lease.metadata.name.as_deref().and_then(version);
        let is_delivered = version(&last.lease) == Some(&last.version);
        (is_delivered && own.is_some() && own == lease.metadata.resource_version.as_deref())
            .then_some(last.started)
    }
}

/// Makes the time of the last renewal the time of acquisition.
fn begin_term(lease: &mut Lease) {
    if let Some(spec) = &mut lease.spec {
        spec.acquire_time.clone_from(&spec.renew_time);
    }
}

fn renewed_with(lease: &Lease) -> Option<(&str, &str)> {
    let (name, term) = annotation(lease, RENEWED_WITH)?.split_once('/')?;
    let is_name = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (is_name && lease.metadata.name.as_deref() != Some(name)).then_some((name, term))
}

fn annotation<'a>(lease: &'a Lease, key: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn term(lease: &Lease) -> Option<String> {
    let LeaseSpec { acquire_time: Some(time), .. } = lease.spec.as_ref()? else { return None };
    Some(time.0.to_string())
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
