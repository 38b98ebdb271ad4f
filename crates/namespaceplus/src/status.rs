//! Computes the status of a NamespacePlus. Pure functions.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::{
    conditions::{NewCondition, READY, Status, set_conditions},
    error::{chain, is_denied},
    write::WriteError,
};

use crate::{
    api::{HookStatus, NamespacePlus, NamespacePlusStatus},
    condition_types::{ACCESS_READY, NAMESPACE_READY, POLICIES_READY, QUOTA_READY},
    contents::{Failure, Failures},
    hooks::hooks_delivered,
    namespace::NamespaceState,
    ownership::{ADOPT_KEY, Foreign, Identity},
    reasons,
};

/// Results of a reconcile.
pub(crate) struct Report {
    pub(crate) state: NamespaceState,
    /// Failure of the namespace itself.
    pub(crate) error: Option<WriteError>,
    /// Failures of the objects in the namespace.
    pub(crate) failures: Failures,
}

/// Computes the status with these results and hook statuses.
pub(crate) fn status(
    object: &NamespacePlus,
    report: &Report,
    hooks: Vec<HookStatus>,
    now: Timestamp,
) -> NamespacePlusStatus {
    let before = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    let is_ours = matches!(report.state, NamespaceState::Owned(_) | NamespaceState::Terminating(_));
    NamespacePlusStatus {
        observed_generation: Some(generation),
        namespace: is_ours.then(|| object.name_any()),
        conditions: set_conditions(
            &before.conditions,
            &new_conditions(object, report, &hooks),
            generation,
            now,
        ),
        hooks,
    }
}

/// Computes all conditions, the summary last.
fn new_conditions(object: &NamespacePlus, report: &Report, hooks: &[HookStatus]) -> Vec<NewCondition> {
    let spec = &object.spec;
    let part = |type_, failures: &[Failure], fine: String| {
        if matches!(report.state, NamespaceState::Owned(_)) {
            part(type_, failures, fine)
        } else {
            NewCondition::is_false(type_, reasons::NAMESPACE_NOT_READY, format!("see {NAMESPACE_READY}"))
        }
    };
    let limited = format!("the quota limits {} resources", spec.quota.len());
    let policies = format!(
        "{} NetworkPolicies and {} PodDisruptionBudgets are up to date",
        spec.network_policies.len(),
        spec.pod_disruption_budgets.len()
    );
    let access = format!("{} RoleBindings are up to date", spec.role_bindings.len());
    let needed = [
        namespace(object, report),
        part(QUOTA_READY, &report.failures.quota, limited),
        part(POLICIES_READY, &report.failures.policies, policies),
        part(ACCESS_READY, &report.failures.access, access),
    ];
    let hooks = hooks_delivered(object, hooks);
    let ready = ready(&needed, &hooks);
    needed.into_iter().chain([hooks, ready]).collect()
}

fn namespace(object: &NamespacePlus, report: &Report) -> NewCondition {
    let name = object.name_any();
    let no = |reason, message: String| NewCondition::is_false(NAMESPACE_READY, reason, message);
    match (&report.state, &report.error) {
        (NamespaceState::Owned(_), None) => NewCondition::is_true(
            NAMESPACE_READY,
            reasons::ACTIVE,
            format!("namespace {name} is active and up to date"),
        ),
        (NamespaceState::Terminating(deletion_blockers), _) => {
            no(reasons::TERMINATING, terminating(object, deletion_blockers))
        }
        (NamespaceState::Foreign(foreign), _) => no(reason_of(foreign), not_ours(object, foreign)),
        (NamespaceState::Refused(reason), _) => {
            no(reasons::DENIED, format!("namespace {name} is protected: {reason}"))
        }
        (NamespaceState::Owned(_) | NamespaceState::Denied, Some(error)) => {
            no(reason_of_write(error), chain(error))
        }
        (NamespaceState::Denied, None) => {
            no(reasons::WRITE_FAILED, format!("namespace {name} does not exist"))
        }
    }
}

fn terminating(object: &NamespacePlus, deletion_blockers: &str) -> String {
    let name = object.name_any();
    let then = if object.metadata.deletion_timestamp.is_some() {
        "with its NamespacePlus"
    } else {
        "and will be recreated"
    };
    let held = if deletion_blockers.is_empty() { String::new() } else { format!(": {deletion_blockers}") };
    format!("namespace {name} is being deleted {then}{held}")
}

fn reason_of(foreign: &Foreign) -> &'static str {
    match foreign {
        Foreign::OtherOwner(_) => reasons::OWNED_BY_ANOTHER,
        Foreign::Unowned | Foreign::DeletedOwner => reasons::NOT_OWNED,
    }
}

fn not_ours(object: &NamespacePlus, foreign: &Foreign) -> String {
    let (name, key) = (object.name_any(), Identity::of(object).key);
    let whose = match foreign {
        Foreign::Unowned => format!("namespace {name} exists and was not created by this NamespacePlus"),
        Foreign::OtherOwner(holder) => format!("namespace {name} belongs to the NamespacePlus {holder}"),
        Foreign::DeletedOwner => format!("namespace {name} belongs to a deleted NamespacePlus {key}"),
    };
    format!(
        "{whose}; it is not modified. To adopt it, an administrator runs: \
         kubectl annotate namespace {name} {ADOPT_KEY}={key}"
    )
}

