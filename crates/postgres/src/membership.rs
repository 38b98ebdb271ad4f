//! The part of the status that decides: who the members are, and which of them is the primary.
//!
//! The controller stores a change of the membership before it acts on it. Whatever is interrupted,
//! the next reconcile reads the same membership and continues.

use crate::api::{BootstrapStatus, InstanceStatus, PostgresClusterStatus, PrimaryStatus, Role};

/// Number of a member. Numbers are never reused, so that a member never meets the Pod or the volume
/// of another one under its own name.
pub(crate) type Serial = u32;

/// Members of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Serial number of the next member.
    pub(crate) next_serial: Serial,
    /// Members in the order of their serial numbers.
    pub(crate) members: Vec<Member>,
    /// The primary. `None` until the first member has joined.
    pub(crate) current: Option<Serial>,
    /// The member that may be primary.
    pub(crate) target: Option<Serial>,
    /// Number of decisions about the target.
    pub(crate) epoch: i64,
    /// Permission to create the database.
    pub(crate) bootstrap: Option<BootstrapStatus>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) serial: Serial,
    /// UID of its volume. `None` until the volume has been created.
    pub(crate) volume_uid: Option<String>,
    /// Whether it has been ready.
    pub(crate) joined: bool,
    /// Whether it is being removed.
    pub(crate) leaving: bool,
}

impl Member {
    /// Returns a member that has neither a volume nor a Pod.
    pub(crate) fn new(serial: Serial) -> Self {
        Self { serial, volume_uid: None, joined: false, leaving: false }
    }
}

impl Membership {
    /// Returns the membership in a status. Without a status, there are no members.
    pub(crate) fn of(status: Option<&PostgresClusterStatus>) -> Self {
        let status = status.cloned().unwrap_or_default();
        let serial_of = |name: &str| {
            status.instances.iter().find(|instance| instance.name == name).map(|instance| instance.serial)
        };
        let mut members: Vec<_> = status.instances.iter().map(member).collect();
        members.sort_by_key(|member| member.serial);
        let highest = members.last().map_or(0, |member| member.serial);
        Self {
            next_serial: status.next_serial.max(highest.saturating_add(1)),
            members,
            current: serial_of(&status.primary.current),
            target: serial_of(&status.primary.target),
            epoch: status.primary.epoch,
            bootstrap: status.bootstrap,
        }
    }

    /// Returns the status with this membership. What the status says about members that stay is
    /// kept. `name` returns the name of a member.
    pub(crate) fn store(
        &self,
        mut status: PostgresClusterStatus,
        name: impl Fn(Serial) -> String,
    ) -> PostgresClusterStatus {
        let instance = |member: &Member| {
            let known = status.instances.iter().find(|known| known.serial == member.serial).cloned();
            InstanceStatus {
                name: name(member.serial),
                serial: member.serial,
                role: self.role(member.serial),
                joined: member.joined,
                leaving: member.leaving,
                volume_uid: member.volume_uid.clone().unwrap_or_default(),
                ..known.unwrap_or_default()
            }
        };
        status.instances = self.members.iter().map(instance).collect();
        status.next_serial = self.next_serial;
        status.primary = PrimaryStatus {
            current: self.current.map(&name).unwrap_or_default(),
            target: self.target.map(&name).unwrap_or_default(),
            epoch: self.epoch,
        };
        status.bootstrap.clone_from(&self.bootstrap);
        status
    }

    /// Returns the role of a member.
    pub(crate) fn role(&self, serial: Serial) -> Role {
        if self.current == Some(serial) { Role::Primary } else { Role::Replica }
    }

    /// Returns whether the database exists.
    pub(crate) fn is_bootstrapped(&self) -> bool {
        self.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.done)
    }

    /// Returns the members that stay.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.leaving)
    }
}

fn member(instance: &InstanceStatus) -> Member {
    Member {
        serial: instance.serial,
        volume_uid: Some(instance.volume_uid.clone()).filter(|uid| !uid.is_empty()),
        joined: instance.joined,
        leaving: instance.leaving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(serial: Serial) -> String {
        format!("db-{serial}")
    }

    #[test]
    fn membership_survives_a_round_trip() {
        let mut membership = Membership::of(None);
        assert_eq!((membership.next_serial, membership.members.len()), (1, 0));
        membership.members = vec![Member::new(1), Member { leaving: true, ..Member::new(3) }];
        membership.members[0].volume_uid = Some("v-1".into());
        membership.next_serial = 4;
        (membership.current, membership.target, membership.epoch) = (Some(1), Some(1), 1);
        membership.bootstrap = Some(BootstrapStatus { volume_uid: "v-1".into(), done: true });
        let status = membership.store(PostgresClusterStatus::default(), name);
        assert_eq!(Membership::of(Some(&status)), membership);
        assert_eq!(status.instances[0].role, Role::Primary);
    }

    #[test]
    fn store_keeps_what_is_known_about_members() {
        let mut status = PostgresClusterStatus::default();
        status.instances.push(InstanceStatus {
            name: "db-1".into(),
            serial: 1,
            node: "node-a".into(),
            ready: true,
            ..InstanceStatus::default()
        });
        let stored = Membership::of(Some(&status)).store(status, name);
        assert_eq!((stored.instances[0].node.as_str(), stored.instances[0].ready), ("node-a", true));
    }

    #[test]
    fn next_serial_is_above_all_members_even_if_the_status_was_edited() {
        let mut status = PostgresClusterStatus { next_serial: 1, ..PostgresClusterStatus::default() };
        status.instances.push(InstanceStatus { serial: 7, ..InstanceStatus::default() });
        assert_eq!(Membership::of(Some(&status)).next_serial, 8);
    }
}
