//! Which members use a replication slot.

use postgres_model::{report::InstanceReport, slots};

use super::Observation;
use crate::api::{InstanceStatus, PostgresCluster};

/// A member uses a slot only if its primary has it, because it could not follow otherwise. So the next primary is
/// asked as soon as it is chosen.
pub(super) fn update(
    cluster: &PostgresCluster,
    observed: &Observation<'_>,
    instances: &mut [InstanceStatus],
) {
    let is_wanted = cluster.spec.replication_slots.synchronize_logical;
    // While there is no leader, nobody follows.
    let Some(leader) = observed.membership.failover.target.as_ref().filter(|_| is_wanted) else {
        for instance in instances {
            instance.slot &= is_wanted;
        }
        return;
    };
    let is_new = cluster.status.as_ref().is_none_or(|status| status.primary.target != *leader);
    let mut reports = observed.reports.iter();
    let report = reports.find(|(serial, _)| observed.membership.is(**serial, Some(leader))).map(|(_, it)| it);
    for instance in instances {
        instance.slot = match report {
            Some(report) => report.slots.contains(&slots::name(&instance.name)),
            // A leader that does not answer keeps its slots.
            None => instance.slot && !is_new,
        };
    }
}

/// Returns which member cannot synchronize slots, because its PostgreSQL is too old.
pub(super) fn refusal<'a>(
    cluster: &PostgresCluster,
    reports: impl Iterator<Item = (String, &'a InstanceReport)>,
) -> Option<String> {
    let mut versions = reports
        .filter(|_| cluster.spec.replication_slots.synchronize_logical)
        .filter_map(|(member, report)| Some((member, report.server_version.as_ref()?)));
    let (member, version) = versions.find(|(_, version)| {
        let major = version.split(|letter: char| !letter.is_ascii_digit()).next();
        major.and_then(|major| major.parse().ok()).is_some_and(|major: u16| major < slots::FIRST_MAJOR)
    })?;
    Some(format!(
        "{member} runs PostgreSQL {version}, and spec.replicationSlots.synchronizeLogical requires {}",
        slots::FIRST_MAJOR
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{api::fixture::cluster, status::tests::status_with};

    /// Returns the serial numbers of the members that use a slot. `slots` are those of the primary, db-1, and
    /// `former` is the primary of a status in which db-2 and db-3 use a slot.
    fn with_slots(spec: &Value, slots: Option<&[&str]>, former: &str) -> Vec<u32> {
        let mut cluster = cluster(spec);
        let instance =
            |serial: u32| json!({"name": format!("db-{serial}"), "serial": serial, "slot": serial > 1});
        let status =
            json!({"primary": {"target": former}, "instances": [instance(1), instance(2), instance(3)]});
        cluster.status = Some(serde_json::from_value(status).unwrap());
        let report = slots.map(|slots| InstanceReport {
            slots: slots.iter().map(|slot| (*slot).to_owned()).collect(),
            ..InstanceReport::starting("db-1".into(), "p".into(), "0.1.0")
        });
        let reports: BTreeMap<_, _> = report.into_iter().map(|report| (1, report)).collect();
        let status = status_with(&cluster, &[1, 2, 3], &reports);
        let users = status.instances.iter().filter(|instance| instance.slot);
        users.map(|instance| instance.serial).collect()
    }

    #[test]
    fn member_uses_a_slot_that_its_primary_has() {
        let spec = json!({"size": 3, "replicationSlots": {"synchronizeLogical": true}});
        for former in ["db-1", "db-2"] {
            assert_eq!(with_slots(&spec, Some(&["ensemble_2"]), former), [2]);
            assert_eq!(with_slots(&spec, Some(&[]), former), [0_u32; 0]);
            assert_eq!(with_slots(&json!({"size": 3}), Some(&["ensemble_2"]), former), [0_u32; 0]);
        }
        assert_eq!(with_slots(&spec, None, "db-1"), [2, 3], "it has them still");
        assert_eq!(with_slots(&spec, None, "db-2"), [0_u32; 0], "it has not said that it has any");
    }

    #[test]
    fn version_that_cannot_copy_slots_is_named() {
        let refused = |wanted: bool, version: Option<&str>| {
            let cluster = cluster(&json!({"replicationSlots": {"synchronizeLogical": wanted}}));
            let report = InstanceReport {
                server_version: version.map(str::to_owned),
                ..InstanceReport::starting("db-1".into(), "p".into(), "0.1.0")
            };
            refusal(&cluster, [("db-1".to_owned(), &report)].into_iter())
        };
        let message = refused(true, Some("16.10 (Debian 16.10-1)")).unwrap();
        assert!(message.starts_with("db-1 runs PostgreSQL 16.10 (Debian 16.10-1), and spec."), "{message}");
        for (wanted, version) in
            [(false, Some("16.10")), (true, Some("17.0")), (true, Some("18beta1")), (true, None)]
        {
            assert_eq!(refused(wanted, version), None, "{version:?}");
        }
    }
}
