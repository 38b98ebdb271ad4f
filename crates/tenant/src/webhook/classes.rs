//! Classes of objects: defaults, and whether a Tenant allows them.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use capsule::class_filter::{ClassFilter, ClassFilters};
use k8s_openapi::api::{
    core::v1::PersistentVolumeClaim,
    networking::v1::IngressClass,
    resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate},
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use operator_core::{
    ObjectKey,
    admission::Caches,
    informer::{Informer, Selection},
    kind::Kind,
};

use super::tenant_resolver::wait_for_cache;
use crate::{
    policies::{
        Violation,
        devices::{self, DeviceClassReference},
        gateways::{Gateway, GatewayClass},
        ingresses::ReviewedIngress,
    },
    reasons::{
        FORBIDDEN_DEVICE_CLASS, FORBIDDEN_GATEWAY_CLASS, FORBIDDEN_INGRESS_CLASS, FORBIDDEN_STORAGE_CLASS,
        MISSING_DEVICE_CLASS, MISSING_GATEWAY_CLASS, MISSING_INGRESS_CLASS, MISSING_STORAGE_CLASS,
    },
};

/// Deprecated alternative to `spec.ingressClassName`.
const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Deprecated alternative to `spec.storageClassName`, which Kubernetes still supports.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// A class that an object references, and the field of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassReference<'o> {
    path: Cow<'static, str>,
    class: &'o str,
}

impl<'o> ClassReference<'o> {
    fn new(path: &'static str, class: &'o str) -> Self {
        Self { path: path.into(), class }
    }
}

impl<'o> From<DeviceClassReference<'o>> for ClassReference<'o> {
    fn from((path, class): DeviceClassReference<'o>) -> Self {
        Self { path: path.into(), class }
    }
}

/// A kind whose objects reference classes.
pub(super) trait HasClass: Kind {
    /// The kind of the class.
    type Class: Kind;
    /// The classes that the cache contains.
    const SELECTION: Selection;
    /// Path of the field that must reference a class. `None` if an object needs no class.
    const REQUIRED: Option<&'static str>;
    /// Whether a class must exist. Otherwise Kubernetes handles a missing one.
    const MUST_EXIST: bool;
    /// Reason of the denial of an object without class, or with a class that must exist and does not.
    const MISSING: &'static str;
    /// Reason of the denial of a class.
    const FORBIDDEN: &'static str;

    /// Returns the references in all fields and in the deprecated annotation.
    fn class_references(&self) -> Vec<ClassReference<'_>>;

    /// Returns the classes that a Tenant allows, or `None` if it allows all.
    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter>;
}

/// A kind whose objects can get the default class of their Tenant.
pub(super) trait SetClass: HasClass {
    /// Annotation of the class that Kubernetes uses by default.
    const IS_DEFAULT_ANNOTATION: Option<&'static str>;

    /// Sets the field [`REQUIRED`](HasClass::REQUIRED).
    fn set_class(&mut self, class: &str);
}

impl HasClass for ReviewedIngress {
    type Class = IngressClass;
    const SELECTION: Selection = Selection::All;
    const REQUIRED: Option<&'static str> = Some("spec.ingressClassName");
    const MUST_EXIST: bool = false;
    const MISSING: &'static str = MISSING_INGRESS_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_INGRESS_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let annotation = self.annotations().get(INGRESS_CLASS_ANNOTATION);
        let annotation = annotation
            .map(|class| ClassReference::new("metadata.annotations[kubernetes.io/ingress.class]", class));
        let field = self.spec.ingress_class_name.as_deref();
        let field = field.map(|class| ClassReference::new("spec.ingressClassName", class));
        field.into_iter().chain(annotation).collect()
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.ingress.as_ref()
    }
}

impl SetClass for ReviewedIngress {
    const IS_DEFAULT_ANNOTATION: Option<&'static str> = Some("ingressclass.kubernetes.io/is-default-class");

    fn set_class(&mut self, class: &str) {
        self.spec.ingress_class_name = Some(class.to_owned());
    }
}

impl HasClass for PersistentVolumeClaim {
    type Class = StorageClass;
    const SELECTION: Selection = Selection::All;
    const REQUIRED: Option<&'static str> = Some("spec.storageClassName");
    const MUST_EXIST: bool = false;
    const MISSING: &'static str = MISSING_STORAGE_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_STORAGE_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let annotation = self.annotations().get(STORAGE_CLASS_ANNOTATION);
        let annotation = annotation.map(|class| {
            ClassReference::new("metadata.annotations[volume.beta.kubernetes.io/storage-class]", class)
        });
        let field = self.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let field = field.map(|class| ClassReference::new("spec.storageClassName", class));
        field.into_iter().chain(annotation).collect()
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.storage.as_ref()
    }
}

impl SetClass for PersistentVolumeClaim {
    const IS_DEFAULT_ANNOTATION: Option<&'static str> = Some("storageclass.kubernetes.io/is-default-class");

    fn set_class(&mut self, class: &str) {
        self.spec.get_or_insert_default().storage_class_name = Some(class.to_owned());
    }
}

