//! NamespacePlus gives a team a namespace with its quota, rights and policies, and keeps all of it as declared.
//!
//! The way of a reconcile, in the order of the modules:
//!
//! ```text
//! api        what a person asks for and is told; what the schema refuses
//! claim      pure: whose namespace is it? which are nobody's?
//! metadata   pure: the labels, annotations and marks on it
//! namespace  the namespace itself: made, adopted, kept, released, deleted
//! build      pure: the objects inside it
//! normal     pure: how the API server writes them
//! child      pure: how one that is there is brought to what is declared
//! parts      the objects inside it: made, repaired, taken away
//! hooks      calls to other systems when something happens to it
//! status     pure: the conditions that follow from all that
//! words      the types and reasons of conditions and Events
//! error      what a reconcile can end in
//! reconcile  the controller: namespace, parts, calls; the end
//! tell       how status and Events are written
//! ```
//!
//! # Ownership
//! A namespaced object makes a cluster-wide one here, and an owner reference cannot say so. The Namespace carries
//! [`OWNER_KEY`] with namespace, name and UID of its NamespacePlus; one without it is never touched, unless an
//! administrator wrote [`ADOPT_KEY`] on it. What is inside carries only [`MADE_FOR_KEY`] with the namespace's name:
//! whoever owns the namespace owns that too, also after a release and an adoption.
//!
//! # The end
//! A finalizer lets go of the namespace (Retain: the marks go, all else stays, and nobody owns it then) or deletes
//! it and waits (Delete, adopted ones too). One that sits in a namespace which is itself being deleted does not
//! wait: it would hold that one up, perhaps for ever if it is its own.

mod api;
mod build;
mod child;
mod claim;
mod error;
mod hooks;
mod metadata;
mod namespace;
mod normal;
mod parts;
mod reconcile;
mod status;
mod tell;
#[cfg(test)]
mod testing;
pub mod words;

pub use api::{
    Amount, Amounts, DeletionPolicy, Hook, HookEvent, HookMethod, HookState, HookStatus, Limit, Limits,
    NamedDisruptionBudget, NamedNetworkPolicy, NamedRoleBinding, NamespacePlus, NamespacePlusSpec,
    NamespacePlusStatus, SecretRef, Subject, SubjectKind, default_quota,
};
pub use build::{Invalid, LIMITS_NAME, QUOTA_NAME};
pub use claim::{ADOPT_KEY, OWNER_KEY};
pub use error::Error;
pub use hooks::{CA_BUNDLE, HTTP_HOSTS};
pub use metadata::MANAGED_KEY;
pub use parts::{MADE_FOR_KEY, Trouble};
pub use reconcile::{FINALIZER, GRANTABLE, NamespacePlusController};
