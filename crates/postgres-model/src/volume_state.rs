//! The state that an instance keeps on its volume, in `instance.json` beside the data directory.

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::{Position, TimelineId},
};

/// Version of the form of the file.
const FORMAT_VERSION: u32 = 1;
/// Most bytes of the file.
const MAX_BYTES: usize = 16 << 10;

/// Content of `instance.json`.
///
/// The instance writes it by rename and `fsync`. A decision relies on each field, so a file without
/// one of them is an error, and never read as its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeState {
    /// Always [`FORMAT_VERSION`].
    format_version: u32,
    /// UID of the PostgresCluster that created the database. One that adopts the database names it in
    /// its status.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,
    /// UID of the PostgresCluster that the epoch is of. Epochs of another one mean nothing.
    pub epochs_of: String,
    /// System identifier of the data directory. `None` before the first one is complete.
    #[serde(deserialize_with = "required")]
    pub system_identifier: Option<SystemIdentifier>,
    /// Epoch at which the member was sealed last. The member refuses primaries of older epochs.
    #[serde(deserialize_with = "required")]
    pub sealed_epoch: Option<u64>,
    /// Timeline that a promotion claimed and did not confirm. The next promotion must claim a higher
    /// one, because the interrupted one may have used this one.
    #[serde(deserialize_with = "required")]
    pub promotion_begun: Option<TimelineId>,
    /// Timeline that this member began last, by `initdb` or by a promotion. Only this member may
    /// write on it.
    #[serde(deserialize_with = "required")]
    pub own_timeline: Option<TimelineId>,
    /// Timeline of the primary that this member followed last. It can have WAL up to this timeline.
    #[serde(deserialize_with = "required")]
    pub followed_timeline: Option<TimelineId>,
    /// Whether `pg_rewind` began and has not ended. The data directory is not whole then.
    pub rewind_begun: bool,
    /// Where the WAL ends: a position in its last record. `None` if the server has run since, or did
    /// not stop cleanly.
    #[serde(deserialize_with = "required")]
    pub last_clean_stop: Option<Position>,
    /// Recovery that the data were restored for. `None` once the member was promoted, or if the data do
    /// not come from an archive. Data that have not recovered are not those of the cluster yet.
    #[serde(deserialize_with = "required")]
    pub recovery: Option<RecoveryState>,
    /// System identifier of a complete data directory of a later major version, which is about to replace the
    /// present one.
    ///
    /// Members whose data were never upgraded leave this field and the next one out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgraded: Option<SystemIdentifier>,
    /// Whether the data were upgraded, and PostgreSQL has not collected statistics for its planner since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_statistics: bool,
}

/// Recovery of restored data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecoveryState {
    /// Timeline of the archive to recover to.
    pub timeline: TimelineId,
    /// End of the last segment that the archive had when the data were restored. `None`: the recovery
    /// has a target, and PostgreSQL ends it there.
    #[serde(deserialize_with = "required")]
    pub end: Option<Lsn>,
}

/// Part of a file that every version of the manager can read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format_version: u32,
}

/// Error of an `instance.json` that cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum VolumeStateError {
    /// The file is not JSON with a version.
    #[error(
        "instance.json is damaged, or no file of this program: {0}; the member must not start; add the \
         annotation lukeb0nd.com/reclone, which gives it a new volume and keeps this one"
    )]
    Damaged(serde_json::Error),
    /// The file has another form.
    #[error(
        "instance.json has the format version {0}, and this program reads {FORMAT_VERSION}; the member must \
         not start; run the version of the manager that wrote the file"
    )]
    Format(u32),
    /// The file is too large.
    #[error(
        "instance.json has {0} bytes and can be no file of this program; the member must not start; add the \
         annotation lukeb0nd.com/reclone, which gives it a new volume and keeps this one"
    )]
    Bytes(usize),
    /// The volume belongs to another cluster.
    #[error(
        "the volume belongs to the PostgresCluster with the UID {found}, and not to {expected}; the member \
         must not start; set spec.bootstrap.volumes to Adopt to take the volumes of an earlier cluster"
    )]
    Foreign {
        /// UID in the file.
        found: String,
        /// UID of the cluster.
        expected: String,
    },
}

