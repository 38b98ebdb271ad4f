//! The declaration of a webhook.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    caches::Caches,
    handler::{self, Handle, Mutator, Validator},
    target::{Covers, Target, TargetRule},
};

/// Whether a webhook changes objects or only judges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebhookType {
    /// It allows or denies. RequestInfo after all changes were made.
    Validating,
    /// It may also change the object.
    Mutating,
}

/// What the API server does when a webhook gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The request is refused.
    Fail,
    /// The request goes on as if the webhook were not there.
    Ignore,
}

/// Whether answering writes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SideEffects {
    /// It does not.
    None,
    /// It may, but not if the request is a dry run.
    NoneOnDryRun,
}

/// A CEL expression that must be true of a request for the webhook to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchCondition {
    /// Its name in error messages.
    pub name: String,
    /// The expression, over `object`, `oldObject` and `request`.
    pub expression: String,
}

/// A webhook that a controller declares. Begun by [`Webhook::validating`] or [`Webhook::mutating`].
pub struct Webhook {
    /// A DNS label, unique among those of the controller.
    pub name: &'static str,
    /// Whether it changes objects.
    pub purpose: WebhookType,
    /// What it is asked about.
    pub targets: Vec<TargetRule>,
    /// The namespaces whose objects it is asked about, beyond those that are always left out.
    pub namespace_selector: LabelSelector,
    /// The labels of the objects that it is asked about; of an update, either state may have them.
    pub object_selector: LabelSelector,
    /// Further conditions; all must be true.
    pub match_conditions: Vec<MatchCondition>,
    /// What happens when it gives no answer.
    pub failure_policy: FailurePolicy,
    /// How long the API server waits for an answer, in seconds.
    pub timeout_seconds: u8,
    /// Whether it is asked again when a later webhook changes the object.
    pub reinvoked: bool,
    /// Whether answering writes anything.
    pub side_effects: SideEffects,
    pub(super) wire: Wire,
}

/// Makes a handler out of the process's caches.
pub(super) type Wire = Box<dyn Fn(&mut Caches<'_>) -> Box<dyn Handle> + Send + Sync>;

/// The longest that the API server may wait for an answer, in seconds; also what it waits unless told otherwise.
pub(super) const LONGEST: u8 = 5;

impl Webhook {
    /// Begins a webhook that allows or denies. While it gives no answer, requests are refused.
    pub fn validating<V: Validator>(name: &'static str) -> WebhookBuilder<V::Object> {
        let wire: Wire = Box::new(|caches| handler::validating(V::build(caches)));
        WebhookBuilder::new(name, WebhookType::Validating, FailurePolicy::Fail, wire)
    }

    /// Begins a webhook that may change objects. While it gives no answer, requests go on without it: what must hold
    /// is for a validating webhook to check in the end.
    pub fn mutating<M: Mutator>(name: &'static str) -> WebhookBuilder<M::Object> {
        let wire: Wire = Box::new(|caches| handler::mutating(M::build(caches)));
        WebhookBuilder::new(name, WebhookType::Mutating, FailurePolicy::Ignore, wire)
    }

    /// The path that it is served at, by a controller of this name.
    pub fn path(&self, controller: &str) -> String {
        format!("/{controller}/{}", self.name)
    }

    /// Its name in the webhook configuration, in logs and in messages to people.
    pub fn full_name(&self, controller: &str) -> String {
        format!("{}.{controller}.ensemble", self.name)
    }
}

/// A webhook that is being declared, for a handler of objects of type `O`.
#[must_use = "ends with declare()"]
pub struct WebhookBuilder<O> {
    webhook: Webhook,
    object: PhantomData<fn() -> O>,
}

impl<O> WebhookBuilder<O> {
    fn new(name: &'static str, purpose: WebhookType, failure_policy: FailurePolicy, wire: Wire) -> Self {
        let webhook = Webhook {
            name,
            purpose,
            targets: Vec::new(),
            namespace_selector: LabelSelector::default(),
            object_selector: LabelSelector::default(),
            match_conditions: Vec::new(),
            failure_policy,
            timeout_seconds: LONGEST,
            reinvoked: false,
            side_effects: SideEffects::None,
            wire,
        };
        Self { webhook, object: PhantomData }
    }

    /// It is asked about this, too.
    pub fn on<K>(mut self, target: Target<K>) -> Self
    where
        O: Covers<K>,
    {
        self.webhook.targets.push(TargetRule::of::<K, O>(target));
        self
    }

    /// It is asked only about objects in namespaces with these labels; about a Namespace, by its own.
    pub fn in_namespaces(mut self, selector: LabelSelector) -> Self {
        self.webhook.namespace_selector = selector;
        self
    }

    /// It is asked only about objects with these labels. Whoever may set labels may leave the selection: of no use
    /// against users, unless the labels are guarded.
    pub fn with_labels(mut self, selector: LabelSelector) -> Self {
        self.webhook.object_selector = selector;
        self
    }

    /// It is asked only if this CEL expression is true of the request.
    pub fn match_condition(mut self, name: &str, expression: &str) -> Self {
        let condition = MatchCondition { name: name.to_owned(), expression: expression.to_owned() };
        self.webhook.match_conditions.push(condition);
        self
    }

    /// What happens when it gives no answer.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.webhook.failure_policy = policy;
        self
    }

    /// How long the API server waits for an answer: 1 to 5 seconds.
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.webhook.timeout_seconds = seconds;
        self
    }

    /// Has a mutating webhook asked again when a later one changes the object.
    pub fn reinvoked(mut self) -> Self {
        self.webhook.reinvoked = true;
        self
    }

    /// Answering may write something, but never in a dry run; see [`Caches::writer`](super::Caches::writer).
    pub fn side_effects(mut self) -> Self {
        self.webhook.side_effects = SideEffects::NoneOnDryRun;
        self
    }

    /// The webhook is complete.
    pub fn build(self) -> Webhook {
        self.webhook
    }
}
