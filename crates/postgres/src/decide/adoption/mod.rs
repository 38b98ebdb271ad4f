//! Volumes that former clusters of the same name have left.
//!
//! A new cluster adopts them if they are of one database. The status names the former cluster and its
//! members before any of them starts. Nothing on the volumes changes until one of them is the primary,
//! so an adoption that is interrupted can begin again, also by the next cluster of the name.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use postgres_model::{
    failover::{FailoverState, Reign},
    report::InstanceReport,
    sync::SyncConfiguration,
    system_identifier::SystemIdentifier,
    timeline::TimelineId,
};

use super::{Observed, Volume};
use crate::{
    api::{AdoptionStatus, BootstrapStatus, FormerVolumes},
    membership::{Member, Membership, Serial},
    record::VolumeRecord,
};

/// Volumes of former clusters, and what they say.
type Former<'a> = BTreeMap<Serial, (&'a Volume, &'a VolumeRecord)>;

/// Why volumes of former clusters are not adopted. Nothing is changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdoptionProblem {
    /// They are of several databases, with these volumes.
    SeveralDatabases(Vec<Vec<Serial>>),
    /// These volumes do not say which members there were.
    UnknownMembers(Vec<Serial>),
    /// These volumes are of former members. None of those at the end has one.
    NoMembers(Vec<Serial>),
    /// The database is to be recovered from an archive, and these volumes exist.
    Recovery(Vec<Serial>),
    /// These volumes are being deleted.
    Terminating(Vec<Serial>),
}

/// Lets a new cluster begin with the members of a former one. Returns whether it does.
///
/// # Errors
/// Returns why it can neither do that nor begin without them.
pub(super) fn begin(observed: &Observed, next: &mut Membership) -> Result<bool, AdoptionProblem> {
    let former = observed.former_volumes();
    if next.bootstrap.is_some() || !next.members.is_empty() || former.is_empty() {
        return Ok(false);
    }
    match observed.former {
        FormerVolumes::Adopt | FormerVolumes::Refuse if observed.recovery.is_some() => {
            Err(AdoptionProblem::Recovery(former.into_keys().collect()))
        }
        FormerVolumes::Adopt => adopt(observed, next, &former).map(|()| true),
        FormerVolumes::Fresh => {
            skip_serials(observed, next);
            Ok(false)
        }
        FormerVolumes::Refuse => Ok(false),
    }
}

/// Learns what the adopted members have. Returns a problem if they have different databases.
pub(super) fn compare(observed: &Observed, next: &mut Membership) -> Option<AdoptionProblem> {
    if !next.is_adopting() || next.failover.target.is_some() {
        return None;
    }
    let reports: Vec<_> = reports(observed, next);
    let databases = databases(next, &reports);
    if databases.len() > 1 {
        return Some(AdoptionProblem::SeveralDatabases(databases.into_values().collect()));
    }
    next.system_id = next.system_id.or_else(|| databases.keys().next().copied());
    let known = reports.iter().filter(|(serial, _)| !observed.is_emptied(next, *serial));
    let known: Vec<_> = known.map(|(serial, report)| (*serial, next.name_of(*serial), *report)).collect();
    next.failover.learn(known.iter().map(|(_, name, report)| (name.as_str(), *report)));
    for member in &mut next.members {
        let is_empty = known.iter().any(|(serial, _, report)| *serial == member.serial && report.is_empty);
        member.joined &= !is_empty;
    }
    if next.failover.reigns.is_empty() {
        create_database(next);
    }
    None
}

/// Leaves out the adopted members that do not answer, because a person has forced the promotion of
/// another one. Their volumes stay as they are.
pub(super) fn give_up_silent_members(observed: &Observed, next: &mut Membership) {
    if next.is_adopting() {
        for member in next.members.iter_mut().filter(|it| !observed.reports.contains_key(&it.serial)) {
            (member.joined, member.leaving) = (false, true);
        }
    }
}

/// Ends the adoption once there is a primary.
pub(super) fn finish(next: &mut Membership) {
    if let (Some(adoption), Some(_)) = (&mut next.adoption, &next.failover.current) {
        adoption.done = true;
    }
}

impl Observed {
    /// Returns the volumes that other clusters of the name have used last.
    fn former_volumes(&self) -> Former<'_> {
        let is_former = |record: &&VolumeRecord| record.cluster_uid != self.cluster_uid;
        let volumes = self.volumes.iter();
        volumes
            .filter_map(|(serial, volume)| {
                let record = volume.record.as_ref().filter(is_former)?;
                Some((*serial, (volume, record)))
            })
            .collect()
    }

    /// Returns whether the data of an adopted member are lost, although its volume exists.
    pub(super) fn is_emptied(&self, next: &Membership, serial: Serial) -> bool {
        let had_data = |volume: &Volume| volume.record.as_ref().is_some_and(|record| record.has_data);
        next.is_adopting()
            && self.volumes.get(&serial).is_some_and(had_data)
            && self.reports.get(&serial).is_some_and(|report| report.is_empty)
    }

    /// Returns the volumes of other clusters of the name that no member uses.
    pub(super) fn retained(&self, next: &Membership) -> Vec<Serial> {
        let is_used = |volume: &Volume| {
            next.members.iter().any(|member| member.volume_uid.as_ref() == Some(&volume.uid))
        };
        let former = self.former_volumes().into_iter();
        former.filter(|(_, (volume, _))| !is_used(volume)).map(|(serial, _)| serial).collect()
    }
}