impl VolumeState {
    /// Returns the state of an empty volume of a cluster. `creator` is the cluster that created the
    /// database.
    pub fn empty(creator: impl Into<String>, cluster_uid: impl Into<String>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            cluster_uid: creator.into(),
            epochs_of: cluster_uid.into(),
            system_identifier: None,
            sealed_epoch: None,
            promotion_begun: None,
            own_timeline: None,
            followed_timeline: None,
            rewind_begun: false,
            last_clean_stop: None,
            recovery: None,
            upgraded: None,
            lacks_statistics: false,
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or of another program or version.
    pub fn parse(json: &[u8]) -> Result<Self, VolumeStateError> {
        if json.len() > MAX_BYTES {
            return Err(VolumeStateError::Bytes(json.len()));
        }
        match serde_json::from_slice(json).map_err(VolumeStateError::Damaged)? {
            Header { format_version: FORMAT_VERSION } => {
                serde_json::from_slice(json).map_err(VolumeStateError::Damaged)
            }
            Header { format_version } => Err(VolumeStateError::Format(format_version)),
        }
    }

    /// Renders the file.
    ///
    /// # Errors
    /// Returns an error if the file would be too large to read.
    pub fn render(&self) -> Result<Vec<u8>, VolumeStateError> {
        let mut json = serde_json::to_vec_pretty(self).map_err(VolumeStateError::Damaged)?;
        json.push(b'\n');
        if json.len() > MAX_BYTES { Err(VolumeStateError::Bytes(json.len())) } else { Ok(json) }
    }

    /// Returns the state in which a cluster uses the volume. `creator` is the cluster that created the
    /// database: another one whose volumes are adopted, or the same.
    ///
    /// # Errors
    /// Returns an error with both UIDs if the database is that of another cluster.
    pub fn used_by(self, creator: &str, cluster_uid: &str) -> Result<Self, VolumeStateError> {
        if self.cluster_uid != creator {
            return Err(VolumeStateError::Foreign { found: self.cluster_uid, expected: creator.to_owned() });
        }
        if self.epochs_of == cluster_uid {
            return Ok(self);
        }
        Ok(Self { epochs_of: cluster_uid.to_owned(), sealed_epoch: None, ..self })
    }

    /// Returns the state with data that `pg_upgrade` has made. They begin with timeline 1, so what is known about
    /// timelines and positions is no longer true.
    #[must_use]
    pub fn with_upgraded_data(self, system_identifier: SystemIdentifier) -> Self {
        Self {
            system_identifier: Some(system_identifier),
            sealed_epoch: self.sealed_epoch,
            lacks_statistics: true,
            ..Self::empty(self.cluster_uid, self.epochs_of)
        }
    }

    /// Returns the highest timeline that the volume names, also that of an interrupted promotion.
    pub fn highest_timeline(&self) -> Option<TimelineId> {
        let stop = self.last_clean_stop.map(|stop| stop.timeline);
        [self.promotion_begun, self.own_timeline, self.followed_timeline, stop].into_iter().flatten().max()
    }
}

/// Deserializes a field that can be null, and must be there.
///
/// Without this function, serde reads an `Option` that is not there as `None`.
fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    fn full() -> Value {
        json!({
            "formatVersion": 1,
            "clusterUID": "2c1f1c4e",
            "epochsOf": "7d0c33aa",
            "systemIdentifier": "7400000000000000001",
            "sealedEpoch": 3,
            "promotionBegun": 5,
            "ownTimeline": 3,
            "followedTimeline": 4,
            "rewindBegun": false,
            "lastCleanStop": { "timeline": 4, "lsn": "0/4000028" },
            "recovery": { "timeline": 4, "end": "0/5000000" },
        })
    }

    fn parse(json: &Value) -> Result<VolumeState, VolumeStateError> {
        VolumeState::parse(json.to_string().as_bytes())
    }

    #[test]
    fn form_is_stable() {
        let state = parse(&full()).unwrap();
        assert_eq!(state.promotion_begun.map(TimelineId::get), Some(5));
        let json: Value = serde_json::from_slice(&state.render().unwrap()).unwrap();
        assert_eq!(json, full());
    }

    #[test]
    fn missing_and_unknown_fields_are_errors() {
        for field in full().as_object().unwrap().keys() {
            let mut json = full();
            json.as_object_mut().unwrap().remove(field);
            assert!(matches!(parse(&json), Err(VolumeStateError::Damaged(_))), "{field}");
        }
        let mut json = full();
        json["other"] = json!(1);
        let error = parse(&json).unwrap_err().to_string();
        assert!(error.contains("unknown field `other`") && error.contains("lukeb0nd.com/reclone"), "{error}");
    }

    #[test]
    fn field_that_is_there_twice_is_an_error() {
        let file = full().to_string().replacen('{', "{\"sealedEpoch\":4,", 1);
        let error = VolumeState::parse(file.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("duplicate field `sealedEpoch`"), "{error}");
    }

    #[test]
    fn file_of_another_version_is_an_error() {
        let error = parse(&json!({ "formatVersion": 2, "other": 1 })).unwrap_err().to_string();
        assert!(
            error.starts_with("instance.json has the format version 2, and this program reads 1"),
            "{error}"
        );
    }

