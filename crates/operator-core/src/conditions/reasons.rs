//! Reasons of conditions and Events: one spelling for one state in all controllers.
//!
//! Reasons are API. Scripts and alerts compare them, so a reason never changes its spelling or its
//! meaning. Where Kubernetes has a reason for a state, as the ReplicaSet controller has
//! `FailedCreate`, that reason is used.
//!
//! A controller imports the constants it uses. [`CATALOG`] documents each of them; the reference
//! page of reasons is generated from it.

/// Documentation of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The reason as it appears in conditions and Events.
    pub name: &'static str,
    /// What the reason says about the object.
    pub meaning: &'static str,
    /// What you can do. Empty if there is nothing to do.
    pub action: &'static str,
}

/// Everything matches the spec.
pub const AS_SPECIFIED: &str = "AsSpecified";
/// The Tenant, the namespace, or the configuration matches the spec. The reason of Capsule's API.
pub const SUCCEEDED: &str = "Succeeded";
/// The namespace is owned and active, or the Tenant is not cordoned.
pub const ACTIVE: &str = "Active";
/// Every Pod could be created, deleted, adopted, or released.
pub const NO_FAILURE: &str = "NoFailure";
/// All hook calls that were due were accepted.
pub const DELIVERED: &str = "Delivered";
/// The spec has no hooks.
pub const NO_HOOKS: &str = "NoHooks";
/// Every field of the Tenant that is set is enforced.
pub const ENFORCED: &str = "Enforced";
/// The controller works on a new spec.
pub const RECONCILING: &str = "Reconciling";
/// The number of Pods is about to change.
pub const SCALING: &str = "Scaling";
/// A rollout is in progress.
pub const ROLLING_OUT: &str = "RollingOut";
/// Fewer Pods are ready than desired.
pub const PODS_NOT_READY: &str = "PodsNotReady";
/// All Pods are ready, but not yet for `minReadySeconds`.
pub const MIN_READY_SECONDS: &str = "MinReadySeconds";
/// A hook call is due or waits for a retry.
pub const HOOK_PENDING: &str = "HookPending";
/// An object of a deleted object with the same name still exists.
pub const AWAITING_CLEANUP: &str = "AwaitingCleanup";
/// The objects in the namespace are not reconciled, because the namespace is not ready.
pub const NAMESPACE_NOT_READY: &str = "NamespaceNotReady";
/// The object or the namespace is being deleted.
pub const TERMINATING: &str = "Terminating";
/// Objects or finalizers in the namespace delay its deletion.
pub const PENDING_UNMANAGED_CONTENT: &str = "PendingUnmanagedContent";
/// The Tenant is cordoned: its users can change nothing.
pub const CORDONED: &str = "Cordoned";
/// The CapsuleConfiguration is not the one that the manager uses.
pub const NOT_IN_EFFECT: &str = "NotInEffect";
/// Some fields of the Tenant have no effect in this version.
pub const NOT_ENFORCED: &str = "NotEnforced";
/// No progress is possible until the failure in the condition `Degraded` is resolved.
pub const BLOCKED: &str = "Blocked";
/// The Deployment could not create its Pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The Deployment exceeded its progress deadline.
pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// An object of the same name exists and has another owner.
pub const NAME_CONFLICT: &str = "NameConflict";
/// The namespace exists and no NamespacePlus owns it.
pub const NOT_OWNED: &str = "NotOwned";
/// Another NamespacePlus owns the namespace.
pub const OWNED_BY_ANOTHER: &str = "OwnedByAnother";
/// The name is protected, or the API server denied a write: a quota, an admission policy, or a
/// missing permission.
pub const DENIED: &str = "Denied";
/// The API server rejected an object that the spec describes.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// The object cannot own other objects, because it lacks a name or a UID.
pub const INVALID_OWNER: &str = "InvalidOwner";
/// A hook call failed permanently.
pub const HOOK_FAILED: &str = "HookFailed";
/// Something that the Tenant's spec describes could not be done. The reason of Capsule's API.
pub const FAILED: &str = "Failed";
/// A Pod could not be created. The reason of the ReplicaSet controller.
pub const FAILED_CREATE: &str = "FailedCreate";
/// An object could not be deleted. For Pods, the reason of the ReplicaSet controller.
pub const FAILED_DELETE: &str = "FailedDelete";
/// A Pod could not be adopted or released.
pub const FAILED_ADOPT: &str = "FailedAdopt";
/// A write to a child object failed. The controller retries.
pub const WRITE_FAILED: &str = "WriteFailed";
/// The API server did not list objects. The controller retries.
pub const LIST_FAILED: &str = "ListFailed";
/// The status could not be written. The controller retries.
pub const STATUS_UPDATE_FAILED: &str = "StatusUpdateFailed";
/// The finalizer could not be added or removed. The controller retries.
pub const FINALIZER_FAILED: &str = "FinalizerFailed";
/// Some of what the spec describes does not exist. The conditions say what.
pub const RECONCILE_FAILED: &str = "ReconcileFailed";
/// A reconcile took longer than `--reconcile-timeout`. The controller retries.
pub const RECONCILE_TIMED_OUT: &str = "ReconcileTimedOut";
/// A bug stopped the reconcile. The controller retries with backoff.
pub const RECONCILE_PANICKED: &str = "ReconcilePanicked";
/// An object that must always exist could not be created.
pub const DEFAULT_OBJECT_FAILED: &str = "DefaultObjectFailed";
/// A Pod was created. The reason of the ReplicaSet controller.
pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
/// A Pod was deleted. The reason of the ReplicaSet controller.
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
/// An object or the namespace was created.
pub const CREATED: &str = "Created";
/// An object was updated to match the spec.
pub const UPDATED: &str = "Updated";
/// An object was deleted because the spec no longer needs it.
pub const DELETED: &str = "Deleted";
/// The object is being deleted with its children.
pub const DELETING: &str = "Deleting";
/// The namespace was adopted.
pub const ADOPTED: &str = "Adopted";
/// The namespace was released.
pub const RELEASED: &str = "Released";
/// A request for a namespace of the Tenant was denied.
pub const NAMESPACE_DENIED: &str = "NamespaceDenied";

