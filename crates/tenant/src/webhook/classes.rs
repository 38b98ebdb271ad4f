//! Classes of objects: defaults, and whether a Tenant allows them.

use std::{collections::BTreeMap, sync::Arc};

use capsule::class_filter::{ClassFilter, ClassFilters};
use k8s_openapi::api::{
    core::v1::PersistentVolumeClaim, networking::v1::IngressClass, storage::v1::StorageClass,
};
use kube::{Resource, ResourceExt};
use operator_core::{
    ObjectKey,
    admission::Caches,
    informer::{Informer, Selection},
    kind::Kind,
};

use super::tenant_resolver::wait_for_cache;
use crate::{
    policies::{Violation, ingresses::ReviewedIngress},
    reasons::{
        FORBIDDEN_INGRESS_CLASS, FORBIDDEN_STORAGE_CLASS, MISSING_INGRESS_CLASS, MISSING_STORAGE_CLASS,
    },
};

/// Deprecated alternative to `spec.ingressClassName`.
const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Deprecated alternative to `spec.storageClassName`, which Kubernetes still supports.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// A class that an object references, and the field of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassReference<'o> {
    path: &'static str,
    class: &'o str,
}

/// A kind whose objects reference a class.
pub(super) trait HasClass: Kind {
    /// The kind of the class.
    type Class: Kind;
    /// Annotation of the class that Kubernetes uses by default.
    const IS_DEFAULT_ANNOTATION: &'static str;
    /// Path of the field that references the class.
    const FIELD: &'static str;
    /// Reason of the denial of an object without class.
    const MISSING: &'static str;
    /// Reason of the denial of a class.
    const FORBIDDEN: &'static str;

    /// Returns the references in the field and in the deprecated annotation.
    fn class_references(&self) -> Vec<ClassReference<'_>>;

    /// Sets the field.
    fn set_class(&mut self, class: &str);

    /// Returns the classes that a Tenant allows, or `None` if it allows all.
    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter>;
}

impl HasClass for ReviewedIngress {
    type Class = IngressClass;
    const IS_DEFAULT_ANNOTATION: &'static str = "ingressclass.kubernetes.io/is-default-class";
    const FIELD: &'static str = "spec.ingressClassName";
    const MISSING: &'static str = MISSING_INGRESS_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_INGRESS_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let annotation = self.annotations().get(INGRESS_CLASS_ANNOTATION);
        let annotation = annotation
            .map(|class| ClassReference { path: "metadata.annotations[kubernetes.io/ingress.class]", class });
        let field = self.spec.ingress_class_name.as_deref();
        field.map(|class| ClassReference { path: Self::FIELD, class }).into_iter().chain(annotation).collect()
    }

    fn set_class(&mut self, class: &str) {
        self.spec.ingress_class_name = Some(class.to_owned());
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.ingress.as_ref()
    }
}

impl HasClass for PersistentVolumeClaim {
    type Class = StorageClass;
    const IS_DEFAULT_ANNOTATION: &'static str = "storageclass.kubernetes.io/is-default-class";
    const FIELD: &'static str = "spec.storageClassName";
    const MISSING: &'static str = MISSING_STORAGE_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_STORAGE_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let annotation = self.annotations().get(STORAGE_CLASS_ANNOTATION);
        let annotation = annotation.map(|class| ClassReference {
            path: "metadata.annotations[volume.beta.kubernetes.io/storage-class]",
            class,
        });
        let field = self.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        field.map(|class| ClassReference { path: Self::FIELD, class }).into_iter().chain(annotation).collect()
    }

    fn set_class(&mut self, class: &str) {
        self.spec.get_or_insert_default().storage_class_name = Some(class.to_owned());
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.storage.as_ref()
    }
}

/// The existing classes of one kind.
pub(super) struct ClassCache<C: Kind>(Informer<C>);

impl<C: Kind> ClassCache<C> {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        Self(caches.informer(Selection::All))
    }

    /// Returns why a Tenant does not allow a class, or `None` if it does.
    pub(super) async fn error(&self, allowed: &ClassFilter, class: &str) -> Option<ClassError> {
        if allowed.allows_name(class) {
            return None;
        }
        if !allowed.has_selector() {
            return Some(ClassError::NotAllowed);
        }
        match self.get(class).await {
            Some(found) if allowed.allows_labels(found.labels()) => None,
            Some(_) => Some(ClassError::NotAllowed),
            None => Some(ClassError::NotFound),
        }
    }

    /// Returns a class. Waits shortly for a class that the cache does not contain.
    pub(super) async fn get(&self, class: &str) -> Option<Arc<C>> {
        wait_for_cache(&self.0, &ObjectKey::cluster(class), |_| true).await
    }

    /// Returns a class that is in the cache.
    pub(super) fn cached(&self, class: &str) -> Option<Arc<C>> {
        self.0.store().get(&ObjectKey::cluster(class))
    }
}

/// Reason why a class is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClassError {
    /// The list does not contain it, and the selector does not match it.
    NotAllowed,
    /// Its labels cannot be matched, because it does not exist.
    NotFound,
}