    #[test]
    fn files_of_other_programs_are_errors() {
        for file in [
            "",
            "null",
            "[]",
            "{}",
            "{\"formatVersion\":1,\"formatVersion\":1}",
            "PG_VERSION",
            "{\"formatVersion\":\"1\"}",
            "{\"formatVersion\":1}",
        ] {
            assert!(
                matches!(VolumeState::parse(file.as_bytes()), Err(VolumeStateError::Damaged(_))),
                "{file}"
            );
        }
        assert!(matches!(VolumeState::parse(&vec![b' '; MAX_BYTES + 1]), Err(VolumeStateError::Bytes(_))));
        assert!(matches!(
            VolumeState::empty("x".repeat(MAX_BYTES), "c").render(),
            Err(VolumeStateError::Bytes(_))
        ));
    }

    #[test]
    fn volume_of_another_cluster_is_foreign() {
        let state = VolumeState::empty("a", "a");
        assert_eq!(state.clone().used_by("a", "a").unwrap(), state);
        let error = state.used_by("b", "b").unwrap_err().to_string();
        assert!(
            error.starts_with("the volume belongs to the PostgresCluster with the UID a, and not to b"),
            "{error}"
        );
    }

    #[test]
    fn epochs_end_with_their_cluster() {
        let sealed = parse(&full()).unwrap();
        let kept = sealed.clone().used_by("2c1f1c4e", "7d0c33aa").unwrap();
        assert_eq!(kept, sealed);
        let adopted = sealed.clone().used_by("2c1f1c4e", "new").unwrap();
        assert_eq!((adopted.epochs_of.as_str(), adopted.sealed_epoch), ("new", None));
        assert_eq!(adopted.highest_timeline(), TimelineId::new(5).ok());
        assert!(adopted.used_by("new", "new").is_err(), "the database is that of the first cluster");
    }

    #[test]
    fn upgraded_data_have_no_timelines_and_keep_the_seal() {
        let state = parse(&full()).unwrap();
        let upgraded = state.clone().with_upgraded_data(SystemIdentifier(9));
        assert_eq!((upgraded.sealed_epoch, upgraded.highest_timeline()), (state.sealed_epoch, None));
        assert_eq!((upgraded.cluster_uid.as_str(), upgraded.epochs_of.as_str()), ("2c1f1c4e", "7d0c33aa"));
        assert!(upgraded.system_identifier == Some(SystemIdentifier(9)) && upgraded.lacks_statistics);
        assert_eq!(VolumeState::parse(&upgraded.render().unwrap()).unwrap(), upgraded);
    }

    prop_compose! {
        fn states()(
            cluster_uid in "\\PC{0,40}",
            epochs_of in "\\PC{0,40}",
            identifier in option::of(any::<u64>()),
            sealed_epoch in option::of(any::<u64>()),
            promotion in option::of(1..u32::MAX),
            own in option::of(1..u32::MAX),
            followed in option::of(1..u32::MAX),
            rewind_begun: bool,
            stop in option::of((1..u32::MAX, any::<u64>())),
            recovery in option::of((1..u32::MAX, option::of(any::<u64>()))),
            (upgraded, lacks_statistics) in (option::of(any::<u64>()), any::<bool>()),
        ) -> VolumeState {
            let timeline = |number| TimelineId::new(number).unwrap();
            VolumeState {
                format_version: FORMAT_VERSION,
                cluster_uid,
                epochs_of,
                system_identifier: identifier.map(SystemIdentifier),
                sealed_epoch,
                promotion_begun: promotion.map(timeline),
                own_timeline: own.map(timeline),
                followed_timeline: followed.map(timeline),
                rewind_begun,
                last_clean_stop: stop.map(|(number, lsn)| Position { timeline: timeline(number), lsn: Lsn(lsn) }),
                recovery: recovery.map(|(number, end)| RecoveryState { timeline: timeline(number), end: end.map(Lsn) }),
                upgraded: upgraded.map(SystemIdentifier),
                lacks_statistics,
            }
        }
    }

    proptest! {
        #[test]
        fn rendering_parses_back(state in states()) {
            prop_assert_eq!(VolumeState::parse(&state.render().unwrap()).unwrap(), state);
        }

        #[test]
        fn torn_file_is_an_error(state in states(), cut: prop::sample::Index, zeros: bool) {
            let file = state.render().unwrap();
            // The file ends with a brace and a line break.
            let length = cut.index(file.len() - 1);
            let mut torn = file[..length].to_vec();
            if zeros {
                torn.resize(file.len(), 0);
            }
            prop_assert!(VolumeState::parse(&torn).is_err());
        }

        #[test]
        fn any_bytes_parse_or_fail(bytes in vec(any::<u8>(), 0..200), at: prop::sample::Index, byte: u8) {
            let _ = VolumeState::parse(&bytes);
            let mut json = full().to_string().into_bytes();
            let index = at.index(json.len());
            json[index] = byte;
            let _ = VolumeState::parse(&json);
        }
    }
}
