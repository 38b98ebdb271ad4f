//! Determines which NamespacePlus owns a namespace. Pure functions.
//!
//! An owner reference cannot cross namespaces. Instead, an annotation of the Namespace names the
//! owner with its UID. A namespace without this annotation is never modified, unless an
//! administrator sets [`ADOPT_KEY`] to this NamespacePlus.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use crate::api::NamespacePlus;

/// Annotation of a Namespace that names its NamespacePlus: `<namespace>/<name>/<uid>`.
pub const OWNER_KEY: &str = "mygroup.my.domain/owner";
/// Annotation with which an administrator lets a NamespacePlus adopt a Namespace:
/// `<namespace>/<name>`.
pub const ADOPT_KEY: &str = "mygroup.my.domain/adopt-by";

/// Identity of a NamespacePlus in annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `<namespace>/<name>`.
    pub(crate) place: String,
    uid: String,
}

impl Identity {
    pub(crate) fn of(object: &NamespacePlus) -> Self {
        let place = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        Self { place, uid: object.uid().unwrap_or_default() }
    }

    /// Returns the value of the owner annotation.
    pub(crate) fn mark(&self) -> String {
        format!("{}/{}", self.place, self.uid)
    }
}

/// Relation of a namespace to a NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The owner annotation names this NamespacePlus.
    Ours,
    /// An administrator lets this NamespacePlus adopt it.
    Offered,
    /// Another owner, or none.
    Foreign(Foreign),
}

/// Owner of a namespace that is not owned by this NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// None: the namespace existed before, or was released.
    Stranger,
    /// Another NamespacePlus, with this namespace and name.
    Taken(String),
    /// A deleted NamespacePlus of the same name, whose finalizer was removed by force.
    Stale,
}

/// Determines the relation of a namespace to a NamespacePlus.
pub(crate) fn claim(me: &Identity, namespace: &Namespace) -> Claim {
    let annotation = |key| namespace.annotations().get(key).map(String::as_str);
    let mark = annotation(OWNER_KEY).unwrap_or_default();
    let holder = mark.rsplit_once('/').map_or(mark, |(place, _uid)| place);
    if mark == me.mark() {
        Claim::Ours
    } else if annotation(ADOPT_KEY) == Some(me.place.as_str()) {
        Claim::Offered
    } else if mark.is_empty() {
        Claim::Foreign(Foreign::Stranger)
    } else if holder == me.place {
        Claim::Foreign(Foreign::Stale)
    } else {
        Claim::Foreign(Foreign::Taken(holder.to_owned()))
    }
}

/// Returns the reason why no NamespacePlus may own a namespace of this name, if there is one.
pub(crate) fn protected(name: &str, manager_namespace: &str) -> Option<&'static str> {
    if name == manager_namespace {
        Some("it is the manager's own namespace")
    } else if name == "default" || name.starts_with("kube-") {
        Some("the namespaces default and kube-* belong to the cluster")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Identity {
        Identity { place: "teams/blue".into(), uid: "1".into() }
    }

    fn namespace(annotations: &[(&str, &str)]) -> Namespace {
        let mut namespace = Namespace::default();
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        namespace.metadata.annotations = Some(annotations.collect());
        namespace
    }

    #[test]
    fn only_a_mark_with_our_uid_makes_it_ours() {
        assert_eq!(claim(&me(), &namespace(&[(OWNER_KEY, "teams/blue/1")])), Claim::Ours);
        assert_eq!(claim(&me(), &namespace(&[(OWNER_KEY, "teams/blue/2")])), Claim::Foreign(Foreign::Stale));
        assert_eq!(
            claim(&me(), &namespace(&[(OWNER_KEY, "others/blue/1")])),
            Claim::Foreign(Foreign::Taken("others/blue".into()))
        );
        assert_eq!(claim(&me(), &namespace(&[])), Claim::Foreign(Foreign::Stranger));
        assert_eq!(claim(&me(), &namespace(&[(OWNER_KEY, "")])), Claim::Foreign(Foreign::Stranger));
    }

    #[test]
    fn an_administrators_word_goes_before_any_mark_but_only_for_whom_it_names() {
        for mark in ["", "teams/blue/2", "others/blue/1"] {
            let offered = namespace(&[(OWNER_KEY, mark), (ADOPT_KEY, "teams/blue")]);
            assert_eq!(claim(&me(), &offered), Claim::Offered);
        }
        let to_another = namespace(&[(ADOPT_KEY, "teams/blues")]);
        assert_eq!(claim(&me(), &to_another), Claim::Foreign(Foreign::Stranger));
    }

    #[test]
    fn the_clusters_and_the_managers_namespaces_are_protected() {
        for name in ["default", "kube-system", "kube-x", "ensemble-system"] {
            assert!(protected(name, "ensemble-system").is_some(), "{name}");
        }
        for name in ["defaults", "kubeless", "blue"] {
            assert!(protected(name, "ensemble-system").is_none(), "{name}");
        }
    }
}
