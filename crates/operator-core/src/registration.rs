//! The entry of a controller in the manager's table.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, core::ApiResource};

use crate::{
    admission::{Conversion, Policy, Webhook},
    cluster_leftovers::ClusterLeftovers,
    controller::{Controller, Runnable},
    environment::{Environment, Setting},
    kind::Kind,
    metrics::{Gauge, Histogram},
    rbac::Rule,
    runner,
};

/// Objects that can have a finalizer of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedFinalizer {
    /// Kind of the objects.
    pub resource: ApiResource,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// The finalizer, [`Controller::OWNED_FINALIZER`].
    pub finalizer: &'static str,
}

fn owned_finalizer<T: Controller>() -> Option<OwnedFinalizer> {
    let resource = T::Object::api_resource();
    T::OWNED_FINALIZER.map(|finalizer| OwnedFinalizer {
        resource,
        namespaced: T::Object::NAMESPACED,
        finalizer,
    })
}

/// Entry of a controller in the manager's table.
#[derive(Clone, Copy)]
pub struct Registration {
    /// [`Controller::NAME`].
    pub name: &'static str,
    /// [`Controller::COMPANIONS`].
    pub companions: &'static [&'static str],
    /// [`Controller::rules`].
    pub rules: fn() -> Vec<Rule>,
    /// [`Controller::crds`].
    pub crds: fn() -> Vec<CustomResourceDefinition>,
    /// [`Controller::webhooks`].
    pub webhooks: fn() -> Vec<Webhook>,
    /// [`Controller::policies`].
    pub policies: fn(&str) -> Vec<Policy>,
    /// [`Controller::conversions`].
    pub conversions: fn() -> Vec<Conversion>,
    /// [`Controller::gauges`].
    pub gauges: fn() -> &'static [&'static Gauge],
    /// [`Controller::histograms`].
    pub histograms: fn() -> &'static [&'static Histogram],
    /// [`Controller::settings`].
    pub settings: fn() -> &'static [Setting],
    /// The objects with [`Controller::OWNED_FINALIZER`].
    pub owned_finalizer: fn() -> Option<OwnedFinalizer>,
    /// [`Controller::leftovers`].
    pub leftovers: fn() -> Vec<ClusterLeftovers>,
    /// Builds the controller. Must be called within a Tokio runtime.
    pub build: fn(&Environment) -> Box<dyn Runnable>,
}

impl Registration {
    /// Returns the entry of a controller that declares nothing: no rules, definitions, or webhooks.
    ///
    /// Use it for a [`Runnable`] without a [`Controller`], for example in a test.
    pub const fn new(name: &'static str, build: fn(&Environment) -> Box<dyn Runnable>) -> Self {
        Self {
            name,
            companions: &[],
            rules: Vec::new,
            crds: Vec::new,
            webhooks: Vec::new,
            policies: |_| Vec::new(),
            conversions: Vec::new,
            gauges: || &[],
            histograms: || &[],
            settings: || &[],
            owned_finalizer: || None,
            leftovers: Vec::new,
            build,
        }
    }

    /// Builds the controller and runs it until the environment stops. Use it without leader
    /// election.
    pub async fn run(&self, environment: &Environment) {
        let mut runnable = (self.build)(environment);
        if environment.stop.run_until_cancelled(runnable.synced()).await.is_some() {
            runnable.run().await;
        }
    }
}

/// Returns the entry of a controller for the manager's table. In Go, `SetupWithManager` registers a
/// controller.
pub const fn register<T: Controller>() -> Registration {
    Registration {
        name: T::NAME,
        companions: T::COMPANIONS,
        rules: T::rules,
        crds: T::crds,
        webhooks: T::webhooks,
        policies: T::policies,
        conversions: T::conversions,
        gauges: T::gauges,
        histograms: T::histograms,
        settings: T::settings,
        owned_finalizer: owned_finalizer::<T>,
        leftovers: T::leftovers,
        build: runner::build::<T>,
    }
}
