//! What the volumes say about the cluster, for another one that may adopt them later.
//!
//! A member is recorded on the volumes of all others before it starts, and is struck off after it is
//! gone. So whoever reads any of the volumes knows all members that may have an acknowledged row. A
//! failover changes no volume, and waits for none.

use std::collections::BTreeSet;

use super::{Action, Decision, Observed, Volume};
use crate::{
    membership::{Member, Membership, Serial},
    record::VolumeRecord,
};

impl VolumeRecord {
    /// Returns what the volume of a member should say.
    fn of(&self, member: &Member) -> Self {
        Self { has_data: member.joined, ..self.clone() }
    }

    /// Returns whether a volume says so. One that has had data says that for ever.
    fn is_on(&self, volume: &Volume) -> bool {
        let is_same =
            |known: &Self| Self { has_data: self.has_data || known.has_data, ..self.clone() } == *known;
        volume.record.as_ref().is_some_and(is_same)
    }
}

impl Decision {
    /// Returns what the volume of a member should say.
    pub(crate) fn record_of(&self, serial: Serial) -> VolumeRecord {
        let member = self.membership.members.iter().find(|member| member.serial == serial);
        member.map_or_else(|| self.record.clone(), |member| self.record.of(member))
    }
}

impl Observed {
    /// Returns what the volume of a new member should say, apart from that member.
    pub(super) fn record(&self, next: &Membership) -> VolumeRecord {
        let adopted = next.adoption.as_ref().map(|adoption| adoption.cluster_uid.clone());
        VolumeRecord {
            cluster_uid: self.cluster_uid.clone(),
            creator: adopted.unwrap_or_else(|| self.cluster_uid.clone()),
            members: self.recorded_members(next),
            next_serial: next
                .members
                .iter()
                .find(|it| it.volume_uid.is_none())
                .map_or(next.next_serial, |it| it.serial),
            system_id: next.system_id,
            major_version: self.major_version.filter(|_| next.system_id.is_some()),
            has_data: false,
        }
    }

    /// Returns the changes of the volumes that say something else.
    pub(super) fn record_changes(&self, next: &Membership) -> Vec<Action> {
        // Nothing changes before there is a primary: another cluster may have to begin again.
        if next.is_adopting() {
            return Vec::new();
        }
        let record = self.record(next);
        let recorded = next.members.iter().filter(|member| record.members.contains(&member.serial));
        let volumes = recorded.filter_map(|member| Some((member, self.volume_of(member)?)));
        let other = volumes.filter(|(member, volume)| !record.of(member).is_on(volume));
        other.map(|(member, volume)| Action::Record(member.serial, volume.uid.clone())).collect()
    }

    /// Returns whether the volumes of all other members name a member.
    pub(super) fn is_recorded(&self, next: &Membership, serial: Serial) -> bool {
        self.records_of_others(next, serial)
            .all(|record| record.is_some_and(|it| it.members.contains(&serial)))
    }

    /// Returns whether no volume of another member names a member.
    pub(super) fn is_struck_off(&self, next: &Membership, serial: Serial) -> bool {
        self.records_of_others(next, serial).flatten().all(|record| !record.members.contains(&serial))
    }

    fn records_of_others<'a>(
        &'a self,
        next: &'a Membership,
        serial: Serial,
    ) -> impl Iterator<Item = Option<&'a VolumeRecord>> {
        let recorded = self.recorded_members(next);
        let others =
            next.members.iter().filter(move |it| it.serial != serial && recorded.contains(&it.serial));
        others.filter_map(|member| self.volume_of(member)).map(|volume| volume.record.as_ref())
    }

    /// Returns the members that may have an acknowledged row. One without a volume has none. Of one that
    /// leaves, that is so until its Pod is gone and no failover needs it, unless it has not joined, or a
    /// person has given it up.
    fn recorded_members(&self, next: &Membership) -> BTreeSet<Serial> {
        let is_gone = |member: &Member| {
            let is_needed = self.pods.contains_key(&member.serial) || next.is_in_quorum(member.serial);
            member.leaving && (!member.joined || !is_needed)
        };
        let recorded = next.members.iter().filter(|member| member.volume_uid.is_some() && !is_gone(member));
        recorded.map(|member| member.serial).collect()
    }

    /// Returns the volume of a member, unless it is lost or about to be.
    fn volume_of(&self, member: &Member) -> Option<&Volume> {
        let volume = self.volumes.get(&member.serial)?;
        (member.volume_uid.as_ref() == Some(&volume.uid) && !volume.is_terminating).then_some(volume)
    }
}
