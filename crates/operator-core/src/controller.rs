//! What a controller is, and how the manager gets to know of it.
//!
//! A controller is a type that implements [`Controller`]. [`register`] turns the type into a plain value; the
//! manager holds a table of them, and everything else (custom resource definitions, roles, flags, the running
//! controllers) is read from that table.
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{CustomResource, KubeSchema, ResourceExt};
//! use operator_core::{
//!     Controller, ObjectKey, Outcome, ReconcileError, ControllerBuilder, labels,
//!     owner::Owner,
//!     rbac::{CREATE, GET, LIST, Rule, UPDATE, WATCH, rule},
//!     register,
//!     write::{Children, WriteError},
//! };
//! use serde::{Deserialize, Serialize};
//!
//! /// Says something.
//! #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! struct GreetingSpec {
//!     /// What to say.
//!     message: String,
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error(transparent)]
//! struct Error(#[from] WriteError);
//!
//! impl ReconcileError for Error {
//!     fn reason(&self) -> &'static str {
//!         "WriteFailed"
//!     }
//! }
//!
//! struct GreetingController {
//!     texts: Children<ConfigMap>,
//! }
//!
//! impl Controller for GreetingController {
//!     const NAME: &'static str = "greeting";
//!     type Object = Greeting;
//!     type Error = Error;
//!
//!     fn rules() -> Vec<Rule> {
//!         vec![
//!             rule::<Greeting>(LIST | WATCH),
//!             rule::<Greeting>(UPDATE).subresource("finalizers"),
//!             rule::<ConfigMap>(GET | LIST | WATCH | CREATE | UPDATE),
//!         ]
//!     }
//!
//!     fn build(builder: &mut ControllerBuilder<'_, Greeting>) -> Self {
//!         Self { texts: builder.owns() }
//!     }
//!
//!     async fn reconcile(&self, greeting: Arc<Greeting>) -> Result<Outcome, Error> {
//!         let key = ObjectKey::of(greeting.as_ref());
//!         let Ok(owner) = Owner::controller(greeting.as_ref(), key.namespace()) else {
//!             return Ok(Outcome::AwaitChange);
//!         };
//!         let text = |text: &mut ConfigMap| {
//!             labels::add(&mut text.metadata.labels, labels::recommended("greeting", key.name(), "text"));
//!             text.data = Some([("message".to_owned(), greeting.spec.message.clone())].into());
//!         };
//!         self.texts.create_or_update(&key, &owner, text).await?;
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! let registration = register::<GreetingController>();
//! assert_eq!((registration.crds)()[0].name_any(), "greetings.example.com");
//! ```

use std::{future::Future, sync::Arc};

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    CustomResourceExt, Resource,
    core::{ApiResource, ClusterResourceScope},
};
use serde::Serialize;

use crate::{
    admission::{Conversion, Policy, Webhook},
    builder::ControllerBuilder,
    environment::{Environment, Setting},
    kind::Kind,
    metrics::Gauge,
    outcome::{Outcome, ReconcileError},
    owner::Owner,
    rbac::Rule,
    runner,
};

