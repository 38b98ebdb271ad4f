//! Defaults and validates the IngressClass of Ingresses and the StorageClass of
//! PersistentVolumeClaims.

use std::sync::Arc;

use capsule::{
    api::v1beta2::Tenant,
    class_filter::{ClassFilter, ClassFilterCache, ClassFilters},
};
use k8s_openapi::api::{
    core::v1::PersistentVolumeClaim,
    networking::v1::{Ingress, IngressClass},
    storage::v1::StorageClass,
};
use kube::{Resource, ResourceExt};
use operator_core::{
    ObjectKey,
    admission::{
        BoxError, CREATE, Caches, Denial, Mutation, Mutator, Operation, Request, UPDATE, Validator, Verdict,
        Webhook, target,
    },
    informer::{Informer, Selection},
    kind::Kind,
};

use super::{
    in_tenants,
    tenant_resolver::{ResolveError, TenantResolver, wait_for_cache},
};

/// Deprecated alternative to `spec.ingressClassName`.
const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Deprecated alternative to `spec.storageClassName`, which Kubernetes still supports.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Skips updates that keep the class, so that an Ingress whose class is no longer allowed can still
/// be changed and deleted.
const INGRESS_CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?ingressClassName.orValue('') != oldObject.?spec.?ingressClassName.orValue('') || \
    object.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('') != \
    oldObject.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('')";
/// Skips updates that keep the class. A claim without a class can get one later.
const CLAIM_CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?storageClassName.orValue('') != oldObject.?spec.?storageClassName.orValue('')";

/// Returns the webhooks. They exclude no users, because controllers of Kubernetes create objects on
/// behalf of tenant users, for example the claims of a StatefulSet.
pub(super) fn webhooks() -> Vec<Webhook> {
    let ingresses = || target::<Ingress>(CREATE | UPDATE);
    let claims = || target::<PersistentVolumeClaim>(CREATE | UPDATE);
    vec![
        Webhook::mutating::<ClassAdmission<Ingress>>("ingress-classes")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", INGRESS_CLASS_CHANGES)
            .build(),
        Webhook::validating::<ClassAdmission<Ingress>>("ingresses")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", INGRESS_CLASS_CHANGES)
            .build(),
        Webhook::mutating::<ClassAdmission<PersistentVolumeClaim>>("storage-classes")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLAIM_CLASS_CHANGES)
            .build(),
        Webhook::validating::<ClassAdmission<PersistentVolumeClaim>>("persistentvolumeclaims")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLAIM_CLASS_CHANGES)
            .build(),
    ]
}

/// A class that an object references, and the field of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClassReference<'o> {
    path: &'static str,
    class: &'o str,
}

/// A kind whose objects reference a class.
trait HasClass: Kind + serde::Serialize {
    /// The kind of the class.
    type Class: Kind;
    /// Annotation of the class that Kubernetes uses by default.
    const IS_DEFAULT_ANNOTATION: &'static str;
    /// Path of the field that references the class.
    const FIELD: &'static str;

    /// Returns the references in the field and in the deprecated annotation.
    fn class_references(&self) -> Vec<ClassReference<'_>>;

    /// Sets the field.
    fn set_class(&mut self, class: &str);

    /// Returns the classes that a Tenant allows, or `None` if it allows all.
    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter>;
}

impl HasClass for Ingress {
    type Class = IngressClass;
    const IS_DEFAULT_ANNOTATION: &'static str = "ingressclass.kubernetes.io/is-default-class";
    const FIELD: &'static str = "spec.ingressClassName";

    fn class_references(&self) -> Vec<ClassReference<'_>> {
        let annotation = self.annotations().get(INGRESS_CLASS_ANNOTATION);
        let annotation = annotation
            .map(|class| ClassReference { path: "metadata.annotations[kubernetes.io/ingress.class]", class });
        let field = self.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        field.map(|class| ClassReference { path: Self::FIELD, class }).into_iter().chain(annotation).collect()
    }

    fn set_class(&mut self, class: &str) {
        self.spec.get_or_insert_default().ingress_class_name = Some(class.to_owned());
    }

    fn allowed(classes: &ClassFilters) -> Option<&ClassFilter> {
        classes.ingress.as_ref()
    }
}

impl HasClass for PersistentVolumeClaim {
    type Class = StorageClass;
    const IS_DEFAULT_ANNOTATION: &'static str = "storageclass.kubernetes.io/is-default-class";
    const FIELD: &'static str = "spec.storageClassName";

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

/// Defaults and validates the class of one kind.
struct ClassAdmission<K: HasClass> {
    resolver: TenantResolver,
    classes: Informer<K::Class>,
    compiled: ClassFilterCache,
}

impl<K: HasClass> ClassAdmission<K> {
    fn new(caches: &mut Caches<'_>) -> Self {
        Self {
            resolver: TenantResolver::build(caches),
            classes: caches.informer(Selection::All),
            compiled: ClassFilterCache::default(),
        }
    }

    /// Returns the Tenant and its allowed classes, or `None` if there is no Tenant or it allows all
    /// classes.
    async fn limits(
        &self,
        request: &Request<K>,
    ) -> Result<Option<(Arc<Tenant>, Arc<ClassFilters>)>, ResolveError> {
        let Some(tenant) = self.resolver.resolve(request.namespace.as_deref().unwrap_or_default()).await?
        else {
            return Ok(None);
        };
        let classes = self.compiled.of(&tenant, self.resolver.tenants.store());
        Ok(K::allowed(&classes).is_some().then_some((tenant, classes)))
    }

