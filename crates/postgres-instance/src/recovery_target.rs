//! Where a recovery ends.

use jiff::Timestamp;
use postgres_archive::RecoveryTarget;
use postgres_model::{lsn::Lsn, timeline::TimelineId};
use serde::{Deserialize, Serialize};

/// `spec.bootstrap.recovery.target`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TargetSettings {
    /// The moment of the last transaction.
    pub(crate) time: Option<Timestamp>,
    /// The position of the last transaction.
    pub(crate) lsn: Option<Lsn>,
    /// Whether the recovery ends as soon as the data are consistent.
    pub(crate) immediate: bool,
    /// Whether what is exactly at the target is left out.
    pub(crate) exclusive: bool,
    /// Timeline of the archive. `None`: the newest that has WAL.
    pub(crate) timeline: Option<TimelineId>,
}

/// Where PostgreSQL ends a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveryEnd {
    /// Timeline of the archive.
    pub(crate) timeline: TimelineId,
    pub(crate) target: TargetSettings,
}

impl TargetSettings {
    /// Returns the target. The API server accepts at most one.
    pub(crate) fn target(&self) -> RecoveryTarget {
        match (self.time, self.lsn, self.immediate) {
            (Some(time), ..) => RecoveryTarget::Time(time),
            (_, Some(lsn), _) => RecoveryTarget::Lsn(lsn),
            (_, _, true) => RecoveryTarget::Immediate,
            _ => RecoveryTarget::Latest,
        }
    }
}

impl RecoveryEnd {
    /// Returns the parameters of PostgreSQL. It pauses at a target, so that the position is known before
    /// the promotion.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("recovery_target_timeline", self.timeline.to_string())];
        parameters.extend(match self.target.target() {
            RecoveryTarget::Latest => None,
            RecoveryTarget::Immediate => Some(("recovery_target", "immediate".to_owned())),
            RecoveryTarget::Lsn(lsn) => Some(("recovery_target_lsn", lsn.to_string())),
            // PostgreSQL 14 refuses the abbreviation Z.
            RecoveryTarget::Time(time) => {
                Some(("recovery_target_time", time.strftime("%Y-%m-%d %H:%M:%S.%6f+00").to_string()))
            }
        });
        let inclusive = if self.target.exclusive { "off" } else { "on" };
        parameters.push(("recovery_target_inclusive", inclusive.to_owned()));
        parameters.push(("recovery_target_action", "pause".to_owned()));
        parameters
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parameters(target: Value) -> Vec<String> {
        let target = serde_json::from_value(target).unwrap();
        let end = RecoveryEnd { timeline: TimelineId::new(3).unwrap(), target };
        end.parameters().into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn target_is_a_parameter_of_postgresql() {
        let fixed = ["recovery_target_inclusive=on", "recovery_target_action=pause"];
        assert_eq!(parameters(json!({})), [&["recovery_target_timeline=3"][..], &fixed].concat());
        for (target, expected) in [
            (
                json!({"time": "2026-11-25T10:00:00.123456Z"}),
                "recovery_target_time=2026-11-25 10:00:00.123456+00",
            ),
            (
                json!({"time": "2026-11-25T10:00:00+02:00"}),
                "recovery_target_time=2026-11-25 08:00:00.000000+00",
            ),
            (json!({"lsn": "0/3000028"}), "recovery_target_lsn=0/3000028"),
            (json!({"immediate": true}), "recovery_target=immediate"),
        ] {
            assert_eq!(parameters(target)[1], expected);
        }
        assert_eq!(parameters(json!({"lsn": "0/50", "exclusive": true}))[2], "recovery_target_inclusive=off");
    }
}
