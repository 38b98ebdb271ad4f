//! The NamespacePlus controller: manages namespaces with their quota, RBAC, and policies for teams.
//!
//! The modules in the order in which a reconcile uses them:
//!
//! ```text
//! api             the API types and their validation
//! ownership       pure: which NamespacePlus owns a namespace, and which namespaces are protected
//! metadata        pure: labels and annotations of the namespace
//! namespace       creates, adopts, updates, releases, and deletes the namespace
//! build           pure: the desired objects in the namespace
//! defaulting      pure: API server defaults and canonical quantities
//! child           pure: updates an existing object to its desired state
//! contents        creates, updates, and deletes the objects in the namespace
//! hooks           HTTP calls to other systems on events of the namespace
//! status          pure: the conditions
//! condition_types types of the conditions
//! reasons         reasons of conditions and Events
//! error           errors of a reconcile
//! status_updater  writes the status and records Events
//! reconcile       the controller: permissions, settings, reconcile loop, cleanup
//! ```
//!
//! # Ownership
//! A namespaced object owns a cluster-scoped one, which an owner reference cannot express. The
//! annotation [`OWNER_KEY`] of the Namespace contains namespace, name, and UID of its
//! NamespacePlus. A Namespace without it is never modified, unless an administrator sets
//! [`ADOPT_KEY`]. The objects in the namespace carry the annotation [`MADE_FOR_KEY`] with the name
//! of the namespace: the owner of the namespace owns them too, also after a release and an
//! adoption.
//!
//! # Deletion
//! A finalizer releases or deletes the namespace. `Retain` removes the ownership annotations and
//! labels and leaves the rest. `Delete` deletes the namespace, also an adopted one, and waits until
//! it is gone. A NamespacePlus in a terminating namespace does not wait, because it would block the
//! deletion of that namespace.

mod api;
mod build;
mod child;
pub mod condition_types;
mod contents;
mod defaulting;
mod error;
mod hooks;
mod metadata;
mod namespace;
mod ownership;
pub mod reasons;
mod reconcile;
mod status;
mod status_updater;
#[cfg(test)]
mod testing;

pub use api::{
    Amount, Amounts, DeletionPolicy, Hook, HookEvent, HookMethod, HookState, HookStatus, Limit, Limits,
    NamedDisruptionBudget, NamedNetworkPolicy, NamedRoleBinding, NamespacePlus, NamespacePlusSpec,
    NamespacePlusStatus, SecretRef, Subject, SubjectKind, default_quota,
};
pub use build::{Invalid, LIMITS_NAME, QUOTA_NAME};
pub use contents::{Failure, MADE_FOR_KEY};
pub use error::Error;
pub use hooks::{CA_BUNDLE, HTTP_HOSTS};
pub use metadata::MANAGED_KEY;
pub use ownership::{ADOPT_KEY, OWNER_KEY};
pub use reconcile::{FINALIZER, GRANTABLE, NamespacePlusController};