impl<C: Kind> ClassCache<C> {
    /// Checks the class of an object, unless an update keeps it: an object whose class is no longer
    /// allowed can still be changed and deleted.
    pub(super) async fn check<K: HasClass<Class = C>>(
        &self,
        tenant: &str,
        filters: &ClassFilters,
        old: Option<&K>,
        new: &K,
    ) -> Result<(), Violation> {
        let Some(allowed) = K::allowed(filters) else { return Ok(()) };
        let references = new.class_references();
        if old.is_some_and(|old| old.class_references() == references) {
            return Ok(());
        }
        if references.is_empty() {
            return Err(Violation::new(K::MISSING, missing_class_message::<K>(tenant, allowed)));
        }
        for ClassReference { path, class } in references {
            if let Some(error) = self.error(allowed, class).await {
                let message = denied_class_message::<C>(tenant, allowed, path, class, error);
                return Err(Violation::new(K::FORBIDDEN, message));
            }
        }
        Ok(())
    }

    /// Returns the object with the default class of the Tenant, or `None` if it keeps its class.
    pub(super) fn with_default<K: HasClass<Class = C>>(
        &self,
        filters: &ClassFilters,
        object: &K,
        is_create: bool,
    ) -> Option<K> {
        let default = K::allowed(filters)?.default_class()?;
        let is_cluster_default =
            |class: &str| is_create && self.has_annotation(class, K::IS_DEFAULT_ANNOTATION);
        needs_default::<K>(&object.class_references(), is_cluster_default).then(|| {
            let mut object = object.clone();
            object.set_class(default);
            object
        })
    }

    fn has_annotation(&self, class: &str, annotation: &str) -> bool {
        let value = |annotations: &BTreeMap<String, String>| annotations.get(annotation).cloned();
        self.cached(class).is_some_and(|found| value(found.annotations()).as_deref() == Some("true"))
    }
}

/// Returns whether the default class of the Tenant applies: the object references no class, or only
/// the default class of the cluster, which Kubernetes sets before the webhook.
fn needs_default<K: HasClass>(
    references: &[ClassReference<'_>],
    is_cluster_default: impl Fn(&str) -> bool,
) -> bool {
    match references {
        [] => true,
        [ClassReference { path, class }] => *path == K::FIELD && is_cluster_default(class),
        _ => false,
    }
}

fn missing_class_message<K: HasClass>(tenant: &str, allowed: &ClassFilter) -> String {
    format!("{}: Tenant {tenant} requires a class; allowed {}es: {allowed}", K::FIELD, K::Class::kind(&()))
}

/// Returns the message for a class that a Tenant does not allow.
pub(super) fn denied_class_message<C: Kind>(
    tenant: &str,
    allowed: &ClassFilter,
    path: &str,
    class: &str,
    error: ClassError,
) -> String {
    let kind = C::kind(&());
    let cause = match error {
        ClassError::NotAllowed => format!("is not allowed by Tenant {tenant}"),
        ClassError::NotFound => {
            format!("does not exist, so Tenant {tenant} cannot allow it by its labels")
        }
    };
    format!("{path}: {kind} {class:?} {cause}; allowed {kind}es: {allowed}")
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn allowed() -> ClassFilter {
        ClassFilter::new(&object(json!({ "allowed": ["fast", "slow"] })))
    }

    #[test]
    fn finds_class_in_field_and_deprecated_annotation() {
        let ingress: ReviewedIngress = object(json!({
            "metadata": { "annotations": { "kubernetes.io/ingress.class": "old" } }, "spec": { "ingressClassName": "new" },
        }));
        let classes: Vec<_> =
            ingress.class_references().into_iter().map(|reference| reference.class.to_owned()).collect();
        assert_eq!(classes, ["new", "old"]);
        let claim: PersistentVolumeClaim = object(json!({
            "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "old" } },
            "spec": { "storageClassName": "" },
        }));
        let classes: Vec<_> =
            claim.class_references().into_iter().map(|reference| reference.class.to_owned()).collect();
        assert_eq!(classes, ["", "old"]);
        assert_eq!(ReviewedIngress::default().class_references(), []);
    }

    #[test]
    fn replaces_missing_class_and_cluster_default() {
        let in_field = |class| ClassReference { path: "spec.ingressClassName", class };
        let is_default = |class: &str| class == "cluster-default";
        assert!(needs_default::<ReviewedIngress>(&[], is_default));
        assert!(needs_default::<ReviewedIngress>(&[in_field("cluster-default")], is_default));
        assert!(!needs_default::<ReviewedIngress>(&[in_field("nginx")], is_default));
        let in_annotation = ClassReference {
            path: "metadata.annotations[kubernetes.io/ingress.class]",
            class: "cluster-default",
        };
        assert!(!needs_default::<ReviewedIngress>(std::slice::from_ref(&in_annotation), is_default));
        assert!(!needs_default::<ReviewedIngress>(&[in_field("cluster-default"), in_annotation], is_default));
    }

    #[test]
    fn denial_contains_field_class_and_allowed_classes() {
        let message = |error| {
            let field = "spec.storageClassName";
            denied_class_message::<StorageClass>("oil", &allowed(), field, "gold", error)
        };
        assert_eq!(
            message(ClassError::NotAllowed),
            "spec.storageClassName: StorageClass \"gold\" is not allowed by Tenant oil; allowed StorageClasses: fast, slow"
        );
        assert_eq!(
            message(ClassError::NotFound),
            "spec.storageClassName: StorageClass \"gold\" does not exist, so Tenant oil cannot allow it by its labels; \
             allowed StorageClasses: fast, slow"
        );
        assert_eq!(
            missing_class_message::<ReviewedIngress>("oil", &allowed()),
            "spec.ingressClassName: Tenant oil requires a class; allowed IngressClasses: fast, slow"
        );
    }
}