/// A controller: keeps the objects of one kind as their specs ask.
///
/// # Contract
/// [`reconcile`](Self::reconcile) looks at the whole of one object, not at an event. It is never run twice at
/// once for the same object. It may be cut off between any two writes (a crash, a timeout, a lost lease), so
/// it must be right whatever earlier runs left behind, and it must write nothing when nothing changed.
pub trait Controller: Send + Sync + Sized + 'static {
    /// The name on the command line, in logs, metrics and roles. Lower case letters and digits.
    const NAME: &'static str;

    /// The finalizer that every object gets before its first reconcile, if [`cleanup`](Self::cleanup) has
    /// something to do. It is taken off when the clean-up is [`Outcome::Done`].
    const FINALIZER: Option<&'static str> = None;

    /// The finalizer that objects of its kind may hold for its sake: [`FINALIZER`](Self::FINALIZER), or one that it puts
    /// on by itself. It is what is taken off where nobody will come to clean up any more.
    const OWNED_FINALIZER: Option<&'static str> = Self::FINALIZER;

    /// The controllers that are run wherever this one is, unless they are taken out by name. For one that looks after
    /// another kind of the same API.
    const COMPANIONS: &'static [&'static str] = &[];

    /// The kind it looks after.
    type Object: Kind + CustomResourceExt + Serialize;

    /// What can go wrong.
    type Error: ReconcileError;

    /// The rights it needs, no more. Those on Events are given to every controller.
    fn rules() -> Vec<Rule>;

    /// The custom resource definitions it comes with.
    fn crds() -> Vec<CustomResourceDefinition> {
        vec![Self::Object::crd()]
    }

    /// Its admission webhooks. They answer in every replica, also where another leads the controller.
    fn webhooks() -> Vec<Webhook> {
        Vec::new()
    }

    /// Its admission policies, which hold without any process. They are given the namespace of the manager.
    fn policies(_manager_namespace: &str) -> Vec<Policy> {
        Vec::new()
    }

    /// The conversions between the versions of its kinds.
    fn conversions() -> Vec<Conversion> {
        Vec::new()
    }

    /// Its own gauges, as far as it has any: those that it shows by [`ControllerBuilder::gauges`].
    fn gauges() -> &'static [&'static Gauge] {
        &[]
    }

    /// What can be set about it on the manager's command line.
    fn settings() -> &'static [Setting] {
        &[]
    }

    /// The objects of its kind that must always be there. One that is missing at the start or is deleted is made as it
    /// stands here; one that is there is the people's, and stays as it is.
    ///
    /// The rules must allow creating them.
    fn defaults() -> Vec<Self::Object> {
        Vec::new()
    }

    /// What it makes in the cluster that nothing takes along when it is removed for good.
    fn leftovers() -> Vec<ClusterLeftovers> {
        Vec::new()
    }

    /// Builds the controller: asks for informers, says which changes concern which object.
    fn build(builder: &mut ControllerBuilder<'_, Self::Object>) -> Self;

    /// Brings the world closer to what the object's spec asks. Never called for an object that is being
    /// deleted.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// Undoes what garbage collection will not. Called for objects that are being deleted and, where there is
    /// a [`FINALIZER`](Self::FINALIZER), still hold it; again and again until it is [`Outcome::Done`].
    fn cleanup(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        drop(object);
        async { Ok(Outcome::Done) }
    }
}

/// The objects that a finalizer of a controller may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedFinalizer {
    /// Their kind.
    pub resource: ApiResource,
    /// Whether they live in namespaces.
    pub namespaced: bool,
    /// [`Controller::OWNED_FINALIZER`].
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

/// Cluster-scoped objects that a controller makes and that have no owner who takes them along.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterLeftovers {
    /// Their kind.
    pub resource: ApiResource,
    /// How they are known to be the controller's. They carry the label of all that we manage, too.
    pub owner: Owner,
    /// What they are called unless a person has chosen other names: the rights to delete them are narrowed to these.
    pub names: &'static [&'static str],
}

impl ClusterLeftovers {
    /// The objects of kind `K` that belong to `owner`.
    pub fn of<K>(owner: Owner, names: &'static [&'static str]) -> Self
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Self { resource: ApiResource::erase::<K>(&()), owner, names }
    }
}

/// A controller as the manager's table holds it.
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
    /// [`Controller::settings`].
    pub settings: fn() -> &'static [Setting],
    /// What [`Controller::OWNED_FINALIZER`] may hold.
    pub owned_finalizer: fn() -> Option<OwnedFinalizer>,
    /// [`Controller::leftovers`].
    pub leftovers: fn() -> Vec<ClusterLeftovers>,
    /// Wires the controller. Must be called within a Tokio runtime.
    pub build: fn(&Environment) -> Box<dyn Runnable>,
}

impl Registration {
    /// Wires the controller and runs it until the environment asks to stop. For who does not share it with others.
    pub async fn run(&self, environment: &Environment) {
        let mut runnable = (self.build)(environment);
        if environment.stop.run_until_cancelled(runnable.synced()).await.is_some() {
            runnable.run().await;
        }
    }
}

/// A controller that is wired: its informers fill, and it does nothing until it is run.
pub trait Runnable: Send {
    /// Waits until all of its informers have been filled once; where the process looks into some namespaces only, until
    /// those of one have.
    fn synced(&mut self) -> BoxFuture<'_, ()>;

    /// Reconciles every object once, and then whatever changes, until the environment asks to stop. Stops at once when
    /// dropped, and can be run again after that: then nothing of the time before goes on.
    fn run(&mut self) -> BoxFuture<'_, DrainResult>;
}

/// How a controller stopped that was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// All reconciles have finished.
    Complete,
    /// Some took too long and were cut off, perhaps with a request on its way.
    TimedOut,
}

/// The table's entry for a controller.
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
        settings: T::settings,
        owned_finalizer: owned_finalizer::<T>,
        leftovers: T::leftovers,
        build: runner::build::<T>,
    }
}
