//! What a volume says about its cluster, in annotations. It survives the cluster, and another one of
//! its name reads it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use postgres_model::system_identifier::SystemIdentifier;

use crate::{
    build::{CLUSTER_LABEL, CLUSTER_UID, serial_of},
    membership::{Serial, name_of_member},
};

/// UID of the cluster that created the database.
const CREATOR: &str = "lukeb0nd.com/created-by";
/// Names of the members whose volumes have the data of the cluster.
const MEMBERS: &str = "lukeb0nd.com/members";
/// Serial number of the next member.
const NEXT_SERIAL: &str = "lukeb0nd.com/next-serial";
/// System identifier of the database.
const SYSTEM_ID: &str = "lukeb0nd.com/system-id";
/// Whether the member of this volume has joined, so that its volume has data.
const HAS_DATA: &str = "lukeb0nd.com/has-data";
/// Major version of PostgreSQL.
const MAJOR_VERSION: &str = "lukeb0nd.com/major-version";
/// Most members that are read. A person can write any list.
const MAX_MEMBERS: usize = 64;

/// What a volume says about its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    /// UID of the cluster that used the volume last.
    pub(crate) cluster_uid: String,
    /// UID of the cluster that created the database. It is another one if volumes were adopted.
    pub(crate) creator: String,
    /// Members that may have an acknowledged row. Each of them is recorded on the volumes of all others
    /// before it starts. Empty if that is not known.
    pub(crate) members: BTreeSet<Serial>,
    /// Serial number of the next member.
    pub(crate) next_serial: Serial,
    /// `None` until the database exists.
    pub(crate) system_id: Option<SystemIdentifier>,
    /// `None` until the database exists.
    pub(crate) major_version: Option<u16>,
    /// Whether the member of this volume has joined. If the volume is empty later, its data are lost.
    pub(crate) has_data: bool,
}

impl VolumeRecord {
    /// Reads what a volume says. Returns `None` for a volume that was not made for a cluster of this
    /// name.
    pub(crate) fn read(volume: &PersistentVolumeClaim, cluster: &str) -> Option<Self> {
        let annotations = volume.annotations();
        let text = |name: &str| annotations.get(name).map(String::as_str);
        volume.labels().get(CLUSTER_LABEL).filter(|label| *label == cluster)?;
        let cluster_uid = text(CLUSTER_UID)?.to_owned();
        Some(Self {
            creator: text(CREATOR).unwrap_or(&cluster_uid).to_owned(),
            members: text(MEMBERS).and_then(|names| members(cluster, names)).unwrap_or_default(),
            next_serial: text(NEXT_SERIAL).and_then(|number| number.parse().ok()).unwrap_or_default(),
            system_id: text(SYSTEM_ID).and_then(|number| number.parse().ok()),
            major_version: text(MAJOR_VERSION).and_then(|number| number.parse().ok()),
            has_data: text(HAS_DATA) == Some("true"),
            cluster_uid,
        })
    }

    /// Returns the record on the volume of a new member.
    pub(crate) fn with_member(&self, serial: Serial) -> Self {
        let mut record = self.clone();
        record.members.insert(serial);
        record.next_serial = record.next_serial.max(serial.saturating_add(1));
        record
    }