impl HasClass for Gateway {
    type Class = GatewayClass;
    const SELECTION: Selection = Selection::IfServed;
    const REQUIRED: Option<&'static str> = Some("spec.gatewayClassName");
    const MUST_EXIST: bool = true;
    const MISSING: &'static str = MISSING_GATEWAY_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_GATEWAY_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let class = Some(self.spec.gateway_class_name.as_str()).filter(|class| !class.is_empty());
        class.map(|class| ClassReference::new("spec.gatewayClassName", class)).into_iter().collect()
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.gateway.as_ref()
    }
}

impl SetClass for Gateway {
    const IS_DEFAULT_ANNOTATION: Option<&'static str> = None;

    fn set_class(&mut self, class: &str) {
        class.clone_into(&mut self.spec.gateway_class_name);
    }
}

impl HasClass for ResourceClaim {
    type Class = DeviceClass;
    const SELECTION: Selection = Selection::IfServed;
    const REQUIRED: Option<&'static str> = None;
    const MUST_EXIST: bool = true;
    const MISSING: &'static str = MISSING_DEVICE_CLASS;
    const FORBIDDEN: &'static str = FORBIDDEN_DEVICE_CLASS;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        devices::of_claim(self).into_iter().map(Into::into).collect()
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.device.as_ref()
    }
}

impl HasClass for ResourceClaimTemplate {
    type Class = DeviceClass;
    const SELECTION: Selection = ResourceClaim::SELECTION;
    const REQUIRED: Option<&'static str> = ResourceClaim::REQUIRED;
    const MUST_EXIST: bool = ResourceClaim::MUST_EXIST;
    const MISSING: &'static str = ResourceClaim::MISSING;
    const FORBIDDEN: &'static str = ResourceClaim::FORBIDDEN;

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        devices::of_template(self).into_iter().map(Into::into).collect()
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        ResourceClaim::allowed(classes)
    }
}

/// The existing classes of one kind.
pub(super) struct ClassCache<C: Kind>(Informer<C>);

impl<C: Kind> ClassCache<C> {
    pub(super) fn build(caches: &mut Caches<'_>, selection: Selection) -> Self {
        Self(caches.informer(selection))
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
            None => Some(ClassError::NoLabels),
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
    NoLabels,
    /// It does not exist.
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
        if let (true, Some(field)) = (references.is_empty(), K::REQUIRED) {
            return Err(Violation::new(K::MISSING, missing_class_message::<C>(tenant, allowed, field)));
        }
        for ClassReference { path, class } in references {
            if let Some(error) = self.reference_error::<K>(allowed, class).await {
                let reason = if error == ClassError::NotFound { K::MISSING } else { K::FORBIDDEN };
                let message = denied_class_message::<C>(tenant, allowed, &path, class, error);
                return Err(Violation::new(reason, message));
            }
        }
        Ok(())
    }

    async fn reference_error<K: HasClass<Class = C>>(
        &self,
        allowed: &ClassFilter,
        class: &str,
    ) -> Option<ClassError> {
        if K::MUST_EXIST && self.get(class).await.is_none() {
            return Some(ClassError::NotFound);
        }
        self.error(allowed, class).await
    }

    /// Returns the object with the default class of the Tenant, or `None` if it keeps its class.
    pub(super) fn with_default<K: SetClass<Class = C>>(
        &self,
        filters: &ClassFilters,
        object: &K,
        is_create: bool,
    ) -> Option<K> {
        let default = K::allowed(filters)?.default_class()?;
        let is_cluster_default = |class: &str| {
            is_create && K::IS_DEFAULT_ANNOTATION.is_some_and(|key| self.has_annotation(class, key))
        };
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
        [ClassReference { path, class }] => K::REQUIRED == Some(&**path) && is_cluster_default(class),
        _ => false,
    }
}

fn missing_class_message<C: Kind>(tenant: &str, allowed: &ClassFilter, field: &str) -> String {
    format!("{field}: Tenant {tenant} requires a class; allowed {}es: {allowed}", C::kind(&()))
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
        ClassError::NoLabels => {
            format!("does not exist, so Tenant {tenant} cannot allow it by its labels")
        }
        ClassError::NotFound => format!("does not exist, so Tenant {tenant} cannot allow it"),
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
        let in_field = |class| ClassReference::new("spec.ingressClassName", class);
        let is_default = |class: &str| class == "cluster-default";
        assert!(needs_default::<ReviewedIngress>(&[], is_default));
        assert!(needs_default::<ReviewedIngress>(&[in_field("cluster-default")], is_default));
        assert!(!needs_default::<ReviewedIngress>(&[in_field("nginx")], is_default));
        let in_annotation =
            ClassReference::new("metadata.annotations[kubernetes.io/ingress.class]", "cluster-default");
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
            message(ClassError::NoLabels),
            "spec.storageClassName: StorageClass \"gold\" does not exist, so Tenant oil cannot allow it by its labels; \
             allowed StorageClasses: fast, slow"
        );
        assert_eq!(
            missing_class_message::<IngressClass>("oil", &allowed(), "spec.ingressClassName"),
            "spec.ingressClassName: Tenant oil requires a class; allowed IngressClasses: fast, slow"
        );
    }
}
