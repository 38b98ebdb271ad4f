//! Workloads: changes of objects of each kind during which faults are injected.

pub mod memcached;
pub mod namespaceplus;
pub mod podset;
pub mod postgres;
pub mod replication;
pub mod tenant;

use std::{sync::LazyLock, time::Duration};

use serde_json::{Value, json};

use crate::{
    kinds::{
        GLOBAL_TENANT_RESOURCE, Kind, MEMCACHED, NAMESPACE, NAMESPACE_PLUS, PERSISTENT_VOLUME_CLAIM, POD_SET,
        POSTGRES_CLUSTER, TENANT, TENANT_RESOURCE,
    },
    observer::{Id, State},
};

/// Namespace of all namespaced objects.
pub const HOME: &str = "faults";

/// An action of a user or another controller.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates an object.
    Create(Value),
    /// Creates a namespace of a Tenant.
    Join {
        /// The Tenant.
        tenant: String,
        /// The namespace.
        namespace: String,
    },
    /// Changes an object by a merge patch.
    Change(ObjectRef, Value),
    /// Deletes an object.
    Delete(ObjectRef),
    /// Waits for goals.
    Until(Goal),
    /// Sleeps.
    Pause(Duration),
}

/// Reference to an object.
#[derive(Clone, Debug)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: &'static Kind,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A condition to wait for.
#[derive(Clone, Debug)]
pub enum Goal {
    /// The object is ready.
    Ready(ObjectRef),
    /// The field of the object has this value.
    Has(ObjectRef, &'static str, Value),
    /// The object does not exist.
    Gone(ObjectRef),
    /// The number of objects of the kind that are not terminating. Pods must be running, and
    /// volumes need not be bound.
    Count(&'static Kind, usize),
}

impl ObjectRef {
    /// References an object of a run in the shared namespace.
    pub fn home(kind: &'static Kind, name: &str) -> Self {
        let namespace = if kind.is_namespaced { HOME } else { "" };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// References an object in a namespace of the run.
    pub fn within(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the object as it was observed.
    pub fn find<'s>(&self, state: &'s State) -> Option<&'s Value> {
        let Self { kind, namespace, name } = self.clone();
        state.get(&Id { kind: kind.singular, namespace, name }).map(AsRef::as_ref)
    }

    /// Returns the step that creates the object with this spec.
    pub fn with(&self, spec: Value) -> Step {
        let metadata = if self.kind.is_namespaced {
            json!({ "name": self.name, "namespace": self.namespace })
        } else {
            json!({ "name": self.name })
        };
        Step::Create(json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.singular, "metadata": metadata, "spec": spec,
        }))
    }

    /// Returns the step that changes the spec.
    pub fn change(&self, spec: Value) -> Step {
        Step::Change(self.clone(), json!({ "spec": spec }))
    }

    /// Returns the step that deletes the object.
    pub fn delete(&self) -> Step {
        Step::Delete(self.clone())
    }

    /// Returns the goal that the object is ready.
    pub fn ready(&self) -> Goal {
        Goal::Ready(self.clone())
    }

    /// Returns the goal that the object does not exist.
    pub fn gone(&self) -> Goal {
        Goal::Gone(self.clone())
    }
}

impl Goal {
    /// Returns whether the goal is reached.
    pub fn is_reached(&self, state: &State) -> bool {
        match self {
            Self::Ready(place) => place.find(state).is_some_and(is_ready),
            Self::Has(place, field, value) => {
                place.find(state).and_then(|object| object.pointer(field)).unwrap_or(&Value::Null) == value
            }
            Self::Gone(place) => place.find(state).is_none(),
            Self::Count(kind, count) => {
                let all = || state.iter().filter(|(id, _)| id.kind == kind.singular);
                all().count() == *count && all().all(|(_, object)| stays(kind, object))
            }
        }
    }
}

/// Returns whether the object is ready for its current spec.
pub fn is_ready(object: &Value) -> bool {
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    is_observed(object)
        && object
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(is_ready))
}

/// Returns whether the status describes the current spec.
pub fn is_observed(object: &Value) -> bool {
    object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation")
}

/// Returns whether an object is not terminating, and a Pod or a namespace has begun.
fn stays(kind: &Kind, object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Running");
    let has_begun = ["Running", "Active", "Failed"].contains(&phase) || *kind == PERSISTENT_VOLUME_CLAIM;
    object.pointer("/metadata/deletionTimestamp").is_none() && has_begun
}

/// Returns the step that creates an empty namespace.
pub fn namespace(name: &str) -> Step {
    ObjectRef::home(&NAMESPACE, name).with(json!({}))
}

