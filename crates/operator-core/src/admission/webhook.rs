//! Declarations of webhooks.

use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    caches::Caches,
    handler::{self, Handler, Mutator, Validator},
    side_effects::SideEffects,
    target::{Covers, Target, TargetRule},
};

/// Type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebhookType {
    /// Allows or denies requests. Called after all mutating webhooks.
    Validating,
    /// Can also change objects.
    Mutating,
}

/// Behavior of the API server if a webhook does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailurePolicy {
    /// The request is denied.
    Fail,
    /// The request continues without the webhook.
    Ignore,
}

impl FailurePolicy {
    /// Returns the value in a configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

/// A CEL expression that must be true for the API server to call the webhook or to evaluate the
/// policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchCondition {
    /// Name for error messages.
    pub name: String,
    /// Expression over `object`, `oldObject`, and `request`.
    pub expression: String,
}

/// A webhook of a controller. Built with [`Webhook::validating`] or [`Webhook::mutating`].
pub struct Webhook {
    /// Name of the webhook: a DNS label, unique in the controller.
    pub name: &'static str,
    /// Type of the webhook.
    pub webhook_type: WebhookType,
    /// Operations and resources that it reviews.
    pub targets: Vec<TargetRule>,
    /// Selector of namespaces, in addition to the exempt namespaces.
    pub namespace_selector: LabelSelector,
    /// Selector of objects. For an update, the old or the new object must match.
    pub object_selector: LabelSelector,
    /// Further conditions. All must be true.
    pub match_conditions: Vec<MatchCondition>,
    /// Behavior if the webhook does not respond.
    pub failure_policy: FailurePolicy,
    /// Timeout of the API server in seconds.
    pub timeout_seconds: u8,
    /// Whether it is called again if a later webhook changes the object.
    pub reinvoked: bool,
    /// Whether a review can write.
    pub side_effects: SideEffects,
    pub(super) build: BuildHandler,
}

/// Builds the handler with the caches of the process.
pub(super) type BuildHandler = Box<dyn Fn(&mut Caches<'_>) -> Box<dyn Handler> + Send + Sync>;

/// Maximum and default timeout of a webhook in seconds.
pub(crate) const MAX_TIMEOUT_SECONDS: u8 = 5;

impl Webhook {
    /// Starts a validating webhook. If it does not respond, requests are denied.
    pub fn validating<V: Validator>(name: &'static str) -> WebhookBuilder<V::Object> {
        let build: BuildHandler = Box::new(|caches| handler::validating(V::build(caches)));
        WebhookBuilder::new(name, WebhookType::Validating, FailurePolicy::Fail, build)
    }

    /// Starts a mutating webhook. If it does not respond, requests continue without it, so a
    /// validating webhook must enforce what is required.
    pub fn mutating<M: Mutator>(name: &'static str) -> WebhookBuilder<M::Object> {
        let build: BuildHandler = Box::new(|caches| handler::mutating(M::build(caches)));
        WebhookBuilder::new(name, WebhookType::Mutating, FailurePolicy::Ignore, build)
    }

    /// Returns the path of the webhook for a controller with this name.
    pub fn path(&self, controller: &str) -> String {
        format!("/{controller}/{}", self.name)
    }

    /// Returns the name in the webhook configuration, in logs, and in messages.
    pub fn full_name(&self, controller: &str) -> String {
        format!("{}.{controller}.ensemble", self.name)
    }
}

/// Builder of a [`Webhook`] with a handler of objects of type `O`.
#[must_use = "ends with build()"]
pub struct WebhookBuilder<O> {
    webhook: Webhook,
    object: PhantomData<fn() -> O>,
}

impl<O> WebhookBuilder<O> {
    fn new(
        name: &'static str,
        webhook_type: WebhookType,
        failure_policy: FailurePolicy,
        build: BuildHandler,
    ) -> Self {
        let webhook = Webhook {
            name,
            webhook_type,
            targets: Vec::new(),
            namespace_selector: LabelSelector::default(),
            object_selector: LabelSelector::default(),
            match_conditions: Vec::new(),
            failure_policy,
            timeout_seconds: MAX_TIMEOUT_SECONDS,
            reinvoked: false,
            side_effects: SideEffects::None,
            build,
        };
        Self { webhook, object: PhantomData }
    }

    /// Adds a target.
    pub fn on<K>(mut self, target: Target<K>) -> Self
    where
        O: Covers<K>,
    {
        self.webhook.targets.push(TargetRule::of::<K, O>(target));
        self
    }

    /// Limits the webhook to objects in the selected namespaces, or to the selected Namespaces.
    pub fn in_namespaces(mut self, selector: LabelSelector) -> Self {
        self.webhook.namespace_selector = selector;
        self
    }

    /// Limits the webhook to the selected objects. Users who can set the labels can evade it, so it
    /// is no protection against them.
    pub fn with_labels(mut self, selector: LabelSelector) -> Self {
        self.webhook.object_selector = selector;
        self
    }

    /// Limits the webhook to requests for which a CEL expression is true.
    pub fn match_condition(mut self, name: &str, expression: &str) -> Self {
        let condition = MatchCondition { name: name.to_owned(), expression: expression.to_owned() };
        self.webhook.match_conditions.push(condition);
        self
    }

    /// Sets the behavior if the webhook does not respond.
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.webhook.failure_policy = policy;
        self
    }

    /// Sets the timeout of the API server: 1 to 5 seconds.
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.webhook.timeout_seconds = seconds;
        self
    }

    /// Calls a mutating webhook again if a later webhook changes the object.
    pub fn reinvoked(mut self) -> Self {
        self.webhook.reinvoked = true;
        self
    }

    /// Allows a review to write, except in a dry run. See
    /// [`Caches::writer`](super::Caches::writer).
    pub fn side_effects(mut self) -> Self {
        self.webhook.side_effects = SideEffects::NoneOnDryRun;
        self
    }

    /// Returns the webhook.
    pub fn build(self) -> Webhook {
        self.webhook
    }
}
