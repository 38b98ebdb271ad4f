//! Creates, updates, releases, and deletes the namespace.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::Patch};
use operator_core::{
    ObjectKey,
    kind::is_deleting,
    write::{WriteError, retry_on_conflict},
    writer::{DeletePrecondition, Writer},
};
use serde_json::Value;

use crate::{
    api::NamespacePlus,
    metadata,
    ownership::{Foreign, Identity, Ownership, ownership},
};

/// State of the namespace of a NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceState {
    /// Owned and active.
    Owned(Origin),
    /// Owned and terminating, with the message of what blocks the deletion.
    Terminating(String),
    /// Not owned. It is not modified.
    Foreign(Foreign),
    /// Protected, with the reason.
    Refused(String),
    /// Not owned yet: the API server denied the create or the adoption.
    Denied,
}

/// How the namespace became owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was owned before.
    Existing,
    /// It was just created.
    Created,
    /// It was just adopted.
    Adopted,
}

/// The next write to a namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Create it.
    Create(Box<Namespace>),
    /// Patch its metadata.
    Patch(Value, Origin),
    /// No write.
    Skip(NamespaceState),
}

/// Determines the next write. Pure.
pub(crate) fn next_action(object: &NamespacePlus, current: Option<&Namespace>) -> Action {
    let identity = Identity::of(object);
    let Some(current) = current else { return Action::Create(Box::new(metadata::new(object, &identity))) };
    let origin = match ownership(&identity, current) {
        Ownership::Foreign(foreign) => return Action::Skip(NamespaceState::Foreign(foreign)),
        Ownership::Owned => Origin::Existing,
        Ownership::Adoptable => Origin::Adopted,
    };
    if is_deleting(current) {
        return Action::Skip(NamespaceState::Terminating(deletion_blockers(current)));
    }
    match metadata::repair_patch(object, &identity, current) {
        Some(patch) => Action::Patch(patch, origin),
        None => Action::Skip(NamespaceState::Owned(origin)),
    }
}

/// Returns what blocks the deletion of a namespace, from the conditions of the namespace
/// controller.
pub(crate) fn deletion_blockers(namespace: &Namespace) -> String {
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let messages: Vec<_> = conditions
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message.clone())
        .collect();
    messages.join("; ")
}

/// The namespaces of the cluster. Others write to them too, so conflicts are retried with a live
/// read.
pub(crate) struct Namespaces {
    writer: Writer<Namespace>,
}

