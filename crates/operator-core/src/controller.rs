//! The trait of a controller.
//!
//! A controller is a type that implements [`Controller`]. [`register`](crate::register) converts it
//! into a value for the manager's table. CRDs, roles, webhooks, flags, and the running controllers
//! are derived from that table.
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
//! /// Greeting keeps a message in a ConfigMap.
//! #[derive(CustomResource, KubeSchema, Clone, Debug, Serialize, Deserialize)]
//! #[kube(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! struct GreetingSpec {
//!     /// message is the text of the ConfigMap.
//!     message: String,
//! }
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error(transparent)]
//! struct Error(#[from] WriteError);
//!
//! impl ReconcileError for Error {
//!     fn reason(&self) -> &'static str {
//!         operator_core::conditions::reasons::WRITE_FAILED
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
use kube::CustomResourceExt;
use serde::Serialize;

use crate::{
    admission::{Conversion, Policy, Webhook},
    builder::ControllerBuilder,
    cluster_leftovers::ClusterLeftovers,
    environment::Setting,
    kind::Kind,
    metrics::{Gauge, Histogram},
    outcome::{Outcome, ReconcileError},
    rbac::Rule,
};

/// A controller that moves the objects of one kind towards their specs.
///
/// # Contract
/// - [`reconcile`](Self::reconcile) receives the whole object, not an event.
/// - It never runs twice at the same time for one object.
/// - It can stop between any two writes: after a crash, a timeout, or the loss of the lease. The
///   next reconcile must give the right result whatever the previous one left behind.
/// - It must not write anything if nothing changed.
pub trait Controller: Send + Sync + Sized + 'static {
    /// Name in flags, logs, metrics, and roles. Lower case letters and digits.
    const NAME: &'static str;

    /// Finalizer that the runner adds before the first reconcile of an object.
    ///
    /// Set it if [`cleanup`](Self::cleanup) does something. The runner removes it when `cleanup`
    /// returns [`Outcome::Done`].
    const FINALIZER: Option<&'static str> = None;

    /// Finalizer that objects of this kind may have because of this controller:
    /// [`FINALIZER`](Self::FINALIZER), or one that the controller adds by itself.
    ///
    /// When the manager is removed for good, it removes this finalizer from all objects.
    const OWNED_FINALIZER: Option<&'static str> = Self::FINALIZER;

    /// Controllers that the manager runs together with this one, unless they are excluded by name.
    /// Name the controllers of other kinds of the same API here.
    const COMPANIONS: &'static [&'static str] = &[];

    /// Kind that the controller reconciles.
    type Object: Kind + CustomResourceExt + Serialize;

    /// Error of a reconcile.
    type Error: ReconcileError;

    /// Returns the permissions that the controller needs. Every controller may also write Events.
    fn rules() -> Vec<Rule>;

    /// Returns the CustomResourceDefinitions of the controller.
    fn crds() -> Vec<CustomResourceDefinition> {
        vec![Self::Object::crd()]
    }

    /// Returns the admission webhooks. Every replica serves them, also if another replica leads.
    fn webhooks() -> Vec<Webhook> {
        Vec::new()
    }

    /// Returns the admission policies, which the API server evaluates without the manager.
    fn policies(_manager_namespace: &str) -> Vec<Policy> {
        Vec::new()
    }

    /// Returns the conversions between the versions of its kinds.
    fn conversions() -> Vec<Conversion> {
        Vec::new()
    }

    /// Returns the gauges that the controller reports with [`ControllerBuilder::gauges`].
    fn gauges() -> &'static [&'static Gauge] {
        &[]
    }

    /// Returns the histograms that the controller fills with [`ControllerBuilder::histogram`].
    fn histograms() -> &'static [&'static Histogram] {
        &[]
    }

    /// Returns the settings of the controller on the manager's command line.
    fn settings() -> &'static [Setting] {
        &[]
    }

    /// Returns objects of its kind that must always exist.
    ///
    /// The runner creates missing ones at the start and after a deletion. It never modifies
    /// existing ones. [`rules`](Self::rules) must allow the creation.
    fn default_objects() -> Vec<Self::Object> {
        Vec::new()
    }

    /// Returns the cluster-scoped objects that remain when the manager is removed for good.
    fn leftovers() -> Vec<ClusterLeftovers> {
        Vec::new()
    }

    /// Builds the controller: requests its informers and declares its watches.
    fn build(builder: &mut ControllerBuilder<'_, Self::Object>) -> Self;

    /// Moves the cluster towards the spec of an object. Never called for an object that is being
    /// deleted.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send;

    /// Removes what garbage collection does not remove.
    ///
    /// Called for objects that are being deleted, until it returns [`Outcome::Done`]. If there is a
    /// [`FINALIZER`](Self::FINALIZER), called only for objects that have it.
    fn cleanup(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Outcome, Self::Error>> + Send {
        drop(object);
        async { Ok(Outcome::Done) }
    }
}

/// A controller whose informers are syncing and which does not reconcile until it runs.
pub trait Runnable: Send {
    /// Waits until all informers have synced. If the process watches only some namespaces, waits
    /// until the informers of at least one namespace have synced.
    fn synced(&mut self) -> BoxFuture<'_, ()>;

    /// Reconciles every object once, and then every changed object, until the environment stops.
    ///
    /// Dropping the future stops the controller immediately. The controller can then run again: no
    /// reconcile of the previous run continues.
    fn run(&mut self) -> BoxFuture<'_, DrainResult>;
}

/// How a controller stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainResult {
    /// All running reconciles finished.
    Complete,
    /// Some reconciles exceeded the drain timeout and were aborted. A request can still be in
    /// flight.
    TimedOut,
}
