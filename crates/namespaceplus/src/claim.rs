//! Whose namespace is it? Pure.
//!
//! An owner reference cannot cross namespaces, so the owner stands in an annotation of the Namespace, with its UID.
//! A namespace that carries no such mark of ours is somebody else's and is not touched, unless an administrator
//! wrote our place into [`ADOPT_KEY`].

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use crate::api::NamespacePlus;

/// The annotation of a Namespace that names its NamespacePlus: `<namespace>/<name>/<uid>`.
pub const OWNER_KEY: &str = "mygroup.my.domain/owner";
/// The annotation with which an administrator hands a Namespace to a NamespacePlus: `<namespace>/<name>`.
pub const ADOPT_KEY: &str = "mygroup.my.domain/adopt-by";

/// A NamespacePlus, as marks name it.
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

    /// The mark's value.
    pub(crate) fn mark(&self) -> String {
        format!("{}/{}", self.place, self.uid)
    }
}

/// Whether a namespace is a NamespacePlus' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It carries our mark.
    Ours,
    /// An administrator hands it to us.
    Offered,
    /// It is somebody else's.
    Foreign(Foreign),
}

/// Whose namespace it is instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Nobody's that we know of: it was there before, or was released.
    Stranger,
    /// Another NamespacePlus', at this place.
    Taken(String),
    /// An earlier NamespacePlus' of our own place, which was removed without letting go of it.
    Stale,
}

/// Looks at a namespace with the eyes of a NamespacePlus.
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

/// Why no NamespacePlus may ever have a namespace of this name.
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
