//! Status of a TenantResource or GlobalTenantResource. Pure.

use capsule::api::v1beta2::{ProcessedItem, ServiceAccountReference};
use k8s_openapi::jiff::Timestamp;
use operator_core::conditions::{NewCondition, READY, Status as ConditionStatus, find, set_conditions};

use crate::{
    condition_types::CORDONED,
    reasons::{self, ACTIVE, FAILED, RECONCILING, SUCCEEDED},
    resource::{Replication, Status},
};

/// Longest message of a condition in bytes.
const MAX_MESSAGE: usize = 2048;

/// What the condition Ready reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// What it reported before.
    Unchanged,
    /// Work on a new spec has begun.
    Reconciling,
    /// Everything matches the spec.
    Succeeded,
    /// Something does not, with the reason.
    Failed(String),
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Who acted before.
    Unchanged,
    /// A ServiceAccount, or the manager outside of the cluster.
    Acting(Option<ServiceAccountReference>),
}

/// Result of a reconcile. Fields without a value stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) ready: Ready,
    pub(crate) items: Option<Vec<ProcessedItem>>,
    pub(crate) account: Account,
    pub(crate) tenants: Option<Vec<String>>,
}

impl Report {
    pub(crate) fn new(ready: Ready) -> Self {
        Self { ready, items: None, account: Account::Unchanged, tenants: None }
    }
}

/// Returns the status that follows from a report.
pub(crate) fn status<K: Replication>(object: &K, report: &Report, now: Timestamp) -> K::Status {
    let before = object.common_status();
    let generation = object.meta().generation;
    // The generation is observed when its result is known.
    let is_result = !matches!(report.ready, Ready::Reconciling) && !is_progress(&before, report, generation);
    let observed_generation = if is_result { generation } else { before.observed_generation };
    let cordoned = if object.fields().cordoned {
        NewCondition::is_true(CORDONED, reasons::CORDONED, "is cordoned")
    } else {
        NewCondition::is_false(CORDONED, ACTIVE, "not cordoned")
    };
    let ready = ready(&before, &report.ready);
    let conditions: Vec<_> = ready.into_iter().chain([cordoned]).collect();
    let kept = find(&before.conditions, READY).filter(|_| report.ready == Ready::Unchanged).cloned();
    let mut all = set_conditions(&before.conditions, &conditions, generation.unwrap_or_default(), now);
    all.splice(0..0, kept);
    K::to_status(Status {
        observed_generation,
        selected_tenants: report.tenants.clone().unwrap_or(before.selected_tenants),
        service_account: match &report.account {
            Account::Unchanged => before.service_account,
            Account::Acting(account) => account.clone(),
        },
        processed_items: report.items.clone().unwrap_or(before.processed_items),
        conditions: all,
    })
}

/// Returns whether a report only announces items of a spec that was observed before.
fn is_progress(before: &Status, report: &Report, generation: Option<i64>) -> bool {
    report.ready == Ready::Unchanged && report.items.is_some() && before.observed_generation != generation
}

fn ready(before: &Status, ready: &Ready) -> Option<NewCondition> {
    match ready {
        Ready::Unchanged if find(&before.conditions, READY).is_some() => None,
        Ready::Unchanged | Ready::Reconciling => Some(NewCondition {
            type_: READY,
            status: ConditionStatus::Unknown,
            reason: RECONCILING,
            message: "processing".to_owned(),
        }),
        Ready::Succeeded => Some(NewCondition::is_true(READY, SUCCEEDED, "reconciled")),
        Ready::Failed(message) => {
            let mut message = message.clone();
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            Some(NewCondition::is_false(READY, FAILED, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::{TenantResource, TenantResourceStatus};
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn object(spec: Value) -> TenantResource {
        let mut spec = spec;
        spec["resources"] = json!([]);
        let metadata = json!({ "name": "a", "namespace": "b", "generation": 3 });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn after(object: &mut TenantResource, report: &Report) -> TenantResourceStatus {
        let next = status(object, report, NOW);
        object.status = Some(next.clone());
        next
    }

    fn conditions(status: &TenantResourceStatus) -> Vec<String> {
        let text = |one: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            format!("{}={} {} {}", one.type_, one.status, one.reason, one.message)
        };
        status.conditions.iter().map(text).collect()
    }

    #[test]
    fn conditions_have_the_reasons_of_capsule() {
        let mut object = object(json!({}));
        let reconciling = after(&mut object, &Report::new(Ready::Reconciling));
        assert_eq!(
            conditions(&reconciling),
            ["Ready=Unknown Reconciling processing", "Cordoned=False Active not cordoned"]
        );
        assert_eq!(reconciling.observed_generation, None);
        let items = vec![ProcessedItem::default()];
        let done = Report { items: Some(items), ..Report::new(Ready::Succeeded) };
        let done = after(&mut object, &done);
        assert_eq!(
            conditions(&done),
            ["Ready=True Succeeded reconciled", "Cordoned=False Active not cordoned"]
        );
        assert_eq!((done.observed_generation, done.size), (Some(3), 1));
        assert_eq!(after(&mut object, &Report::new(Ready::Unchanged)), done);
        let failed = after(&mut object, &Report::new(Ready::Failed("why".to_owned())));
        assert_eq!(conditions(&failed)[0], "Ready=False Failed why");
        assert_eq!(failed.size, 1, "the items stay");
    }

    #[test]
    fn cordoned_object_keeps_its_readiness() {
        let mut object = object(json!({ "cordoned": true }));
        let cordoned = after(&mut object, &Report::new(Ready::Unchanged));
        assert_eq!(
            conditions(&cordoned),
            ["Ready=Unknown Reconciling processing", "Cordoned=True Cordoned is cordoned"]
        );
        assert_eq!(cordoned.observed_generation, Some(3));
        after(&mut object, &Report::new(Ready::Succeeded));
        let again = after(&mut object, &Report::new(Ready::Unchanged));
        assert_eq!(conditions(&again)[0], "Ready=True Succeeded reconciled");
    }

    #[test]
    fn announcing_items_does_not_observe_a_new_generation() {
        let mut object = object(json!({}));
        let announced =
            Report { items: Some(vec![ProcessedItem::default()]), ..Report::new(Ready::Unchanged) };
        assert_eq!(after(&mut object, &announced).observed_generation, None);
    }
}
