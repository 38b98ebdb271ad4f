//! Changes of objects of the same kind that trigger a reconcile: a request by annotation, and a
//! dependency that becomes Ready.

use capsule::api::names::RECONCILE_ANNOTATION;
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    conditions::{READY, is_true},
    informer::Change,
};

use crate::{
    dependencies::{DependencyState, is_ready},
    resource::Replication,
};

/// Declares the watches.
pub(crate) fn build<K: Replication>(builder: &mut ControllerBuilder<'_, K>) {
    let objects = builder.objects().clone();
    let dependents = objects.store().index(|object: &K| dependency_keys(object));
    builder.watches(&objects, move |change| {
        let mut keys = Vec::new();
        if is_requested(change) {
            keys.push(change.key.clone());
        }
        if changes_readiness(change) {
            let dependents = dependents.get(&change.key);
            keys.extend(dependents.iter().map(|object| ObjectKey::of(object.as_ref())));
        }
        keys
    });
}

/// Returns the state of an object as a dependency.
pub(crate) fn dependency_state<K: Replication>(object: &K) -> DependencyState {
    let status = object.common_status();
    DependencyState {
        depends_on: dependency_names(object),
        is_ready: is_ready(&status.conditions, status.observed_generation, object.meta().generation),
    }
}

/// Returns the names of the dependencies of an object.
pub(crate) fn dependency_names<K: Replication>(object: &K) -> Vec<String> {
    object.fields().depends_on.iter().map(|dependency| dependency.name.clone()).collect()
}

fn dependency_keys<K: Replication>(object: &K) -> Vec<ObjectKey> {
    let namespace = object.namespace();
    dependency_names(object).iter().map(|name| K::key_within(namespace.as_deref(), name)).collect()
}

/// Returns whether the annotation was set or changed.
fn is_requested<K: Replication>(change: &Change<K>) -> bool {
    let request = |object: &std::sync::Arc<K>| object.annotations().get(RECONCILE_ANNOTATION).cloned();
    let new = change.new.as_ref().and_then(request);
    new.is_some() && new != change.old.as_ref().and_then(request)
}

fn changes_readiness<K: Replication>(change: &Change<K>) -> bool {
    let ready = |object: &std::sync::Arc<K>| {
        let status = object.common_status();
        (is_true(&status.conditions, READY), status.observed_generation)
    };
    change.old.as_ref().map(ready) != change.new.as_ref().map(ready)
}
