//! What has changed about who owns what, and up to which version of the API server.
//!
//! A client lists with what its user owned then, and watches from the version of the list with what the
//! user owns now. If that is not the same, it would miss objects, so the watch must be refused, and the
//! client lists again. The log says for a user whether something has changed since a version.
//!
//! # Versions
//! The version of a change is that of the API server *after* the change has reached the cache, and not that
//! of the changed object: a list that was made before the cache knew the change has a version in between.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use capsule::{
    Tenant,
    api::v1beta2::TenantOwner,
    owner_indexes::Subject,
    subjects::{Requester, is_account_owner, owns},
};
use tokio::time::Instant;

use crate::view::ViewKind;

/// Most changes that are kept.
const MAX_CHANGES: usize = 1_000;
/// Time for which a change is kept. The API server keeps the events of a watch for five minutes.
const LIFETIME: Duration = Duration::from_mins(15);
/// Time for which a list of the same version as a change counts as one from before it. A list that was made
/// while the cache did not know the change yet is followed by its watch within moments.
const SAME_VERSION: Duration = Duration::from_secs(2);

/// What has changed.
#[derive(Clone, Debug)]
pub enum OwnershipChange {
    /// A Tenant has appeared, disappeared, or has other owners.
    Tenant {
        /// The Tenant before.
        old: Option<Arc<Tenant>>,
        /// The Tenant after.
        new: Option<Arc<Tenant>>,
    },
    /// A TenantOwner has appeared, disappeared, or is another one. Its versions before and after.
    TenantOwner(Vec<Arc<TenantOwner>>),
    /// Settings of the proxy have changed. Their subjects before and after.
    Subjects(Vec<Subject>),
    /// A RoleBinding has changed. Its subjects before and after.
    RoleBinding(Vec<Subject>),
}

/// A user, and the TenantOwners that refer to the user.
type User<'u> = (&'u Requester<'u>, &'u [Arc<TenantOwner>]);

impl OwnershipChange {
    /// Returns whether a user may see something else of a kind than before.
    fn affects(&self, (user, tenant_owners): User<'_>, kind: ViewKind) -> bool {
        let is_owner = |tenant: &Option<Arc<Tenant>>| {
            tenant
                .as_ref()
                .is_some_and(|tenant| owns(user, tenant, tenant_owners) || is_account_owner(user, tenant))
        };
        match self {
            Self::Tenant { old, new } if kind.is_owned() => is_owner(old) != is_owner(new),
            Self::Tenant { old, new } => kind.setting().is_some() && (is_owner(old) || is_owner(new)),
            Self::TenantOwner(versions) => {
                versions.iter().any(|owner| user.is(owner.spec.kind, &owner.spec.name))
            }
            Self::Subjects(subjects) => subjects.iter().any(|(kind, name)| user.is(*kind, name)),
            Self::RoleBinding(subjects) => {
                kind == ViewKind::Namespaces && subjects.iter().any(|(kind, name)| user.is(*kind, name))
            }
        }
    }
}

/// The changes of the last minutes.
#[derive(Debug, Default)]
pub struct OwnershipLog {
    changes: VecDeque<Entry>,
    /// Whether changes are added: not while the caches are filled.
    is_recording: bool,
    /// Number of the next change.
    next: u64,
    /// Nothing is known about older versions. `None`: nothing is known yet.
    oldest: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    applied: Instant,
    /// `None` until it is known.
    version: Option<u64>,
    changed: OwnershipChange,
}

impl OwnershipLog {
    /// Begins to record changes. The caches are filled.
    pub fn begin(&mut self) {
        self.is_recording = true;
    }

    /// Adds a change that the cache has just applied. Its version is resolved later.
    pub fn add(&mut self, changed: OwnershipChange, now: Instant) {
        if !self.is_recording {
            return;
        }
        self.changes.push_back(Entry { number: self.next, applied: now, version: None, changed });
        self.next += 1;
        let is_old = |entry: &Entry| now.saturating_duration_since(entry.applied) > LIFETIME;
        while self.changes.len() > MAX_CHANGES || self.changes.front().is_some_and(is_old) {
            let version = self.changes.pop_front().and_then(|entry| entry.version);
            // An unknown version is later than all known ones.
            self.oldest = self.oldest.and_then(|oldest| Some(oldest.max(version?)));
        }
    }

    /// Returns the number up to which changes can be resolved with a version that is read from now on, if
    /// some are not resolved.
    pub fn unresolved(&self) -> Option<u64> {
        let is_waiting = self.oldest.is_none() || self.changes.iter().any(|entry| entry.version.is_none());
        is_waiting.then_some(self.next)
    }

    /// Sets the version of all changes before `number` that have none.
    pub fn resolve(&mut self, number: u64, version: u64) {
        self.oldest.get_or_insert(version);
        for entry in self.changes.iter_mut().filter(|entry| entry.number < number) {
            entry.version.get_or_insert(version);
        }
    }