fn part(type_: &'static str, failures: &[Failure], fine: String) -> NewCondition {
    let Some(first) = failures.first() else {
        return NewCondition::is_true(type_, reasons::AS_SPECIFIED, fine);
    };
    let messages: Vec<_> = failures.iter().map(Failure::describe).collect();
    let mut message = messages.join("; ");
    if type_ == ACCESS_READY && failures.iter().any(Failure::is_denied) {
        message.push_str(
            "; the manager may bind the ClusterRoles admin, edit and view; \
             for others, an administrator grants its ServiceAccount the verb bind on the role",
        );
    }
    NewCondition::is_false(type_, reason_of_trouble(first), message)
}

fn reason_of_trouble(failure: &Failure) -> &'static str {
    match failure {
        Failure::Invalid(_) => reasons::INVALID_SPEC,
        Failure::Write(error) => reason_of_write(error),
    }
}

fn reason_of_write(error: &WriteError) -> &'static str {
    match error {
        WriteError::NotOwned { .. } => reasons::NAME_CONFLICT,
        WriteError::Api { source, .. } if is_denied(source) => reasons::DENIED,
        WriteError::Api { .. } => reasons::WRITE_FAILED,
    }
}

/// Computes the summary. Hooks do not affect it, because the namespace is usable without them, but
/// its message includes them.
fn ready(needed: &[NewCondition], hooks: &NewCondition) -> NewCondition {
    let is_so = |condition: &NewCondition| condition.status == Status::True;
    if let Some(amiss) = needed.iter().find(|condition| !is_so(condition)) {
        return NewCondition::is_false(READY, amiss.reason, format!("{}: {}", amiss.type_, amiss.message));
    }
    let also = if is_so(hooks) { String::new() } else { format!("; {}", hooks.message) };
    NewCondition::is_true(
        READY,
        reasons::AS_SPECIFIED,
        format!("the namespace and all objects in it are up to date{also}"),
    )
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::{find, is_true};
    use serde_json::{Value, json};

    use super::*;
    use crate::{build::Invalid, condition_types::HOOKS_DELIVERED, namespace::Origin, testing::object};

    fn report(state: NamespaceState) -> Report {
        Report { state, error: None, failures: Failures::default() }
    }

    fn status_of(spec: Value, report: &Report) -> NamespacePlusStatus {
        status(&object(spec), report, Vec::new(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn reports_all_conditions_when_ready() {
        insta::assert_yaml_snapshot!(status_of(json!({}), &report(NamespaceState::Owned(Origin::Created))));
    }

    #[test]
    fn failed_hook_does_not_affect_ready() {
        let hooks = json!({"hooks": [{"name": "chat", "on": ["Ready"], "url": "https://chat.example.com/"}]});
        let failed = json!({"name": "chat", "event": "Ready", "state": "Failed", "message": "given up"});
        let hooks_said = vec![serde_json::from_value(failed).unwrap()];
        let report = report(NamespaceState::Owned(Origin::Existing));
        let status = status(&object(hooks), &report, hooks_said, Timestamp::UNIX_EPOCH);
        let delivered = find(&status.conditions, HOOKS_DELIVERED).unwrap();
        assert_eq!((delivered.status.as_str(), delivered.reason.as_str()), ("False", "HookFailed"));
        assert!(is_true(&status.conditions, READY));
        assert!(
            find(&status.conditions, READY).unwrap().message.contains("hook chat, event Ready: given up")
        );
    }

    #[test]
    fn reports_foreign_namespace_with_remedy() {
        for (foreign, reason, expected) in [
            (Foreign::Unowned, "NotOwned", "was not created by this NamespacePlus"),
            (Foreign::DeletedOwner, "NotOwned", "belongs to a deleted NamespacePlus teams/blue"),
            (
                Foreign::OtherOwner("others/blue".into()),
                "OwnedByAnother",
                "belongs to the NamespacePlus others/blue",
            ),
        ] {
            let status = status_of(json!({}), &report(NamespaceState::Foreign(foreign)));
            let condition = find(&status.conditions, NAMESPACE_READY).unwrap();
            assert_eq!(condition.reason, reason);
            assert!(condition.message.contains(expected), "{}", condition.message);
            assert!(
                condition
                    .message
                    .ends_with("kubectl annotate namespace blue mygroup.my.domain/adopt-by=teams/blue")
            );
            assert_eq!(status.namespace, None);
            assert_eq!(find(&status.conditions, READY).unwrap().reason, reason);
            assert_eq!(find(&status.conditions, QUOTA_READY).unwrap().reason, "NamespaceNotReady");
        }
    }

    #[test]
    fn failure_affects_only_its_condition() {
        let mut report = report(NamespaceState::Owned(Origin::Existing));
        let invalid = Invalid { kind: "ResourceQuota".into(), name: "q".into(), message: "no".into() };
        report.failures.quota.push(Failure::Invalid(invalid));
        let status = status_of(json!({}), &report);
        assert_eq!(find(&status.conditions, QUOTA_READY).unwrap().reason, "InvalidSpec");
        assert!(is_true(&status.conditions, ACCESS_READY) && is_true(&status.conditions, POLICIES_READY));
        let ready = find(&status.conditions, READY).unwrap();
        assert!(ready.message.starts_with("QuotaReady: ResourceQuota q is invalid"), "{}", ready.message);
    }

    #[test]
    fn reports_what_blocks_deletion_of_namespace() {
        let status =
            status_of(json!({}), &report(NamespaceState::Terminating("Some resources are remaining".into())));
        let condition = find(&status.conditions, NAMESPACE_READY).unwrap();
        assert_eq!(condition.reason, "Terminating");
        assert!(condition.message.contains("will be recreated: Some resources"), "{}", condition.message);
    }
}
