//! The classes that Ingresses and volume claims may name, and the ones for those that name none.

use std::sync::Arc;

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
    tenancy::{Tenancy, TenancyError, seen},
};
use crate::{
    allowed::{Allowed, Classes, Compiled},
    api::v1beta2::Tenant,
};

/// How Ingresses named their class at first.
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// How volume claims named their class at first; Kubernetes still goes by it.
const CLAIM_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// An Ingress that keeps its class can be changed whatever the Tenant allows by now, and so be deleted too.
const INGRESS_CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?ingressClassName.orValue('') != oldObject.?spec.?ingressClassName.orValue('') || \
    object.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('') != \
    oldObject.metadata.?annotations[?'kubernetes.io/ingress.class'].orValue('')";
/// A claim can get its class later, once.
const CLAIM_CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?storageClassName.orValue('') != oldObject.?spec.?storageClassName.orValue('')";

/// The webhooks about classes. Nobody is left out: Kubernetes' own controllers make claims and Ingresses for the people
/// of a Tenant, a StatefulSet's for example.
pub(super) fn webhooks() -> Vec<Webhook> {
    let ingresses = || target::<Ingress>(CREATE | UPDATE);
    let claims = || target::<PersistentVolumeClaim>(CREATE | UPDATE);
    vec![
        Webhook::mutating::<Guard<Ingress>>("ingress-classes")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", INGRESS_CLASS_CHANGES)
            .build(),
        Webhook::validating::<Guard<Ingress>>("ingresses")
            .on(ingresses())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", INGRESS_CLASS_CHANGES)
            .build(),
        Webhook::mutating::<Guard<PersistentVolumeClaim>>("storage-classes")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLAIM_CLASS_CHANGES)
            .build(),
        Webhook::validating::<Guard<PersistentVolumeClaim>>("persistentvolumeclaims")
            .on(claims())
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLAIM_CLASS_CHANGES)
            .build(),
    ]
}

/// A class that an object names, and the field where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named<'o> {
    path: &'static str,
    class: &'o str,
}

/// A kind whose objects name a class.
trait Classed: Kind + serde::Serialize {
    /// The kind of the class.
    type Class: Kind;
    /// On a class: whether Kubernetes fills it in where none is named.
    const IS_DEFAULT: &'static str;
    /// Where a class is named.
    const PATH: &'static str;

    /// All that it names.
    fn named(&self) -> Vec<Named<'_>>;

    /// Has it name this class.
    fn name(&mut self, class: &str);

    /// What a Tenant allows.
    fn allowed(classes: &Classes) -> Option<&Allowed>;
}

impl Classed for Ingress {
    type Class = IngressClass;
    const IS_DEFAULT: &'static str = "ingressclass.kubernetes.io/is-default-class";
    const PATH: &'static str = "spec.ingressClassName";

    fn named(&self) -> Vec<Named<'_>> {
        let annotation = self.annotations().get(INGRESS_ANNOTATION);
        let annotation = annotation
            .map(|class| Named { path: "metadata.annotations[kubernetes.io/ingress.class]", class });
        let field = self.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
        field.map(|class| Named { path: Self::PATH, class }).into_iter().chain(annotation).collect()
    }

    fn name(&mut self, class: &str) {
        self.spec.get_or_insert_default().ingress_class_name = Some(class.to_owned());
    }

    fn allowed(classes: &Classes) -> Option<&Allowed> {
        classes.ingress.as_ref()
    }
}

impl Classed for PersistentVolumeClaim {
    type Class = StorageClass;
    const IS_DEFAULT: &'static str = "storageclass.kubernetes.io/is-default-class";
    const PATH: &'static str = "spec.storageClassName";