fn adopt(observed: &Observed, next: &mut Membership, former: &Former<'_>) -> Result<(), AdoptionProblem> {
    let all = || former.keys().copied().collect::<Vec<_>>();
    let record = single_database(former)?;
    let names: Vec<_> = record.members.iter().map(|serial| next.name_of(*serial)).collect();
    let failover = FailoverState::adopting(names).ok().filter(|_| !record.members.is_empty());
    let failover = failover.ok_or_else(|| AdoptionProblem::UnknownMembers(all()))?;
    let volumes: Vec<_> = former.iter().filter(|(serial, _)| record.members.contains(serial)).collect();
    if volumes.is_empty() {
        return Err(AdoptionProblem::NoMembers(all()));
    }
    let terminating = volumes.iter().filter(|(_, (volume, _))| volume.is_terminating);
    let terminating: Vec<_> = terminating.map(|(serial, _)| **serial).collect();
    if !terminating.is_empty() {
        return Err(AdoptionProblem::Terminating(terminating));
    }
    let member = |(serial, (volume, _)): &(&Serial, &(&Volume, &VolumeRecord))| Member {
        volume_uid: Some(volume.uid.clone()),
        joined: true,
        ..Member::new(**serial)
    };
    next.members = volumes.iter().map(member).collect();
    next.next_serial = next.next_serial.max(record.next_serial);
    skip_serials(observed, next);
    next.failover = failover;
    let known = volumes.iter().find_map(|(_, (_, record))| record.system_id);
    next.system_id = record.system_id.or(known);
    // Nobody creates a database on these volumes.
    next.bootstrap = Some(BootstrapStatus { volume_uid: String::new(), done: true });
    next.adoption = Some(AdoptionStatus {
        cluster_uid: record.creator.clone(),
        major_version: record.major_version,
        done: false,
    });
    Ok(())
}

/// Returns the newest record of a database, if all volumes are of one.
///
/// A new member gets the next serial number and is recorded on all volumes before it starts. A member
/// is struck off after it is gone. So of two records with the same next serial number, the shorter one
/// is newer.
fn single_database<'a>(former: &Former<'a>) -> Result<&'a VolumeRecord, AdoptionProblem> {
    let creators: BTreeSet<_> = former.values().map(|(_, record)| &record.creator).collect();
    let with = |creator: &String| {
        let volumes = former.iter().filter(|(_, (_, record))| record.creator == *creator);
        volumes.map(|(serial, _)| *serial).collect()
    };
    if creators.len() > 1 {
        return Err(AdoptionProblem::SeveralDatabases(creators.into_iter().map(with).collect()));
    }
    let age = |record: &&VolumeRecord| (record.next_serial, Reverse(record.members.len()));
    let known = former.values().map(|(_, record)| *record).filter(|record| !record.members.is_empty());
    let newest = known
        .max_by_key(age)
        .ok_or_else(|| AdoptionProblem::UnknownMembers(former.keys().copied().collect()))?;
    // Volumes from before an upgrade to another major version are of none of its members.
    let members = former.iter().filter(|(serial, _)| newest.members.contains(serial));
    let members: Former<'_> = members.map(|(serial, known)| (*serial, *known)).collect();
    let databases: Vec<_> =
        system_ids(&members).into_iter().filter_map(|(id, serials)| id.map(|_| serials)).collect();
    if databases.len() > 1 {
        return Err(AdoptionProblem::SeveralDatabases(databases));
    }
    Ok(newest)
}

fn system_ids(former: &Former<'_>) -> BTreeMap<Option<SystemIdentifier>, Vec<Serial>> {
    let mut identifiers: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (serial, (_, record)) in former {
        identifiers.entry(record.system_id).or_default().push(*serial);
    }
    identifiers
}

/// Lets new members have numbers above those of all volumes.
fn skip_serials(observed: &Observed, next: &mut Membership) {
    let last = observed.volumes.keys().last().copied().unwrap_or_default();
    next.next_serial = next.next_serial.max(last.saturating_add(1));
}

/// Returns the reports of members that have their own volume.
fn reports<'a>(observed: &'a Observed, next: &Membership) -> Vec<(Serial, &'a InstanceReport)> {
    let usable = next.members.iter().filter(|member| observed.problem(member).is_none());
    usable.filter_map(|member| Some((member.serial, observed.reports.get(&member.serial)?))).collect()
}

/// Returns the databases that members report, with their members, and the one of the status.
fn databases(
    next: &Membership,
    reports: &[(Serial, &InstanceReport)],
) -> BTreeMap<SystemIdentifier, Vec<Serial>> {
    let mut databases: BTreeMap<_, Vec<_>> =
        next.system_id.map(|known| (known, Vec::new())).into_iter().collect();
    for (serial, report) in reports {
        if let Some(identifier) = report.system_identifier {
            databases.entry(identifier).or_default().push(*serial);
        }
    }
    databases
}

/// Lets the first member create the database, because the former cluster had none yet.
fn create_database(next: &mut Membership) {
    let first = next.staying().next().and_then(|it| Some((next.name_of(it.serial), it.volume_uid.clone()?)));
    let Some((primary, volume_uid)) = first else { return };
    next.failover.reigns =
        vec![Reign { primary: primary.clone(), configuration: SyncConfiguration::default() }];
    next.failover.target = Some(primary);
    next.failover.timeline = TimelineId::FIRST;
    next.failover.epoch = next.failover.epoch.saturating_add(1);
    next.bootstrap = Some(BootstrapStatus { volume_uid, done: false });
}
