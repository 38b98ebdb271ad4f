//! What is said about a NamespacePlus. Pure.

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use operator_core::{
    conditions::{READY, Status, Verdict, settle},
    error::{chain, is_refusal},
    write::WriteError,
};

use crate::{
    api::{HookStatus, NamespacePlus, NamespacePlusStatus},
    claim::{ADOPT_KEY, Foreign, Identity},
    hooks::verdict,
    namespace::Standing,
    parts::{Trouble, Troubles},
    words::{self, ACCESS_READY, NAMESPACE_READY, POLICIES_READY, QUOTA_READY},
};

/// What a reconcile has seen and done.
pub(crate) struct Report {
    pub(crate) standing: Standing,
    /// What was wrong with the namespace itself.
    pub(crate) error: Option<WriteError>,
    /// What is wrong inside it.
    pub(crate) troubles: Troubles,
}

/// The status that follows, with this to be said of the calls to other systems.
pub(crate) fn status(
    object: &NamespacePlus,
    report: &Report,
    hooks: Vec<HookStatus>,
    now: Timestamp,
) -> NamespacePlusStatus {
    let before = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    let is_ours = matches!(report.standing, Standing::Ours(_) | Standing::Terminating(_));
    NamespacePlusStatus {
        observed_generation: Some(generation),
        namespace: is_ours.then(|| object.name_any()),
        conditions: settle(&before.conditions, &verdicts(object, report, &hooks), generation, now),
        hooks,
    }
}

/// All that is to be said, the summary last.
fn verdicts(object: &NamespacePlus, report: &Report, hooks: &[HookStatus]) -> Vec<Verdict> {
    let spec = &object.spec;
    let part = |type_, troubles: &[Trouble], fine: String| {
        if matches!(report.standing, Standing::Ours(_)) {
            part(type_, troubles, fine)
        } else {
            Verdict::is_false(type_, words::NAMESPACE_NOT_READY, format!("see {NAMESPACE_READY}"))
        }
    };
    let limited = format!("{} amounts are limited", spec.quota.len());
    let policies = format!(
        "{} NetworkPolicies and {} PodDisruptionBudgets are as declared",
        spec.network_policies.len(),
        spec.pod_disruption_budgets.len()
    );
    let access = format!("{} RoleBindings are as declared", spec.role_bindings.len());
    let needed = [
        namespace(object, report),
        part(QUOTA_READY, &report.troubles.quota, limited),
        part(POLICIES_READY, &report.troubles.policies, policies),
        part(ACCESS_READY, &report.troubles.access, access),
    ];
    let hooks = verdict(object, hooks);
    let ready = ready(&needed, &hooks);
    needed.into_iter().chain([hooks, ready]).collect()
}

fn namespace(object: &NamespacePlus, report: &Report) -> Verdict {
    let name = object.name_any();
    let no = |reason, message: String| Verdict::is_false(NAMESPACE_READY, reason, message);
    match (&report.standing, &report.error) {
        (Standing::Ours(_), None) => {
            Verdict::is_true(NAMESPACE_READY, words::ACTIVE, format!("namespace {name} is as declared"))
        }
        (Standing::Terminating(hold_up), _) => no(words::TERMINATING, terminating(object, hold_up)),
        (Standing::Foreign(foreign), _) => no(reason_of(foreign), not_ours(object, foreign)),
        (Standing::Refused(why), _) => {
            no(words::REFUSED, format!("namespace {name} is not for a NamespacePlus: {why}"))
        }
        (Standing::Ours(_) | Standing::Denied, Some(error)) => no(reason_of_write(error), chain(error)),
        (Standing::Denied, None) => no(words::FAILED, format!("namespace {name} is not there")),
    }
}

fn terminating(object: &NamespacePlus, hold_up: &str) -> String {
    let name = object.name_any();
    let then = if object.metadata.deletion_timestamp.is_some() {
        "with its NamespacePlus, which goes when it is gone"
    } else {
        "and will be made again when it is gone"
    };
    let held = if hold_up.is_empty() { String::new() } else { format!(": {hold_up}") };
    format!("namespace {name} is being deleted {then}{held}")
}

fn reason_of(foreign: &Foreign) -> &'static str {
    match foreign {
        Foreign::Taken(_) => words::TAKEN_BY,
        Foreign::Stranger | Foreign::Stale => words::NOT_OWNED,
    }
}

fn not_ours(object: &NamespacePlus, foreign: &Foreign) -> String {
    let (name, place) = (object.name_any(), Identity::of(object).place);
    let whose = match foreign {
        Foreign::Stranger => format!("namespace {name} is there and was not made by this NamespacePlus"),
        Foreign::Taken(holder) => format!("namespace {name} belongs to the NamespacePlus {holder}"),
        Foreign::Stale => format!("namespace {name} belongs to an earlier NamespacePlus {place}"),
    };
    format!(
        "{whose}; it is left alone. An administrator can hand it over: \
         kubectl annotate namespace {name} {ADOPT_KEY}={place}"
    )
}

