//! What PersistentVolumeClaims tell about their sizes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus},
    apimachinery::pkg::api::resource::Quantity,
};

use crate::decide::ClaimSize;

/// Most bytes of the message of a claim that are reported.
const MAX_NOTE: usize = 256;
/// Conditions of a claim that cannot grow.
const ERRORS: [&str; 2] = ["ControllerResizeError", "NodeResizeError"];

/// Returns the sizes of a claim.
pub(crate) fn size(claim: &PersistentVolumeClaim) -> ClaimSize {
    let storage = |sizes: Option<&BTreeMap<String, Quantity>>| sizes?.get("storage")?.try_into().ok();
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let status = claim.status.as_ref();
    ClaimSize {
        request: storage(resources.and_then(|resources| resources.requests.as_ref())),
        capacity: storage(status.and_then(|status| status.capacity.as_ref())),
        is_bound: status.is_some_and(|status| status.phase.as_deref() == Some("Bound")),
        note: status.and_then(note),
    }
}

/// Returns what a claim tells about its growth: an error, or what it waits for.
fn note(status: &PersistentVolumeClaimStatus) -> Option<String> {
    let find = |type_: &str| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
    };
    let error = |type_: &str| {
        let text = find(type_)?.message.clone().unwrap_or_default();
        let end = text.floor_char_boundary(MAX_NOTE);
        Some(format!("{type_}: {}", text.get(..end).unwrap_or_default()))
    };
    let pending =
        || find("FileSystemResizePending").map(|_| "the kubelet resizes the file system".to_owned());
    ERRORS.into_iter().find_map(error).or_else(pending)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> ClaimSize {
        size(
            &serde_json::from_value(json!({
                "spec": {"resources": {"requests": {"storage": "2Gi"}}},
                "status": status,
            }))
            .unwrap(),
        )
    }

    fn condition(type_: &str, message: &str) -> Value {
        json!({"type": type_, "status": "True", "message": message})
    }

    #[test]
    fn sizes_of_a_claim_are_read() {
        let bound = of(json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}));
        assert!(bound.is_bound && bound.grows() && bound.note.is_none());
        let pending = of(json!({"phase": "Pending"}));
        assert!(!pending.is_bound && !pending.grows());
        let full = of(json!({"phase": "Bound", "capacity": {"storage": "2048Mi"}}));
        assert!(!full.grows());
        assert_eq!(size(&PersistentVolumeClaim::default()), ClaimSize::default());
    }

    #[test]
    fn error_of_a_claim_comes_before_what_it_waits_for() {
        let waits = condition("FileSystemResizePending", "");
        let note = of(json!({"conditions": [waits]})).note;
        assert_eq!(note.as_deref(), Some("the kubelet resizes the file system"));
        let failed = condition("ControllerResizeError", &"ä".repeat(MAX_NOTE));
        let note = of(json!({"conditions": [waits, failed]})).note.unwrap();
        assert!(note.starts_with("ControllerResizeError: ää") && note.len() < MAX_NOTE + 30, "{note}");
        let over = json!({"type": "NodeResizeError", "status": "False"});
        assert_eq!(of(json!({"conditions": [over]})).note, None);
    }
}
