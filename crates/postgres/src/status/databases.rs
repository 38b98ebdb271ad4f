//! The condition about the roles and databases of the spec.

use operator_core::conditions::NewCondition;

use super::Observation;
use crate::{api::PostgresCluster, build::member_name, condition_types::DATABASES_APPLIED, reasons};

/// True if the primary has the roles and databases of the spec.
pub(super) fn databases_applied(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let is_true =
        |message: &str| NewCondition::is_true(DATABASES_APPLIED, reasons::AS_SPECIFIED, message.to_owned());
    let is_false = |reason, message| NewCondition::is_false(DATABASES_APPLIED, reason, message);
    let declared = cluster.spec.declared();
    if declared.is_empty() {
        return is_true("spec.roles and spec.databases are empty");
    }
    let fingerprint = declared.fingerprint();
    let primary = observed.reports.iter().find(|(serial, _)| observed.membership.is_primary(**serial));
    let report = primary.and_then(|(_, report)| report.databases.as_ref());
    match (primary, report.filter(|report| report.fingerprint == fingerprint)) {
        (_, Some(report)) => match &report.problem {
            Some(problem) => is_false(reasons::DATABASES_FAILED, problem.clone()),
            None => is_true("the primary has the roles and databases of the spec"),
        },
        (Some((serial, _)), None) => is_false(
            reasons::RECONCILING,
            format!(
                "{} has not applied spec.roles and spec.databases yet; a new password takes about a minute",
                member_name(cluster, *serial)
            ),
        ),
        (None, None) => is_false(reasons::RECONCILING, "no primary answers".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use operator_core::conditions::find;
    use postgres_model::report::{DatabasesReport, InstanceReport};
    use serde_json::json;

    use super::*;
    use crate::{api::fixture::cluster, status::tests::status_with};

    /// Returns status and reason of the condition, and those of Ready, after a report of the primary.
    fn conditions(spec: &serde_json::Value, report: Option<DatabasesReport>) -> [(String, String); 2] {
        let cluster = cluster(spec);
        let report = InstanceReport {
            databases: report,
            ..InstanceReport::starting("db-1".into(), "p".into(), "0.1.0")
        };
        let status = status_with(&cluster, &[1], &BTreeMap::from([(1, report)]));
        [DATABASES_APPLIED, "Ready"].map(|type_| {
            let found = find(&status.conditions, type_).unwrap();
            (found.status.clone(), found.reason.clone())
        })
    }

    #[test]
    fn condition_is_what_the_primary_reports_about_this_spec() {
        let pair = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
        let (is_so, waits) = (pair("True", "AsSpecified"), pair("False", "Reconciling"));
        let empty = json!({"size": 1});
        assert_eq!(conditions(&empty, None), [is_so.clone(), is_so.clone()]);
        let spec = json!({"size": 1, "roles": [{"name": "a"}]});
        assert_eq!(conditions(&spec, None), [waits.clone(), waits.clone()]);
        let report = |fingerprint, problem: Option<&str>| {
            Some(DatabasesReport { fingerprint, problem: problem.map(str::to_owned) })
        };
        let fingerprint = cluster(&spec).spec.declared().fingerprint();
        assert_eq!(conditions(&spec, report(fingerprint + 1, None)), [waits.clone(), waits]);
        assert_eq!(conditions(&spec, report(fingerprint, None)), [is_so.clone(), is_so]);
        let failed = pair("False", "DatabasesFailed");
        assert_eq!(conditions(&spec, report(fingerprint, Some("role a: no"))), [failed.clone(), failed]);
    }
}