/// A repeatable sequence of changes.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The controller.
    pub controller: &'static str,
    /// The name of the workload.
    pub name: &'static str,
    /// Steps that prepare the workload. The argument is the name, or the prefix of names, of its
    /// objects.
    pub before: fn(&str) -> Vec<Step>,
    /// Steps of the workload. Faults are injected from here on.
    pub act: fn(&str) -> Vec<Step>,
    /// Goals that show that the workload is complete without a fault.
    pub goals: fn(&str) -> Vec<Goal>,
}

impl Workload {
    /// Returns the name with the controller, such as `podset/create`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.controller, self.name)
    }
}

/// Controllers that are neither tested nor run. capsuleconfiguration starts with the Tenant
/// controller by default and writes independently of the workloads.
pub const EXCLUDED: [&str; 1] = ["capsuleconfiguration"];

/// The tested controllers: those of the manager, except [`EXCLUDED`].
pub static CONTROLLERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let all = manager::CONTROLLERS.iter().map(|controller| controller.name);
    all.filter(|name| !EXCLUDED.contains(name)).collect()
});

/// Returns all workloads of a controller.
pub fn of(controller: &str) -> &'static [Workload] {
    match controller {
        "podset" => podset::ALL,
        "postgres" => postgres::ALL,
        "memcached" => memcached::ALL,
        "namespaceplus" => namespaceplus::ALL,
        "tenant" => tenant::ALL,
        "tenantresource" => replication::LOCAL,
        "globaltenantresource" => replication::GLOBAL,
        _ => &[],
    }
}

/// Returns the other controller that runs beside this one, in a manager of its own, because it changes what the
/// workloads prepare. In some faults one manager runs all controllers, and the end state is compared.
pub fn needs(controller: &str) -> Option<&'static str> {
    matches!(controller, "tenantresource" | "globaltenantresource").then_some("tenant")
}

/// A named modification by a third party, which the controller must revert.
pub type ThirdPartyChange = (&'static str, fn(&str) -> Vec<Step>);

/// Returns the modifications of objects that the workload `create` creates.
pub fn third_party_changes(controller: &str) -> &'static [ThirdPartyChange] {
    match controller {
        "postgres" => postgres::THIRD_PARTY_CHANGES,
        "podset" => podset::THIRD_PARTY_CHANGES,
        "memcached" => memcached::THIRD_PARTY_CHANGES,
        "namespaceplus" => namespaceplus::THIRD_PARTY_CHANGES,
        "tenant" => tenant::THIRD_PARTY_CHANGES,
        "tenantresource" | "globaltenantresource" => replication::THIRD_PARTY_CHANGES,
        _ => &[],
    }
}

/// Returns the main kind of a controller.
pub fn kind(controller: &str) -> &'static Kind {
    match controller {
        "memcached" => &MEMCACHED,
        "namespaceplus" => &NAMESPACE_PLUS,
        "postgres" => &POSTGRES_CLUSTER,
        "tenant" => &TENANT,
        "tenantresource" => &TENANT_RESOURCE,
        "globaltenantresource" => &GLOBAL_TENANT_RESOURCE,
        _ => &POD_SET,
    }
}

/// How long a foreign finalizer blocks a deletion.
const FINALIZER_HOLD: Duration = Duration::from_millis(1_500);

/// A foreign finalizer.
const HELD: &str = "faults.example.com/held";

/// Returns the step that replaces the finalizers of an object.
fn finalizers(place: &ObjectRef, finalizers: Value) -> Step {
    Step::Change(place.clone(), json!({ "metadata": { "finalizers": finalizers } }))
}

/// Deletes an object that has a foreign finalizer for a while.
fn hold(place: ObjectRef) -> Vec<Step> {
    vec![
        finalizers(&place, json!([HELD])),
        place.delete(),
        Step::Pause(FINALIZER_HOLD),
        finalizers(&place, json!(null)),
    ]
}

/// Removes metadata of an object.
fn strip(place: ObjectRef, metadata: Value) -> Vec<Step> {
    vec![Step::Change(place, json!({ "metadata": metadata }))]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_controller_of_the_manager_has_six_workloads_with_unique_names() {
        for controller in CONTROLLERS.iter() {
            let names: BTreeSet<_> = of(controller).iter().map(|workload| workload.name).collect();
            assert!(
                names.len() >= 6 && names.len() == of(controller).len(),
                "{controller} needs six workloads with unique names and has {names:?}; add a module to \
                 tests/faults/src/workload, and use it in `of`, `third_party_changes`, and `kind`"
            );
            assert!(!third_party_changes(controller).is_empty(), "{controller}: no third-party changes");
            assert!(of(controller).iter().all(|workload| workload.controller == *controller));
        }
        let kinds: BTreeSet<_> = CONTROLLERS.iter().map(|controller| kind(controller).singular).collect();
        assert_eq!(kinds.len(), CONTROLLERS.len(), "each controller needs its kind in `kind`");
    }
}