fn part(type_: &'static str, troubles: &[Trouble], fine: String) -> Verdict {
    let Some(first) = troubles.first() else {
        return Verdict::is_true(type_, words::AS_DECLARED, fine);
    };
    let words: Vec<_> = troubles.iter().map(Trouble::words).collect();
    let mut message = words.join("; ");
    if type_ == ACCESS_READY && troubles.iter().any(Trouble::is_refusal) {
        message.push_str(
            "; the manager may give the ClusterRoles admin, edit and view: \
             for others an administrator gives its ServiceAccount the verb bind on the role",
        );
    }
    Verdict::is_false(type_, reason_of_trouble(first), message)
}

fn reason_of_trouble(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Invalid(_) => words::INVALID,
        Trouble::Write(error) => reason_of_write(error),
    }
}

fn reason_of_write(error: &WriteError) -> &'static str {
    match error {
        WriteError::NotOurs { .. } => words::NAME_TAKEN,
        WriteError::Api { source, .. } if is_refusal(source) => words::REFUSED,
        WriteError::Api { .. } => words::FAILED,
    }
}

/// The summary. Hooks do not count: the namespace is fit for use without them; but it is said how they fare.
fn ready(needed: &[Verdict], hooks: &Verdict) -> Verdict {
    let is_so = |verdict: &Verdict| verdict.status == Status::True;
    if let Some(amiss) = needed.iter().find(|verdict| !is_so(verdict)) {
        return Verdict::is_false(READY, amiss.reason, format!("{}: {}", amiss.type_, amiss.message));
    }
    let also = if is_so(hooks) { String::new() } else { format!("; {}", hooks.message) };
    Verdict::is_true(READY, words::AS_DECLARED, format!("the namespace and all in it are as declared{also}"))
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::{find, is_true};
    use serde_json::{Value, json};

    use super::*;
    use crate::{build::Invalid, namespace::Gained, testing::object, words::HOOKS_DELIVERED};

    fn report(standing: Standing) -> Report {
        Report { standing, error: None, troubles: Troubles::default() }
    }

    fn said(spec: Value, report: &Report) -> NamespacePlusStatus {
        status(&object(spec), report, Vec::new(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn all_is_said_when_all_is_well() {
        insta::assert_yaml_snapshot!(said(json!({}), &report(Standing::Ours(Gained::Made))));
    }

    #[test]
    fn a_hook_that_was_not_called_is_told_and_does_not_stand_in_the_way() {
        let hooks = json!({"hooks": [{"name": "chat", "on": ["Ready"], "url": "https://chat.example.com/"}]});
        let failed = json!({"name": "chat", "event": "Ready", "state": "Failed", "message": "given up"});
        let hooks_said = vec![serde_json::from_value(failed).unwrap()];
        let report = report(Standing::Ours(Gained::Before));
        let status = status(&object(hooks), &report, hooks_said, Timestamp::UNIX_EPOCH);
        let delivered = find(&status.conditions, HOOKS_DELIVERED).unwrap();
        assert_eq!((delivered.status.as_str(), delivered.reason.as_str()), ("False", "HookFailed"));
        assert!(is_true(&status.conditions, READY));
        assert!(
            find(&status.conditions, READY).unwrap().message.contains("chat, called for Ready: given up")
        );
    }

    #[test]
    fn a_namespace_of_another_is_told_with_the_way_out() {
        for (foreign, reason, says) in [
            (Foreign::Stranger, "NotOwned", "was not made by this NamespacePlus"),
            (Foreign::Stale, "NotOwned", "belongs to an earlier NamespacePlus teams/blue"),
            (Foreign::Taken("others/blue".into()), "TakenBy", "belongs to the NamespacePlus others/blue"),
        ] {
            let status = said(json!({}), &report(Standing::Foreign(foreign)));
            let told = find(&status.conditions, NAMESPACE_READY).unwrap();
            assert_eq!(told.reason, reason);
            assert!(told.message.contains(says), "{}", told.message);
            assert!(
                told.message
                    .ends_with("kubectl annotate namespace blue mygroup.my.domain/adopt-by=teams/blue")
            );
            assert_eq!(status.namespace, None);
            assert_eq!(find(&status.conditions, READY).unwrap().reason, reason);
            assert_eq!(find(&status.conditions, QUOTA_READY).unwrap().reason, "NamespaceNotReady");
        }
    }

    #[test]
    fn trouble_in_one_part_leaves_the_others_true() {
        let mut report = report(Standing::Ours(Gained::Before));
        let invalid = Invalid { kind: "ResourceQuota".into(), name: "q".into(), message: "no".into() };
        report.troubles.quota.push(Trouble::Invalid(invalid));
        let status = said(json!({}), &report);
        assert_eq!(find(&status.conditions, QUOTA_READY).unwrap().reason, "Invalid");
        assert!(is_true(&status.conditions, ACCESS_READY) && is_true(&status.conditions, POLICIES_READY));
        let ready = find(&status.conditions, READY).unwrap();
        assert!(
            ready.message.starts_with("QuotaReady: ResourceQuota q is declared wrongly"),
            "{}",
            ready.message
        );
    }

    #[test]
    fn what_holds_up_a_namespace_is_told() {
        let status = said(json!({}), &report(Standing::Terminating("Some resources are remaining".into())));
        let told = find(&status.conditions, NAMESPACE_READY).unwrap();
        assert_eq!(told.reason, "Terminating");
        assert!(told.message.contains("made again when it is gone: Some resources"), "{}", told.message);
    }
}