    /// Returns the annotations of a volume of a cluster with this name.
    pub(crate) fn annotations(&self, cluster: &str) -> BTreeMap<String, String> {
        let members: Vec<_> = self.members.iter().map(|serial| name_of_member(cluster, *serial)).collect();
        let always = [
            (CLUSTER_UID, self.cluster_uid.clone()),
            (CREATOR, self.creator.clone()),
            (MEMBERS, members.join(",")),
            (NEXT_SERIAL, self.next_serial.to_string()),
        ];
        let system_id = self.system_id.map(|number| (SYSTEM_ID, number.to_string()));
        let major_version = self.major_version.map(|number| (MAJOR_VERSION, number.to_string()));
        // It is never removed: a patch leaves other annotations as they are.
        let has_data = self.has_data.then(|| (HAS_DATA, "true".to_owned()));
        let all = always.into_iter().chain(system_id).chain(major_version).chain(has_data);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Returns the serial numbers of these members. Returns `None` for a list that is not one of members.
fn members(cluster: &str, names: &str) -> Option<BTreeSet<Serial>> {
    let names = names.split(',').map(str::trim);
    let serials: BTreeSet<_> =
        names.take(MAX_MEMBERS + 1).map(|name| serial_of(cluster, name)).collect::<Option<_>>()?;
    (serials.len() <= MAX_MEMBERS).then_some(serials)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::{collection::btree_set, option, prelude::*};

    use super::*;

    /// Returns the record of a cluster with these members, whose UID and whose database's is the same.
    pub(crate) fn record(uid: &str, members: &[Serial]) -> VolumeRecord {
        VolumeRecord {
            cluster_uid: uid.to_owned(),
            creator: uid.to_owned(),
            members: members.iter().copied().collect(),
            next_serial: members.iter().max().map_or(1, |last| last + 1),
            system_id: "7400000000000000001".parse().ok(),
            major_version: Some(18),
            has_data: true,
        }
    }

    fn volume(cluster: &str, annotations: BTreeMap<String, String>) -> PersistentVolumeClaim {
        let mut volume = PersistentVolumeClaim::default();
        volume.labels_mut().insert(CLUSTER_LABEL.to_owned(), cluster.to_owned());
        *volume.annotations_mut() = annotations;
        volume
    }

    #[test]
    fn annotations_are_readable() {
        let annotations = record("u-1", &[1, 3]).annotations("db");
        let lines: Vec<_> = annotations.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            lines,
            [
                "lukeb0nd.com/cluster-uid=u-1",
                "lukeb0nd.com/created-by=u-1",
                "lukeb0nd.com/has-data=true",
                "lukeb0nd.com/major-version=18",
                "lukeb0nd.com/members=db-1,db-3",
                "lukeb0nd.com/next-serial=4",
                "lukeb0nd.com/system-id=7400000000000000001",
            ]
        );
    }

    #[test]
    fn only_volumes_of_the_name_have_a_record() {
        let annotations = record("u-1", &[1]).annotations("db");
        assert!(VolumeRecord::read(&volume("db", annotations.clone()), "db").is_some());
        assert!(VolumeRecord::read(&volume("other", annotations.clone()), "db").is_none());
        assert!(VolumeRecord::read(&volume("db", BTreeMap::new()), "db").is_none());
        let unlabelled = PersistentVolumeClaim::default();
        assert!(VolumeRecord::read(&unlabelled, "db").is_none());
    }

    #[test]
    fn list_that_is_damaged_counts_as_unknown() {
        let many = (1..=100).map(|serial| format!("db-{serial}")).collect::<Vec<_>>().join(",");
        for names in ["", "db-1,", "db-1,other-2", "db-01", &many] {
            let mut annotations = record("u-1", &[1]).annotations("db");
            annotations.insert(MEMBERS.to_owned(), names.to_owned());
            let read = VolumeRecord::read(&volume("db", annotations), "db").unwrap();
            assert!(read.members.is_empty(), "{names}");
        }
    }

    proptest! {
        #[test]
        fn annotations_parse_back(
            (cluster_uid, creator) in ("[a-z0-9-]{1,36}", "[a-z0-9-]{1,36}"),
            members in btree_set(1..1000u32, 1..9),
            next_serial: Serial,
            system_id in option::of(any::<u64>()),
            major_version in option::of(14..99u16),
            has_data: bool,
        ) {
            let system_id = system_id.map(SystemIdentifier);
            let record = VolumeRecord { cluster_uid, creator, members, next_serial, system_id, major_version, has_data };
            let read = VolumeRecord::read(&volume("db", record.annotations("db")), "db");
            prop_assert_eq!(read, Some(record));
        }

        #[test]
        fn any_annotations_are_read(value in "\\PC{0,80}", name in prop::sample::select(
            vec![CLUSTER_UID, CREATOR, MEMBERS, NEXT_SERIAL, SYSTEM_ID, MAJOR_VERSION, HAS_DATA]
        )) {
            let mut annotations = record("u-1", &[1]).annotations("db");
            annotations.insert(name.to_owned(), value);
            let _ = VolumeRecord::read(&volume("db", annotations), "db");
        }
    }
}