    fn named(&self) -> Vec<Named<'_>> {
        let annotation = self.annotations().get(CLAIM_ANNOTATION);
        let annotation = annotation.map(|class| Named {
            path: "metadata.annotations[volume.beta.kubernetes.io/storage-class]",
            class,
        });
        let field = self.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        field.map(|class| Named { path: Self::PATH, class }).into_iter().chain(annotation).collect()
    }

    fn name(&mut self, class: &str) {
        self.spec.get_or_insert_default().storage_class_name = Some(class.to_owned());
    }

    fn allowed(classes: &Classes) -> Option<&Allowed> {
        classes.storage.as_ref()
    }
}

/// Judges the classes of one kind of objects, and fills in the Tenant's own.
struct Guard<K: Classed> {
    tenancy: Tenancy,
    classes: Informer<K::Class>,
    compiled: Compiled,
}

impl<K: Classed> Guard<K> {
    fn new(caches: &mut Caches<'_>) -> Self {
        Self {
            tenancy: Tenancy::build(caches),
            classes: caches.informer(Selection::All),
            compiled: Compiled::default(),
        }
    }

    /// The Tenant that limits the classes of a request's object, and how.
    async fn limits(
        &self,
        request: &Request<K>,
    ) -> Result<Option<(Arc<Tenant>, Arc<Classes>)>, TenancyError> {
        let Some(tenant) = self.tenancy.of(request.namespace.as_deref().unwrap_or_default()).await? else {
            return Ok(None);
        };
        let classes = self.compiled.of(&tenant, self.tenancy.tenants.store());
        Ok(K::allowed(&classes).is_some().then_some((tenant, classes)))
    }

    /// Why a class is not allowed, if it is not.
    async fn refuse(&self, allowed: &Allowed, class: &str) -> Option<Refusal> {
        if allowed.has_name(class) {
            return None;
        }
        if !allowed.asks_for_labels() {
            return Some(Refusal::NotAllowed);
        }
        match seen(&self.classes, &ObjectKey::cluster(class), |_| true).await {
            Some(found) if allowed.has_labels(found.labels()) => None,
            Some(_) => Some(Refusal::NotAllowed),
            None => Some(Refusal::NotThere),
        }
    }

    /// Whether Kubernetes fills this class in where none is named.
    fn is_cluster_default(&self, class: &str) -> bool {
        let found = self.classes.store().get(&ObjectKey::cluster(class));
        found.is_some_and(|found| found.annotations().get(K::IS_DEFAULT).is_some_and(|value| value == "true"))
    }
}

/// Why a class is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The list does not have it.
    NotAllowed,
    /// It would have to be asked for its labels.
    NotThere,
}

impl<K: Classed> Validator for Guard<K> {
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
        let named = object.named();
        if named.is_empty() {
            return Ok(Verdict::deny(Denial::forbidden(nothing_named::<K>(&tenant, allowed))));
        }
        for Named { path, class } in named {
            if let Some(why) = self.refuse(allowed, class).await {
                let words = refusal::<K>(&tenant, allowed, path, class, why);
                return Ok(Verdict::deny(Denial::forbidden(words)));
            }
        }
        Ok(Verdict::allow())
    }
}

impl<K: Classed> Mutator for Guard<K> {
    type Object = K;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self::new(caches)
    }

    async fn mutate(&self, request: &Request<K>) -> Result<Mutation<K>, BoxError> {
        let Some(object) = &request.new else { return Ok(Mutation::keep()) };
        let Some((_, classes)) = self.limits(request).await? else { return Ok(Mutation::keep()) };
        let Some(default) = K::allowed(&classes).and_then(Allowed::default_class) else {
            return Ok(Mutation::keep());
        };
        let is_create = request.operation == Operation::Create;
        let named = object.named();
        if !is_to_be_filled_in::<K>(&named, |class| is_create && self.is_cluster_default(class)) {
            return Ok(Mutation::keep());
        }
        let mut object = object.clone();
        object.name(default);
        Ok(Mutation::change(object))
    }
}

