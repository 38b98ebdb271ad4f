//! What is done to objects of each kind while something goes wrong.

pub mod memcached;
pub mod namespaceplus;
pub mod podset;
pub mod tenant;

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    kinds::{Kind, MEMCACHED, NAMESPACE, NAMESPACE_PLUS, POD_SET, TENANT},
    observe::{Id, State},
};

/// The namespace in which all namespaced objects are made.
pub const HOME: &str = "faults";

/// Something that a person or another controller does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates an object.
    Create(Value),
    /// Creates a namespace that belongs to a Tenant.
    Join {
        /// The Tenant.
        tenant: String,
        /// The namespace.
        namespace: String,
    },
    /// Changes an object by a merge patch.
    Change(Place, Value),
    /// Deletes an object.
    Delete(Place),
    /// Waits.
    Until(Goal),
    /// Lets some time pass.
    Pause(Duration),
}

/// An object.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace; empty if it lies in none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is waited for.
#[derive(Clone, Debug)]
pub enum Goal {
    /// The object says that all is as its spec asks.
    Ready(Place),
    /// The field of the object has this value.
    Has(Place, &'static str, Value),
    /// There is no such object.
    Gone(Place),
    /// There are so many objects of the kind, none of which is being deleted, and pods run.
    Count(&'static Kind, usize),
}

impl Place {
    /// An object of a run in the namespace of all.
    pub fn home(kind: &'static Kind, name: &str) -> Self {
        let namespace = if kind.is_namespaced { HOME } else { "" };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// An object in a namespace of the run's own.
    pub fn within(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn find<'s>(&self, state: &'s State) -> Option<&'s Value> {
        let Self { kind, namespace, name } = self.clone();
        state.get(&Id { kind: kind.singular, namespace, name }).map(AsRef::as_ref)
    }

    /// The object with this spec.
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

    /// Its spec changes.
    pub fn change(&self, spec: Value) -> Step {
        Step::Change(self.clone(), json!({ "spec": spec }))
    }

    /// It is deleted.
    pub fn delete(&self) -> Step {
        Step::Delete(self.clone())
    }

    /// It is ready.
    pub fn ready(&self) -> Goal {
        Goal::Ready(self.clone())
    }

    /// It is gone.
    pub fn gone(&self) -> Goal {
        Goal::Gone(self.clone())
    }
}

impl Goal {
    /// Whether it is reached.
    pub fn is_reached(&self, state: &State) -> bool {
        match self {
            Self::Ready(place) => place.find(state).is_some_and(is_ready),
            Self::Has(place, field, value) => {
                place.find(state).and_then(|object| object.pointer(field)).unwrap_or(&Value::Null) == value
            }
            Self::Gone(place) => place.find(state).is_none(),
            Self::Count(kind, count) => {
                let all = || state.iter().filter(|(id, _)| id.kind == kind.singular);
                all().count() == *count && all().all(|(_, object)| stays(object))
            }
        }
    }
}

/// Whether an object says of its present spec that all is as it asks.
pub fn is_ready(object: &Value) -> bool {
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    tells_of_present(object)
        && object
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(is_ready))
}

/// Whether the status of an object is about its present spec.
pub fn tells_of_present(object: &Value) -> bool {
    object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation")
}

fn stays(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Running");
    object.pointer("/metadata/deletionTimestamp").is_none()
        && ["Running", "Active", "Failed"].contains(&phase)
}

/// A namespace without anything.
pub fn namespace(name: &str) -> Step {
    Place::home(&NAMESPACE, name).with(json!({}))
}

/// Something that happens to objects, again and again in the same way.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Whose objects.
    pub controller: &'static str,
    /// What happens.
    pub name: &'static str,
    /// What there is before. The name is that of all that is made, or its beginning.
    pub before: fn(&str) -> Vec<Step>,
    /// What happens. Faults come from here on.
    pub act: fn(&str) -> Vec<Step>,
    /// How it is known, where nothing goes wrong, that it is over.
    pub goals: fn(&str) -> Vec<Goal>,
}

/// The controllers that are tried.
pub const CONTROLLERS: [&str; 4] = ["podset", "memcached", "namespaceplus", "tenant"];

/// All workloads of a controller.
pub fn of(controller: &str) -> &'static [Workload] {
    match controller {
        "podset" => podset::ALL,
        "memcached" => memcached::ALL,
        "namespaceplus" => namespaceplus::ALL,
        "tenant" => tenant::ALL,
        _ => &[],
    }
}

/// What a third hand does to objects that are made, by a name. They have to come back to what they were.
pub type Disturbance = (&'static str, fn(&str) -> Vec<Step>);

/// What a third hand does to the objects of a controller that its workload `create` has made.
pub fn disturbances(controller: &str) -> &'static [Disturbance] {
    match controller {
        "podset" => podset::DISTURBANCES,
        "memcached" => memcached::DISTURBANCES,
        "namespaceplus" => namespaceplus::DISTURBANCES,
        "tenant" => tenant::DISTURBANCES,
        _ => &[],
    }
}

/// The kind of the objects of a controller.
pub fn kind(controller: &str) -> &'static Kind {
    match controller {
        "memcached" => &MEMCACHED,
        "namespaceplus" => &NAMESPACE_PLUS,
        "tenant" => &TENANT,
        _ => &POD_SET,
    }
}

/// How long somebody else's finalizer holds an object that is deleted.
const HELD: Duration = Duration::from_millis(1_500);

/// Deletes an object that somebody else's finalizer holds for a while.
fn hold(place: Place) -> Vec<Step> {
    let finalizers = |held: Value| Step::Change(place.clone(), json!({ "metadata": { "finalizers": held } }));
    vec![
        finalizers(json!(["faults.example.com/held"])),
        place.delete(),
        Step::Pause(HELD),
        finalizers(json!(null)),
    ]
}

/// Takes something away from the metadata of an object.
fn strip(place: Place, metadata: Value) -> Vec<Step> {
    vec![Step::Change(place, json!({ "metadata": metadata }))]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_controller_has_at_least_six_workloads_with_names_of_their_own() {
        for controller in CONTROLLERS {
            let names: BTreeSet<_> = of(controller).iter().map(|workload| workload.name).collect();
            assert!(names.len() >= 6 && names.len() == of(controller).len(), "{controller}: {names:?}");
            assert!(of(controller).iter().all(|workload| workload.controller == controller));
        }
    }
}