impl Namespaces {
    pub(crate) fn new(writer: Writer<Namespace>) -> Self {
        Self { writer }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Namespace>> {
        self.writer.get(&ObjectKey::cluster(name))
    }

    /// Creates or updates the namespace, if the NamespacePlus owns it or may adopt it.
    pub(crate) async fn reconcile(&self, object: &NamespacePlus) -> Result<NamespaceState, WriteError> {
        let name = object.name_any();
        let attempt = async |retries| {
            let current = self.read(&name, retries).await?;
            match next_action(object, current.as_deref()) {
                Action::Create(namespace) => {
                    self.writer.create(&ObjectKey::cluster(&name), &*namespace).await?;
                    Ok(NamespaceState::Owned(Origin::Created))
                }
                Action::Patch(patch, origin) => {
                    self.patch(&name, patch, "update").await.map(|()| NamespaceState::Owned(origin))
                }
                Action::Skip(state) => Ok(state),
            }
        };
        retry_on_conflict(attempt, WriteError::is_stale_cache).await
    }

    /// Returns the state of the namespace after a failed write.
    pub(crate) fn state(&self, object: &NamespacePlus) -> NamespaceState {
        match next_action(object, self.get(&object.name_any()).as_deref()) {
            Action::Skip(state) => state,
            Action::Patch(_, Origin::Existing) => NamespaceState::Owned(Origin::Existing),
            Action::Patch(..) | Action::Create(_) => NamespaceState::Denied,
        }
    }

    /// Removes the ownership labels and annotations. Returns whether there were any.
    pub(crate) async fn release(&self, identity: &Identity, name: &str) -> Result<bool, WriteError> {
        let attempt = async |retries| {
            let Some(current) = self.read_owned(identity, name, retries).await? else { return Ok(false) };
            match metadata::release_patch(&current) {
                Some(patch) => self.patch(name, patch, "release").await.map(|()| true),
                None => Ok(false),
            }
        };
        retry_on_conflict(attempt, WriteError::is_stale_cache).await
    }

    /// Deletes the namespace if it is owned. Returns it while it still exists.
    pub(crate) async fn delete(
        &self,
        identity: &Identity,
        name: &str,
    ) -> Result<Option<Arc<Namespace>>, WriteError> {
        let attempt = async |retries| {
            let Some(current) = self.read_owned(identity, name, retries).await? else { return Ok(None) };
            if is_deleting(current.as_ref()) {
                return Ok(Some(current));
            }
            self.writer.delete(&current, DeletePrecondition::ResourceVersion).await?;
            Ok(self.get(name))
        };
        retry_on_conflict(attempt, WriteError::is_stale_cache).await
    }

    /// Reads the namespace: from the cache on the first attempt, live after a conflict.
    async fn read(&self, name: &str, retries: u32) -> Result<Option<Arc<Namespace>>, WriteError> {
        match retries {
            0 => Ok(self.get(name)),
            _ => Ok(self.writer.read(&ObjectKey::cluster(name)).await?.map(Arc::new)),
        }
    }

    /// Reads the namespace as [`Namespaces::read`] and returns it if it is owned.
    ///
    /// The finalizer is removed when there is nothing to clean up, and nobody looks again. A cache
    /// can be older than the namespace, so a live read confirms that there is nothing.
    async fn read_owned(
        &self,
        identity: &Identity,
        name: &str,
        retries: u32,
    ) -> Result<Option<Arc<Namespace>>, WriteError> {
        let is_owned = |namespace: &Arc<Namespace>| ownership(identity, namespace) == Ownership::Owned;
        if let Some(current) = self.read(name, retries).await?.filter(is_owned) {
            return Ok(Some(current));
        }
        Ok(self.read(name, 1).await?.filter(is_owned))
    }

    async fn patch(&self, name: &str, patch: Value, action: &'static str) -> Result<(), WriteError> {
        self.writer.patch(&ObjectKey::cluster(name), &Patch::Merge(patch), action).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        future::{pending, ready},
        sync::Mutex,
    };

    use http::{Request, Response};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::{Client, client::Body};
    use operator_core::informer::{Informers, Selection};
    use serde_json::json;
    use tower::service_fn;

    use super::*;
    use crate::{ownership::ADOPT_KEY, testing::object};

    fn created() -> (NamespacePlus, Namespace) {
        let object = object(json!({}));
        let namespace = metadata::new(&object, &Identity::of(&object));
        (object, namespace)
    }

    #[test]
    fn creates_missing_namespace_and_then_does_nothing() {
        let (object, namespace) = created();
        assert_eq!(next_action(&object, None), Action::Create(Box::new(namespace.clone())));
        assert_eq!(
            next_action(&object, Some(&namespace)),
            Action::Skip(NamespaceState::Owned(Origin::Existing))
        );
    }

    #[test]
    fn never_writes_foreign_namespace() {
        let (object, _) = created();
        let stranger = Namespace::default();
        assert_eq!(
            next_action(&object, Some(&stranger)),
            Action::Skip(NamespaceState::Foreign(Foreign::Unowned))
        );
    }

    #[test]
    fn adopted_namespace_gets_owner_annotation() {
        let (object, namespace) = created();
        let mut offered = Namespace::default();
        offered.annotations_mut().insert(ADOPT_KEY.into(), "teams/blue".into());
        let Action::Patch(patch, Origin::Adopted) = next_action(&object, Some(&offered)) else {
            panic!("not adopted")
        };
        let owner = &namespace.annotations()[crate::ownership::OWNER_KEY];
        assert_eq!(patch["metadata"]["annotations"], json!({ crate::ownership::OWNER_KEY: owner }));
        assert_eq!(patch["metadata"]["labels"], json!({}), "the labels of an adopted namespace stay");
    }

    #[test]
    fn waits_for_terminating_namespace() {
        let (object, mut namespace) = created();
        namespace.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(
            next_action(&object, Some(&namespace)),
            Action::Skip(NamespaceState::Terminating(String::new()))
        );
    }

    /// Returns namespaces whose cache is older than `live`, and the requests that they make.
    fn with_old_cache(live: &Namespace) -> (Namespaces, Arc<Mutex<Vec<String>>>) {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (seen, body) = (Arc::clone(&requests), serde_json::to_vec(live).unwrap());
        let server = service_fn(move |request: Request<Body>| {
            seen.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            ready(Ok::<_, Infallible>(Response::new(Body::from(body.clone()))))
        });
        let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let informer = Informers::new(Client::new(silent, "default")).get::<Namespace>(Selection::All);
        (Namespaces::new(Writer::new(Client::new(server, "default"), informer)), requests)
    }

    #[tokio::test]
    async fn cleanup_does_not_trust_a_cache_without_the_namespace() {
        let (object, namespace) = created();
        let (identity, name) = (Identity::of(&object), namespace.name_any());
        let path = format!("/api/v1/namespaces/{name}");

        let (namespaces, requests) = with_old_cache(&namespace);
        namespaces.delete(&identity, &name).await.unwrap();
        assert_eq!(*requests.lock().unwrap(), [format!("GET {path}"), format!("DELETE {path}")]);

        let (namespaces, requests) = with_old_cache(&namespace);
        assert!(namespaces.release(&identity, &name).await.unwrap());
        assert_eq!(*requests.lock().unwrap(), [format!("GET {path}"), format!("PATCH {path}")]);
    }
}
