//! The webhooks of the tests: they do what the objects say.

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

/// The label of what is to be left alone.
const EXEMPT: &str = "tests/exempt";
/// The label that is put onto what carries it.
pub(super) const STAMP: &str = "tests/stamp";

fn says<'o>(object: &'o ConfigMap, key: &str) -> Option<&'o str> {
    object.data.as_ref()?.get(key).map(String::as_str)
}

/// Denies and warns as a ConfigMap asks; lets nobody delete what says `keep`; knows of others by their names.
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
            let kept = says(object, "keep").map(|why| Denial::forbidden(format!("it is kept: {why}")));
            return Ok(kept.map_or_else(Verdict::allow, Verdict::deny));
        }
        if let Some(why) = says(object, "deny") {
            return Ok(Verdict::deny(Denial::invalid(format!("data.deny: {why}; take it out"))));
        }
        let wanted = says(object, "after").map(|name| {
            let namespace = request.namespace.clone().unwrap_or_default();
            operator_core::ObjectKey::namespaced(&namespace, name)
        });
        if wanted.is_some_and(|key| self.others.store().get(&key).is_none()) {
            return Ok(Verdict::deny(Denial::conflict("data.after: there is no such ConfigMap yet")));
        }
        Ok(match says(object, "warn") {
            Some(warning) => Verdict::allow().warn(warning),
            None => Verdict::allow(),
        })
    }
}

/// Lets no debugger in that is called `evil`.
struct Debuggers;

impl Validator for Debuggers {
    type Object = Pod;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<Pod>) -> Result<Verdict, BoxError> {
        let spec = request.new.as_ref().and_then(|pod| pod.spec.as_ref());
        let mut debuggers = spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
        if debuggers.any(|debugger| debugger.name == "evil") {
            return Ok(Verdict::deny(Denial::forbidden("spec.ephemeralContainers: evil is not let in")));
        }
        Ok(Verdict::allow())
    }
}

/// Fills in the stamp of whatever carries the label.
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
        "request.operation == 'DELETE' || !has(object.metadata.labels) || !('{EXEMPT}' in object.metadata.labels)"
    );
    vec![
        Webhook::validating::<Guard>("guard")
            .on(target::<ConfigMap>(CREATE | UPDATE | DELETE))
            .match_condition("not-exempt", &exempt)
            .build(),
        Webhook::validating::<Debuggers>("debuggers")
            .on(target::<Pod>(UPDATE).subresource("ephemeralcontainers"))
            .build(),
        Webhook::mutating::<Stamper>("stamper")
            .on(any_namespaced(CREATE | UPDATE))
            .with_labels(stamped)
            .reinvoked()
            .build(),
    ]
}

/// A controller with nothing but webhooks and a conversion.
pub(super) const REGISTRATION: Registration = Registration {
    name: "webhooks",
    companions: &[],
    rules: Vec::new,
    crds: super::sails::definitions,
    webhooks,
    policies: |_| Vec::new(),
    conversions: super::sails::conversions,
    gauges: || &[],
    settings: || &[],
    owned_finalizer: || None,
    leftovers: Vec::new,
    build: |_| unreachable!("nobody runs it"),
};
