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
    pub(crate) key: String,
    uid: String,
}

impl Identity {
    pub(crate) fn of(object: &NamespacePlus) -> Self {
        let key = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        Self { key, uid: object.uid().unwrap_or_default() }
    }

    /// Returns the value of the owner annotation.
    pub(crate) fn owner_annotation(&self) -> String {
        format!("{}/{}", self.key, self.uid)
    }
}

/// Relation of a namespace to a NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The owner annotation names this NamespacePlus.
    Owned,
    /// An administrator lets this NamespacePlus adopt it.
    Adoptable,
    /// Another owner, or none.
    Foreign(Foreign),
}

/// Owner of a namespace that is not owned by this NamespacePlus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// None: the namespace existed before, or was released.
    Unowned,
    /// Another NamespacePlus, with this namespace and name.
    OtherOwner(String),
    /// A deleted NamespacePlus of the same name, whose finalizer was removed by force.
    DeletedOwner,
}

/// Determines the relation of a namespace to a NamespacePlus.
pub(crate) fn ownership(identity: &Identity, namespace: &Namespace) -> Ownership {
    let annotation = |key| namespace.annotations().get(key).map(String::as_str);
    let owner = annotation(OWNER_KEY).unwrap_or_default();
    let holder = owner.rsplit_once('/').map_or(owner, |(key, _uid)| key);
    if owner == identity.owner_annotation() {
        Ownership::Owned
    } else if annotation(ADOPT_KEY) == Some(identity.key.as_str()) {
        Ownership::Adoptable
    } else if owner.is_empty() {
        Ownership::Foreign(Foreign::Unowned)
    } else if holder == identity.key {
        Ownership::Foreign(Foreign::DeletedOwner)
    } else {
        Ownership::Foreign(Foreign::OtherOwner(holder.to_owned()))
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

    fn identity() -> Identity {
        Identity { key: "teams/blue".into(), uid: "1".into() }
    }

    fn namespace(annotations: &[(&str, &str)]) -> Namespace {
        let mut namespace = Namespace::default();
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        namespace.metadata.annotations = Some(annotations.collect());
        namespace
    }

    #[test]
    fn owner_annotation_must_match_uid() {
        assert_eq!(ownership(&identity(), &namespace(&[(OWNER_KEY, "teams/blue/1")])), Ownership::Owned);
        assert_eq!(
            ownership(&identity(), &namespace(&[(OWNER_KEY, "teams/blue/2")])),
            Ownership::Foreign(Foreign::DeletedOwner)
        );
        assert_eq!(
            ownership(&identity(), &namespace(&[(OWNER_KEY, "others/blue/1")])),
            Ownership::Foreign(Foreign::OtherOwner("others/blue".into()))
        );
        assert_eq!(ownership(&identity(), &namespace(&[])), Ownership::Foreign(Foreign::Unowned));
        assert_eq!(
            ownership(&identity(), &namespace(&[(OWNER_KEY, "")])),
            Ownership::Foreign(Foreign::Unowned)
        );
    }

    #[test]
    fn adoption_annotation_overrides_owner_annotation() {
        for owner_annotation in ["", "teams/blue/2", "others/blue/1"] {
            let offered = namespace(&[(OWNER_KEY, owner_annotation), (ADOPT_KEY, "teams/blue")]);
            assert_eq!(ownership(&identity(), &offered), Ownership::Adoptable);
        }
        let to_another = namespace(&[(ADOPT_KEY, "teams/blues")]);
        assert_eq!(ownership(&identity(), &to_another), Ownership::Foreign(Foreign::Unowned));
    }

    #[test]
    fn system_and_manager_namespaces_are_protected() {
        for name in ["default", "kube-system", "kube-x", "ensemble-system"] {
            assert!(protected(name, "ensemble-system").is_some(), "{name}");
        }
        for name in ["defaults", "kubeless", "blue"] {
            assert!(protected(name, "ensemble-system").is_none(), "{name}");
        }
    }
}
