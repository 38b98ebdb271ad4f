//! Adds and removes members, one at a time.

use super::Observed;
use crate::membership::{Member, Membership, Serial};

/// Changes the membership by at most one member towards the desired size.
pub(super) fn adjust(observed: &Observed, next: &mut Membership) {
    next.members.retain(|member| !is_gone(observed, member));
    if !next.is_bootstrapped() || next.failover.current.is_none() || observed.primary_is_fenced() {
        return;
    }
    let members = next.staying().count();
    if members < observed.size && newest_is_ready(observed, next) {
        add(next);
    } else if members > observed.size && next.members.iter().all(|member| !member.leaving) {
        remove(observed, next);
    }
}

/// Adds a member, and returns its serial number.
pub(super) fn add(next: &mut Membership) -> Serial {
    let serial = next.next_serial;
    next.members.push(Member::new(serial));
    next.next_serial = serial.saturating_add(1);
    serial
}

/// The next member joins after the last one, so that one copy of the database is made at a time. A
/// standby that is fenced makes none.
fn newest_is_ready(observed: &Observed, next: &Membership) -> bool {
    let newest = next.staying().filter(|member| !observed.is_fenced(member.serial)).last();
    newest.is_none_or(|member| observed.is_ready(member.serial))
}

/// Marks a member for removal: never the primary; those that are not ready first, then the newest.
fn remove(observed: &Observed, next: &mut Membership) {
    let removable = next.members.iter().filter(|member| !next.is_primary_or_target(member.serial));
    let surplus = removable.map(|member| (!observed.is_ready(member.serial), member.serial)).max();
    for member in &mut next.members {
        member.leaving |= surplus.is_some_and(|(_, serial)| serial == member.serial);
    }
}

/// Returns whether nothing is left to do for a member that leaves.
fn is_gone(observed: &Observed, member: &Member) -> bool {
    member.leaving && !observed.pods.contains_key(&member.serial) && observed.surplus_volume(member).is_none()
}
