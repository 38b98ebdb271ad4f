//! Creates, updates, releases, and deletes the namespace.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::Patch};
use operator_core::{
    ObjectKey,
    kind::is_deleting,
    write::{WriteError, retry_on_conflict},
    writer::{Unless, Writer},
};
use serde_json::Value;

use crate::{
    api::NamespacePlus,
    metadata,
    ownership::{Claim, Foreign, Identity, claim},
};

/// State of the namespace of a NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Owned and active.
    Ours(Gained),
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
pub(crate) enum Gained {
    /// It was owned before.
    Before,
    /// It was just created.
    Made,
    /// It was just adopted.
    Adopted,
}

/// The next write to a namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Create it.
    Create(Box<Namespace>),
    /// Patch its metadata.
    Patch(Value, Gained),
    /// No write.
    Stay(Standing),
}

/// Determines the next write. Pure.
pub(crate) fn step(object: &NamespacePlus, seen: Option<&Namespace>) -> Step {
    let me = Identity::of(object);
    let Some(seen) = seen else { return Step::Create(Box::new(metadata::new(object, &me))) };
    let gained = match claim(&me, seen) {
        Claim::Foreign(foreign) => return Step::Stay(Standing::Foreign(foreign)),
        Claim::Ours => Gained::Before,
        Claim::Offered => Gained::Adopted,
    };
    if is_deleting(seen) {
        return Step::Stay(Standing::Terminating(hold_up(seen)));
    }
    match metadata::repair(object, &me, seen) {
        Some(patch) => Step::Patch(patch, gained),
        None => Step::Stay(Standing::Ours(gained)),
    }
}

/// Returns what blocks the deletion of a namespace, from the conditions of the namespace
/// controller.
pub(crate) fn hold_up(namespace: &Namespace) -> String {
    let conditions = namespace.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let told: Vec<_> = conditions
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message.clone())
        .collect();
    told.join("; ")
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
    pub(crate) async fn keep(&self, object: &NamespacePlus) -> Result<Standing, WriteError> {
        let name = object.name_any();
        let attempt = async |round| {
            let seen = self.look(&name, round).await?;
            match step(object, seen.as_deref()) {
                Step::Create(namespace) => {
                    self.writer.create(&ObjectKey::cluster(&name), &*namespace).await?;
                    Ok(Standing::Ours(Gained::Made))
                }
                Step::Patch(patch, gained) => {
                    self.patch(&name, patch, "update").await.map(|()| Standing::Ours(gained))
                }
                Step::Stay(standing) => Ok(standing),
            }
        };
        retry_on_conflict(attempt, WriteError::shows_stale_cache).await
    }

    /// Returns the state of the namespace after a failed write.
    pub(crate) fn standing(&self, object: &NamespacePlus) -> Standing {
        match step(object, self.get(&object.name_any()).as_deref()) {
            Step::Stay(standing) => standing,
            Step::Patch(_, Gained::Before) => Standing::Ours(Gained::Before),
            Step::Patch(..) | Step::Create(_) => Standing::Denied,
        }
    }

    /// Removes the ownership labels and annotations. Returns whether there were any.
    pub(crate) async fn release(&self, me: &Identity, name: &str) -> Result<bool, WriteError> {
        let attempt = async |round| {
            let Some(seen) = self.look(name, round).await? else { return Ok(false) };
            if claim(me, &seen) != Claim::Ours {
                return Ok(false);
            }
            match metadata::release(&seen) {
                Some(patch) => self.patch(name, patch, "release").await.map(|()| true),
                None => Ok(false),
            }
        };
        retry_on_conflict(attempt, WriteError::shows_stale_cache).await
    }

    /// Deletes the namespace if it is owned. Returns it while it still exists.
    pub(crate) async fn delete(
        &self,
        me: &Identity,
        name: &str,
    ) -> Result<Option<Arc<Namespace>>, WriteError> {
        let attempt = async |round| {
            let Some(seen) = self.look(name, round).await? else { return Ok(None) };
            if claim(me, &seen) != Claim::Ours {
                return Ok(None);
            }
            if is_deleting(seen.as_ref()) {
                return Ok(Some(seen));
            }
            self.writer.delete(&seen, Unless::Changed).await?;
            Ok(self.get(name))
        };
        retry_on_conflict(attempt, WriteError::shows_stale_cache).await
    }

    /// Reads the namespace: from the cache on the first attempt, live after a conflict.
    async fn look(&self, name: &str, round: u32) -> Result<Option<Arc<Namespace>>, WriteError> {
        match round {
            0 => Ok(self.get(name)),
            _ => Ok(self.writer.read(&ObjectKey::cluster(name)).await?.map(Arc::new)),
        }
    }

    async fn patch(&self, name: &str, patch: Value, action: &'static str) -> Result<(), WriteError> {
        self.writer.patch(&ObjectKey::cluster(name), &Patch::Merge(patch), action).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::{ownership::ADOPT_KEY, testing::object};

    fn made() -> (NamespacePlus, Namespace) {
        let object = object(json!({}));
        let namespace = metadata::new(&object, &Identity::of(&object));
        (object, namespace)
    }

    #[test]
    fn a_namespace_that_is_not_there_is_made_and_then_left_alone() {
        let (object, namespace) = made();
        assert_eq!(step(&object, None), Step::Create(Box::new(namespace.clone())));
        assert_eq!(step(&object, Some(&namespace)), Step::Stay(Standing::Ours(Gained::Before)));
    }

    #[test]
    fn a_strangers_namespace_is_never_written_to() {
        let (object, _) = made();
        let stranger = Namespace::default();
        assert_eq!(step(&object, Some(&stranger)), Step::Stay(Standing::Foreign(Foreign::Stranger)));
    }

    #[test]
    fn a_namespace_that_is_handed_over_gets_our_mark() {
        let (object, namespace) = made();
        let mut offered = Namespace::default();
        offered.annotations_mut().insert(ADOPT_KEY.into(), "teams/blue".into());
        let Step::Patch(patch, Gained::Adopted) = step(&object, Some(&offered)) else {
            panic!("not adopted")
        };
        let mark = &namespace.annotations()[crate::ownership::OWNER_KEY];
        assert_eq!(patch["metadata"]["annotations"], json!({ crate::ownership::OWNER_KEY: mark }));
        assert_eq!(patch["metadata"]["labels"], json!({}), "the labels of an adopted namespace stay");
    }

    #[test]
    fn a_namespace_on_its_way_out_is_waited_for() {
        let (object, mut namespace) = made();
        namespace.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(step(&object, Some(&namespace)), Step::Stay(Standing::Terminating(String::new())));
    }
}