    /// Returns whether a user may see something else of a kind than when the API server had this version.
    pub fn has_changed_since(&self, version: u64, user: User<'_>, kind: ViewKind, now: Instant) -> bool {
        let is_after = |entry: &Entry| match entry.version {
            None => true,
            Some(changed) if changed == version => {
                now.saturating_duration_since(entry.applied) < SAME_VERSION
            }
            Some(changed) => changed > version,
        };
        let changes = || self.changes.iter().filter(|entry| is_after(entry));
        self.oldest.is_none_or(|oldest| version < oldest)
            || changes().any(|entry| entry.changed.affects(user, kind))
    }
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::OwnerKind;
    use k8s_openapi::api::authentication::v1::UserInfo;
    use serde_json::json;

    use super::*;

    fn tenant(owner: &str) -> Arc<Tenant> {
        let tenant =
            json!({"metadata": {"name": "oil"}, "spec": {"owners": [{"kind": "User", "name": owner}]}});
        Arc::new(serde_json::from_value(tenant).unwrap())
    }

    fn log() -> OwnershipLog {
        OwnershipLog { is_recording: true, ..OwnershipLog::default() }
    }

    fn has_changed(log: &OwnershipLog, version: u64, user: &str, now: Instant) -> bool {
        let user = UserInfo { username: Some(user.to_owned()), ..UserInfo::default() };
        log.has_changed_since(version, (&Requester::of(&user), &[]), ViewKind::Namespaces, now)
    }

    #[test]
    fn change_counts_for_earlier_versions_and_for_those_whom_it_affects() {
        let now = Instant::now();
        let mut log = log();
        assert!(has_changed(&log, 100, "alice", now), "nothing is known yet");
        log.resolve(log.unresolved().unwrap(), 10);
        assert!(has_changed(&log, 9, "carol", now) && !has_changed(&log, 10, "carol", now));
        assert_eq!(log.unresolved(), None);

        log.add(OwnershipChange::Tenant { old: Some(tenant("alice")), new: Some(tenant("bob")) }, now);
        let number = log.unresolved().unwrap();
        assert!(has_changed(&log, 1000, "alice", now), "its version is not known yet");
        log.add(OwnershipChange::Tenant { old: Some(tenant("carol")), new: None }, now);
        log.resolve(number, 20);
        for (version, expected) in [(19, true), (20, true), (21, false)] {
            assert_eq!(has_changed(&log, version, "alice", now), expected, "{version}");
            assert_eq!(has_changed(&log, version, "bob", now), expected, "{version}");
            assert!(!has_changed(&log, version, "dan", now), "{version}");
        }
        assert!(has_changed(&log, 1000, "carol", now), "the second change has no version yet");
        assert!(!has_changed(&log, 20, "alice", now + SAME_VERSION), "a later list can have this version");
    }

    #[test]
    fn settings_affect_their_subjects_and_tenants_affect_classes_of_their_owners() {
        let user = UserInfo { username: Some("alice".to_owned()), ..UserInfo::default() };
        let user = Requester::of(&user);
        let same_owner =
            |name: &str| OwnershipChange::Tenant { old: Some(tenant(name)), new: Some(tenant(name)) };
        for (owner, kind, expected) in [
            ("alice", ViewKind::Namespaces, false),
            ("alice", ViewKind::StorageClasses, true),
            ("alice", ViewKind::ClusterResources, false),
            ("bob", ViewKind::StorageClasses, false),
        ] {
            assert_eq!(same_owner(owner).affects((&user, &[]), kind), expected, "{owner}, {kind:?}");
        }
        for (name, expected) in [("alice", true), ("bob", false)] {
            let changed = OwnershipChange::Subjects(vec![(OwnerKind::User, name.to_owned())]);
            assert_eq!(changed.affects((&user, &[]), ViewKind::Namespaces), expected, "{name}");
            let bound = OwnershipChange::RoleBinding(vec![(OwnerKind::User, name.to_owned())]);
            assert_eq!(bound.affects((&user, &[]), ViewKind::Namespaces), expected, "{name}");
            assert!(!bound.affects((&user, &[]), ViewKind::Tenants), "{name}");
        }
    }

    #[test]
    fn old_changes_are_forgotten_and_older_versions_are_not_trusted() {
        let mut now = Instant::now();
        let mut log = log();
        log.resolve(0, 1);
        for number in 0..=MAX_CHANGES as u64 {
            log.add(OwnershipChange::Tenant { old: None, new: Some(tenant("alice")) }, now);
            log.resolve(number + 1, 10 + number);
        }
        assert_eq!(log.changes.len(), MAX_CHANGES);
        assert!(has_changed(&log, 9, "dan", now) && !has_changed(&log, 10, "dan", now));
        now += LIFETIME * 2;
        log.add(OwnershipChange::TenantOwner(Vec::new()), now);
        assert_eq!(log.changes.len(), 1);
        let last = 10 + MAX_CHANGES as u64;
        assert!(has_changed(&log, last - 1, "dan", now) && !has_changed(&log, last, "dan", now));
    }

    #[test]
    fn change_that_is_dropped_without_a_version_makes_everything_unknown() {
        let now = Instant::now();
        let mut log = log();
        log.resolve(0, 1);
        for _ in 0..=MAX_CHANGES {
            log.add(OwnershipChange::Tenant { old: None, new: Some(tenant("alice")) }, now);
        }
        assert!(has_changed(&log, u64::MAX, "dan", now));
        log.resolve(log.unresolved().unwrap(), 50);
        assert!(has_changed(&log, 49, "dan", now) && !has_changed(&log, 50, "dan", now));
    }
}