/// Every reason, grouped as on the reference page: the title of the group and its reasons.
pub const CATALOG: &[(&str, &[Reason])] = &[
    (
        "The object and its children match the spec",
        &[
            Reason { name: AS_SPECIFIED, meaning: "Everything matches the spec.", action: "" },
            Reason {
                name: SUCCEEDED,
                meaning: "The Tenant, the namespace, or the configuration matches the spec. The reason of Capsule's API.",
                action: "",
            },
            Reason {
                name: ACTIVE,
                meaning: "The namespace is owned and active, or the Tenant is not cordoned.",
                action: "",
            },
            Reason {
                name: NO_FAILURE,
                meaning: "Every Pod could be created, deleted, adopted, or released.",
                action: "",
            },
            Reason { name: DELIVERED, meaning: "All hook calls that were due were accepted.", action: "" },
            Reason { name: NO_HOOKS, meaning: "The spec has no hooks.", action: "" },
            Reason {
                name: ENFORCED,
                meaning: "Every field of the Tenant that is set is enforced.",
                action: "",
            },
        ],
    ),
    (
        "Work in progress",
        &[
            Reason { name: RECONCILING, meaning: "The controller works on a new spec.", action: "" },
            Reason { name: SCALING, meaning: "The number of Pods is about to change.", action: "" },
            Reason { name: ROLLING_OUT, meaning: "A rollout is in progress.", action: "" },
            Reason {
                name: PODS_NOT_READY,
                meaning: "Fewer Pods are ready than desired.",
                action: "Run `ensemblectl status` or `kubectl describe pod` to see what the Pods wait for.",
            },
            Reason {
                name: MIN_READY_SECONDS,
                meaning: "All Pods are ready, but not yet for `minReadySeconds`.",
                action: "",
            },
            Reason {
                name: HOOK_PENDING,
                meaning: "A hook call is due or waits for a retry.",
                action: "If it stays, check that the endpoint answers; `status.hooks` has its last error.",
            },
            Reason {
                name: AWAITING_CLEANUP,
                meaning: "An object of a deleted object with the same name still exists.",
                action: "Wait until the garbage collector has removed it. If it stays, look at its finalizers.",
            },
            Reason {
                name: NAMESPACE_NOT_READY,
                meaning: "The objects in the namespace are not reconciled, because the namespace is not ready.",
                action: "Resolve what the condition `NamespaceReady` reports.",
            },
            Reason {
                name: TERMINATING,
                meaning: "The object or the namespace is being deleted.",
                action: "If it stays, remove what the message lists.",
            },
            Reason {
                name: PENDING_UNMANAGED_CONTENT,
                meaning: "Objects or finalizers in the namespace delay its deletion.",
                action: "Remove what the message lists.",
            },
            Reason {
                name: CORDONED,
                meaning: "The Tenant is cordoned: its users can change nothing.",
                action: "Set `spec.cordoned` to `false` to end it.",
            },
            Reason {
                name: NOT_IN_EFFECT,
                meaning: "The CapsuleConfiguration is not the one that the manager uses.",
                action: "Edit the configuration that the message names.",
            },
            Reason {
                name: NOT_ENFORCED,
                meaning: "Some fields of the Tenant have no effect in this version.",
                action: "Remove the fields that the message lists, or enforce them by other means.",
            },
        ],
    ),
    (
        "Something is wrong",
        &[
            Reason {
                name: BLOCKED,
                meaning: "No progress is possible until the failure in the condition `Degraded` is resolved.",
                action: "Resolve what `Degraded` reports.",
            },
            Reason {
                name: REPLICA_FAILURE,
                meaning: "The Deployment could not create its Pods.",
                action: "The message has the cause: a quota, an admission policy, or an invalid template.",
            },
            Reason {
                name: PROGRESS_DEADLINE_EXCEEDED,
                meaning: "The Deployment exceeded its progress deadline.",
                action: "Look at its Pods with `kubectl describe pod`.",
            },
            Reason {
                name: NAME_CONFLICT,
                meaning: "An object of the same name exists and has another owner.",
                action: "Delete or rename one of the two.",
            },
            Reason {
                name: NOT_OWNED,
                meaning: "The namespace exists and no NamespacePlus owns it.",
                action: "Delete the namespace, or set the adoption annotation on it.",
            },
            Reason {
                name: OWNED_BY_ANOTHER,
                meaning: "Another NamespacePlus owns the namespace.",
                action: "Delete one of the two NamespacePluses, or use another name.",
            },
            Reason {
                name: DENIED,
                meaning: "The name is protected, or the API server denied a write: a quota, an admission policy, or a missing permission.",
                action: "The message has the API server's answer. Raise the quota, change the policy, or grant the permission.",
            },
            Reason {
                name: INVALID_SPEC,
                meaning: "The API server rejected an object that the spec describes.",
                action: "Correct the field that the message names.",
            },
            Reason {
                name: INVALID_OWNER,
                meaning: "The object cannot own other objects, because it lacks a name or a UID.",
                action: "Report it as a bug: the API server sets both.",
            },
            Reason {
                name: HOOK_FAILED,
                meaning: "A hook call failed permanently.",
                action: "The message has the answer of the endpoint. Change the spec, or annotate the object to call it again.",
            },
            Reason {
                name: FAILED,
                meaning: "Something that the Tenant's spec describes could not be done. The reason of Capsule's API.",
                action: "The message lists each failure and its remedy.",
            },
        ],
    ),
    (
        "Reconcile errors",
        &[
            Reason {
                name: FAILED_CREATE,
                meaning: "A Pod could not be created. The reason of the ReplicaSet controller.",
                action: "The message has the API server's answer and the remedy.",
            },
            Reason {
                name: FAILED_DELETE,
                meaning: "An object could not be deleted. For Pods, the reason of the ReplicaSet controller.",
                action: "The message has the API server's answer.",
            },
            Reason {
                name: FAILED_ADOPT,
                meaning: "A Pod could not be adopted or released.",
                action: "The message has the API server's answer.",
            },
            Reason {
                name: WRITE_FAILED,
                meaning: "A write to a child object failed. The controller retries.",
                action: "If it stays, the message has the API server's answer.",
            },
            Reason {
                name: LIST_FAILED,
                meaning: "The API server did not list objects. The controller retries.",
                action: "If it stays, check the API server.",
            },
            Reason {
                name: STATUS_UPDATE_FAILED,
                meaning: "The status could not be written. The controller retries.",
                action: "If it stays, the message has the API server's answer.",
            },
            Reason {
                name: FINALIZER_FAILED,
                meaning: "The finalizer could not be added or removed. The controller retries.",
                action: "If it stays, the message has the API server's answer.",
            },
            Reason {
                name: RECONCILE_FAILED,
                meaning: "Some of what the spec describes does not exist. The conditions say what.",
                action: "Resolve what the conditions report.",
            },
            Reason {
                name: RECONCILE_TIMED_OUT,
                meaning: "A reconcile took longer than `--reconcile-timeout`. The controller retries.",
                action: "If it stays, check the latency of the API server.",
            },
            Reason {
                name: RECONCILE_PANICKED,
                meaning: "A bug stopped the reconcile. The controller retries with backoff.",
                action: "Report it as a bug, with the log of the manager.",
            },
            Reason {
                name: DEFAULT_OBJECT_FAILED,
                meaning: "An object that must always exist could not be created.",
                action: "The message has the API server's answer.",
            },
        ],
    ),
    (
        "Events about normal operation",
        &[
            Reason {
                name: SUCCESSFUL_CREATE,
                meaning: "A Pod was created. The reason of the ReplicaSet controller.",
                action: "",
            },
            Reason {
                name: SUCCESSFUL_DELETE,
                meaning: "A Pod was deleted. The reason of the ReplicaSet controller.",
                action: "",
            },
            Reason { name: CREATED, meaning: "An object or the namespace was created.", action: "" },
            Reason { name: UPDATED, meaning: "An object was updated to match the spec.", action: "" },
            Reason {
                name: DELETED,
                meaning: "An object was deleted because the spec no longer needs it.",
                action: "",
            },
            Reason { name: DELETING, meaning: "The object is being deleted with its children.", action: "" },
            Reason { name: ADOPTED, meaning: "The namespace was adopted.", action: "" },
            Reason { name: RELEASED, meaning: "The namespace was released.", action: "" },
            Reason {
                name: NAMESPACE_DENIED,
                meaning: "A request for a namespace of the Tenant was denied.",
                action: "The message has the user, the namespace, and the rule.",
            },
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn catalog_has_every_reason_once() {
        let reasons: Vec<_> =
            CATALOG.iter().flat_map(|(_, reasons)| *reasons).map(|reason| reason.name).collect();
        let names: BTreeSet<_> = reasons.iter().copied().collect();
        assert_eq!(names.len(), reasons.len());
        let declared = include_str!("reasons.rs").lines().filter_map(|line| {
            line.strip_prefix("pub const ")?.split_once(": &str = \"")?.1.strip_suffix("\";")
        });
        assert_eq!(declared.collect::<BTreeSet<_>>(), names);
    }
}
