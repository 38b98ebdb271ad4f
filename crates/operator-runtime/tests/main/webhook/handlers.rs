//! Webhooks for the tests. The data of a ConfigMap controls the response.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use operator_core::{
    Registration,
    admission::{
        BoxError, CREATE, Caches, DELETE, Denial, Metadata, Mutation, Mutator, Operation, Request, UPDATE,
        Validator, Verdict, Webhook, any_namespaced, target,
    },
    informer::{Informer, Selection},
};

/// Label of objects that the match conditions exclude.
const EXEMPT_NAMESPACES: &str = "tests/exempt";
/// Label that the mutating webhook sets on the objects that have it.
pub(super) const STAMP: &str = "tests/stamp";

fn value<'o>(object: &'o ConfigMap, key: &str) -> Option<&'o str> {
    object.data.as_ref()?.get(key).map(String::as_str)
}

/// Denies and warns as the data of a ConfigMap requests, denies deletion for the key `keep`, and
/// looks up the ConfigMap in `after`.
struct Guard {
    others: Informer<ConfigMap>,
}

impl Validator for Guard {
    type Object = ConfigMap;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { others: caches.informer(Selection::All) }
    }

    async fn validate(&self, request: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
        let object = match request.operation {
            Operation::Delete => request.old.as_ref(),
            _ => request.new.as_ref(),
        };
        let object = object.ok_or("there is no object")?;
        if request.operation == Operation::Delete {
            let kept =
                value(object, "keep").map(|why| Denial::forbidden(format!("deletion is not allowed: {why}")));
            return Ok(kept.map_or_else(Verdict::allow, Verdict::deny));
        }
        if let Some(message) = value(object, "deny") {
            return Ok(Verdict::deny(Denial::invalid(format!("data.deny: {message}; remove it"))));
        }
        let wanted = value(object, "after").map(|name| {
            let namespace = request.namespace.clone().unwrap_or_default();
            operator_core::ObjectKey::namespaced(&namespace, name)
        });
        if wanted.is_some_and(|key| self.others.store().get(&key).is_none()) {
            return Ok(Verdict::deny(Denial::conflict("data.after: ConfigMap does not exist")));
        }
        Ok(match value(object, "warn") {
            Some(warning) => Verdict::allow().warn(warning),
            None => Verdict::allow(),
        })
    }
}

/// Denies ephemeral containers with the name `evil`.
struct EphemeralContainers;

impl Validator for EphemeralContainers {
    type Object = Pod;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<Pod>) -> Result<Verdict, BoxError> {
        let spec = request.new.as_ref().and_then(|pod| pod.spec.as_ref());
        let mut containers = spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        if containers.any(|container| container.name == "evil") {
            return Ok(Verdict::deny(Denial::forbidden("spec.ephemeralContainers: evil is not allowed")));
        }
        Ok(Verdict::allow())
    }
}

/// Sets the value of the label [`STAMP`] to the resource.
struct Stamper;

impl Mutator for Stamper {
    type Object = Metadata;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn mutate(&self, request: &Request<Metadata>) -> Result<Mutation<Metadata>, BoxError> {
        let Some(mut new) = request.new.clone() else { return Ok(Mutation::keep()) };
        new.metadata.labels.get_or_insert_default().insert(STAMP.to_owned(), request.resource.clone());
        Ok(Mutation::change(new).warn(format!("{} was stamped", request.name)))
    }
}

fn webhooks() -> Vec<Webhook> {
    let stamped = LabelSelector {
        match_labels: Some([(STAMP.to_owned(), "wanted".to_owned())].into()),
        ..LabelSelector::default()
    };
    let exempt = format!(
        "request.operation == 'DELETE' || !has(object.metadata.labels) || !('{EXEMPT_NAMESPACES}' in object.metadata.labels)"
    );
    vec![
        Webhook::validating::<Guard>("guard")
            .on(target::<ConfigMap>(CREATE | UPDATE | DELETE))
            .match_condition("not-exempt", &exempt)
            .build(),
        Webhook::validating::<EphemeralContainers>("debuggers")
            .on(target::<Pod>(UPDATE).subresource("ephemeralcontainers"))
            .build(),
        Webhook::mutating::<Stamper>("stamper")
            .on(any_namespaced(CREATE | UPDATE))
            .with_labels(stamped)
            .reinvoked()
            .build(),
    ]
}

/// Controller that has only webhooks and a conversion.
pub(super) const REGISTRATION: Registration = Registration {
    crds: super::converted_kind::definitions,
    webhooks,
    conversions: super::converted_kind::conversions,
    ..Registration::new("webhooks", |_| unreachable!("the controller does not run"))
};