/// Whether the Tenant's class is to be filled in: where none is named, or, in the field, the one that Kubernetes has
/// filled in by then.
fn is_to_be_filled_in<K: Classed>(named: &[Named<'_>], is_filled_in: impl Fn(&str) -> bool) -> bool {
    match named {
        [] => true,
        [Named { path, class }] => *path == K::PATH && is_filled_in(class),
        _ => false,
    }
}

fn nothing_named<K: Classed>(tenant: &Tenant, allowed: &Allowed) -> String {
    format!(
        "{}: name one of the {} that Tenant {} allows: {allowed}",
        K::PATH,
        plural::<K>(),
        tenant.name_any()
    )
}

fn refusal<K: Classed>(tenant: &Tenant, allowed: &Allowed, path: &str, class: &str, why: Refusal) -> String {
    let (name, classes) = (tenant.name_any(), plural::<K>());
    match why {
        Refusal::NotAllowed => {
            format!("{path}: {class:?} is none of the {classes} that Tenant {name} allows: {allowed}")
        }
        Refusal::NotThere => format!(
            "{path}: there is no {} {class:?} whose labels could be looked at; the {classes} that Tenant {name} allows: \
             {allowed}",
            K::Class::kind(&())
        ),
    }
}

fn plural<K: Classed>() -> String {
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

    fn allowed() -> Allowed {
        Allowed::of(&object(json!({ "allowed": ["fast", "slow"] })))
    }

    #[test]
    fn a_class_is_found_in_the_field_and_in_the_old_annotation() {
        let ingress: Ingress = object(json!({
            "metadata": { "annotations": { "kubernetes.io/ingress.class": "old" } }, "spec": { "ingressClassName": "new" },
        }));
        let classes: Vec<_> = ingress.named().into_iter().map(|named| named.class.to_owned()).collect();
        assert_eq!(classes, ["new", "old"]);
        let claim: PersistentVolumeClaim = object(json!({
            "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "old" } },
            "spec": { "storageClassName": "" },
        }));
        let classes: Vec<_> = claim.named().into_iter().map(|named| named.class.to_owned()).collect();
        assert_eq!(classes, ["", "old"]);
        assert_eq!(Ingress::default().named(), []);
    }

    #[test]
    fn the_tenants_class_comes_where_none_is_named_or_kubernetes_named_its_own() {
        let in_field = |class| Named { path: "spec.ingressClassName", class };
        let is_default = |class: &str| class == "cluster-default";
        assert!(is_to_be_filled_in::<Ingress>(&[], is_default));
        assert!(is_to_be_filled_in::<Ingress>(&[in_field("cluster-default")], is_default));
        assert!(!is_to_be_filled_in::<Ingress>(&[in_field("nginx")], is_default));
        let in_annotation =
            Named { path: "metadata.annotations[kubernetes.io/ingress.class]", class: "cluster-default" };
        assert!(!is_to_be_filled_in::<Ingress>(std::slice::from_ref(&in_annotation), is_default));
        assert!(!is_to_be_filled_in::<Ingress>(&[in_field("cluster-default"), in_annotation], is_default));
    }

    #[test]
    fn a_denial_says_where_what_and_what_to_do() {
        let says = |why| {
            refusal::<PersistentVolumeClaim>(&tenant(), &allowed(), "spec.storageClassName", "gold", why)
        };
        assert_eq!(
            says(Refusal::NotAllowed),
            "spec.storageClassName: \"gold\" is none of the StorageClasses that Tenant oil allows: fast, slow"
        );
        assert_eq!(
            says(Refusal::NotThere),
            "spec.storageClassName: there is no StorageClass \"gold\" whose labels could be looked at; \
             the StorageClasses that Tenant oil allows: fast, slow"
        );
        assert_eq!(
            nothing_named::<Ingress>(&tenant(), &allowed()),
            "spec.ingressClassName: name one of the IngressClasses that Tenant oil allows: fast, slow"
        );
    }
}