    /// Returns why a class is not allowed, or `None` if it is allowed.
    async fn check_class(&self, allowed: &ClassFilter, class: &str) -> Option<ClassError> {
        if allowed.allows_name(class) {
            return None;
        }
        if !allowed.has_selector() {
            return Some(ClassError::NotAllowed);
        }
        match wait_for_cache(&self.classes, &ObjectKey::cluster(class), |_| true).await {
            Some(found) if allowed.allows_labels(found.labels()) => None,
            Some(_) => Some(ClassError::NotAllowed),
            None => Some(ClassError::NotFound),
        }
    }

    /// Returns whether Kubernetes uses this class by default.
    fn is_cluster_default(&self, class: &str) -> bool {
        let found = self.classes.store().get(&ObjectKey::cluster(class));
        found.is_some_and(|found| {
            found.annotations().get(K::IS_DEFAULT_ANNOTATION).is_some_and(|value| value == "true")
        })
    }
}

/// Reason why a class is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClassError {
    /// The list does not contain it, and the selector does not match it.
    NotAllowed,
    /// Its labels cannot be matched, because it does not exist.
    NotFound,
}

impl<K: HasClass> Validator for ClassAdmission<K> {
    type Object = K;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self::new(caches)
    }

    async fn validate(&self, request: &Request<K>) -> Result<Verdict, BoxError> {
        let Some(object) = &request.new else { return Ok(Verdict::allow()) };
        let limits = match self.limits(request).await {
            Ok(limits) => limits,
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let Some((tenant, classes)) = limits else { return Ok(Verdict::allow()) };
        let Some(allowed) = K::allowed(&classes) else { return Ok(Verdict::allow()) };
        let references = object.class_references();
        if references.is_empty() {
            return Ok(Verdict::deny(Denial::forbidden(missing_class_message::<K>(&tenant, allowed))));
        }
        for ClassReference { path, class } in references {
            if let Some(error) = self.check_class(allowed, class).await {
                let message = denied_class_message::<K>(&tenant, allowed, path, class, error);
                return Ok(Verdict::deny(Denial::forbidden(message)));
            }
        }
        Ok(Verdict::allow())
    }
}

impl<K: HasClass> Mutator for ClassAdmission<K> {
    type Object = K;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self::new(caches)
    }

    async fn mutate(&self, request: &Request<K>) -> Result<Mutation<K>, BoxError> {
        let Some(object) = &request.new else { return Ok(Mutation::keep()) };
        let Some((_, classes)) = self.limits(request).await? else { return Ok(Mutation::keep()) };
        let Some(default) = K::allowed(&classes).and_then(ClassFilter::default_class) else {
            return Ok(Mutation::keep());
        };
        let is_create = request.operation == Operation::Create;
        let references = object.class_references();
        if !needs_default::<K>(&references, |class| is_create && self.is_cluster_default(class)) {
            return Ok(Mutation::keep());
        }
        let mut object = object.clone();
        object.set_class(default);
        Ok(Mutation::change(object))
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

fn missing_class_message<K: HasClass>(tenant: &Tenant, allowed: &ClassFilter) -> String {
    format!(
        "{}: Tenant {} requires a class; allowed {}: {allowed}",
        K::FIELD,
        tenant.name_any(),
        plural::<K>()
    )
}

fn denied_class_message<K: HasClass>(
    tenant: &Tenant,
    allowed: &ClassFilter,
    path: &str,
    class: &str,
    error: ClassError,
) -> String {
    let (name, kind, classes) = (tenant.name_any(), K::Class::kind(&()), plural::<K>());
    let cause = match error {
        ClassError::NotAllowed => format!("is not allowed by Tenant {name}"),
        ClassError::NotFound => {
            format!("does not exist, so Tenant {name} cannot allow it by its labels")
        }
    };
    format!("{path}: {kind} {class:?} {cause}; allowed {classes}: {allowed}")
}

fn plural<K: HasClass>() -> String {
    format!("{}es", K::Class::kind(&()))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn tenant() -> Tenant {
        object(json!({ "metadata": { "name": "oil" }, "spec": {} }))
    }

    fn allowed() -> ClassFilter {
        ClassFilter::new(&object(json!({ "allowed": ["fast", "slow"] })))
    }

    #[test]
    fn finds_class_in_field_and_deprecated_annotation() {
        let ingress: Ingress = object(json!({
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
        assert_eq!(Ingress::default().class_references(), []);
    }

    #[test]
    fn replaces_missing_class_and_cluster_default() {
        let in_field = |class| ClassReference { path: "spec.ingressClassName", class };
        let is_default = |class: &str| class == "cluster-default";
        assert!(needs_default::<Ingress>(&[], is_default));
        assert!(needs_default::<Ingress>(&[in_field("cluster-default")], is_default));
        assert!(!needs_default::<Ingress>(&[in_field("nginx")], is_default));
        let in_annotation = ClassReference {
            path: "metadata.annotations[kubernetes.io/ingress.class]",
            class: "cluster-default",
        };
        assert!(!needs_default::<Ingress>(std::slice::from_ref(&in_annotation), is_default));
        assert!(!needs_default::<Ingress>(&[in_field("cluster-default"), in_annotation], is_default));
    }

    #[test]
    fn denial_contains_field_class_and_allowed_classes() {
        let message = |error| {
            let field = "spec.storageClassName";
            denied_class_message::<PersistentVolumeClaim>(&tenant(), &allowed(), field, "gold", error)
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
            missing_class_message::<Ingress>(&tenant(), &allowed()),
            "spec.ingressClassName: Tenant oil requires a class; allowed IngressClasses: fast, slow"
        );
    }
}
