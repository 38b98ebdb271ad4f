//! Images, classes, and metadata of Pods.

use capsule::class_filter::ClassFilter;
use k8s_openapi::api::{node::v1::RuntimeClass, scheduling::v1::PriorityClass};
use operator_core::{
    admission::{
        BoxError, CREATE, Caches, Denial, Mutation, Mutator, Operation, Request, UPDATE, Validator, Verdict,
        Webhook, target,
    },
    informer::Selection,
};

use super::{
    SPEC_CHANGES,
    classes::{ClassCache, ClassError, denied_class_message},
    denial_events::DenialEvents,
    has_label,
    policy_reader::PolicyReader,
};
use crate::{
    additional_metadata::add,
    policies::{
        Violation,
        labels::POD_POLICIES_LABEL,
        pods::{PodPolicy, ReviewedPod},
    },
    reasons::{FORBIDDEN_PRIORITY_CLASS, FORBIDDEN_RUNTIME_CLASS},
};

/// Includes creates, and changes of labels and annotations.
const METADATA_CHANGES: &str = "request.operation == 'CREATE' || \
    object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) || \
    object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})";
/// Prefix of the PriorityClasses of Kubernetes, which no selector allows.
const SYSTEM_PREFIX: &str = "system-";

/// Returns the webhooks. They exclude no users, because controllers of Kubernetes create Pods on
/// behalf of the users of a Tenant.
pub(super) fn webhooks() -> [Webhook; 2] {
    let pods = || target::<ReviewedPod>(CREATE | UPDATE);
    [
        Webhook::mutating::<PodMutator>("pod-defaults")
            .on(pods())
            .in_namespaces(has_label(POD_POLICIES_LABEL))
            .match_condition("metadata-changes", METADATA_CHANGES)
            .build(),
        Webhook::validating::<PodValidator>("pods")
            .on(pods())
            .on(target::<ReviewedPod>(UPDATE).subresource("ephemeralcontainers"))
            .in_namespaces(has_label(POD_POLICIES_LABEL))
            .match_condition("spec-changes", SPEC_CHANGES)
            .side_effects()
            .build(),
    ]
}

struct PodValidator {
    policies: PolicyReader<PodPolicy>,
    priority: ClassCache<PriorityClass>,
    runtime: ClassCache<RuntimeClass>,
    denials: DenialEvents,
}

impl Validator for PodValidator {
    type Object = ReviewedPod;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            policies: PolicyReader::build(caches),
            priority: ClassCache::build(caches, Selection::All),
            runtime: ClassCache::build(caches, Selection::All),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<ReviewedPod>) -> Result<Verdict, BoxError> {
        let Some(pod) = &request.new else { return Ok(Verdict::allow()) };
        let (tenant, policy) = match self.policies.of(request.namespace.as_deref()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Verdict::allow()),
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let mut checked = policy.check_images(request.old.as_ref(), pod);
        if checked.is_ok() && request.operation == Operation::Create {
            checked =
                self.check_classes(tenant.metadata.name.as_deref().unwrap_or_default(), &policy, pod).await;
        }
        Ok(self.denials.verdict(request, &tenant, checked))
    }
}

impl PodValidator {
    /// Checks the classes of a new Pod. Kubernetes does not change them later.
    async fn check_classes(
        &self,
        tenant: &str,
        policy: &PodPolicy,
        pod: &ReviewedPod,
    ) -> Result<(), Violation> {
        if let (Some(allowed), Some(class)) =
            (&policy.priority, class_of(pod.spec.priority_class_name.as_ref()))
            && let Some(error) = self.priority_error(allowed, class).await
        {
            let path = "spec.priorityClassName";
            let message = denied_class_message::<PriorityClass>(tenant, allowed, path, class, error);
            return Err(Violation::new(FORBIDDEN_PRIORITY_CLASS, message));
        }
        if let (Some(allowed), Some(class)) =
            (&policy.runtime, class_of(pod.spec.runtime_class_name.as_ref()))
            && let Some(error) = self.runtime.error(allowed, class).await
        {
            let path = "spec.runtimeClassName";
            let message = denied_class_message::<RuntimeClass>(tenant, allowed, path, class, error);
            return Err(Violation::new(FORBIDDEN_RUNTIME_CLASS, message));
        }
        Ok(())
    }

    async fn priority_error(&self, allowed: &ClassFilter, class: &str) -> Option<ClassError> {
        if class.starts_with(SYSTEM_PREFIX) {
            return (!allowed.allows_name(class)).then_some(ClassError::NotAllowed);
        }
        self.priority.error(allowed, class).await
    }
}

/// Returns the class that a field names.
fn class_of(field: Option<&String>) -> Option<&str> {
    field.map(String::as_str).filter(|class| !class.is_empty())
}

struct PodMutator {
    policies: PolicyReader<PodPolicy>,
    priority: ClassCache<PriorityClass>,
}

impl Mutator for PodMutator {
    type Object = ReviewedPod;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { policies: PolicyReader::build(caches), priority: ClassCache::build(caches, Selection::All) }
    }

    async fn mutate(&self, request: &Request<ReviewedPod>) -> Result<Mutation<ReviewedPod>, BoxError> {
        let Some(pod) = &request.new else { return Ok(Mutation::keep()) };
        let Some((_, policy)) = self.policies.of(request.namespace.as_deref()).await? else {
            return Ok(Mutation::keep());
        };
        let mut changed = pod.clone();
        if request.operation == Operation::Create {
            if let Err(denial) = self.set_priority_class(&policy, &mut changed).await {
                return Ok(Mutation::deny(denial));
            }
            set_runtime_class(&policy, &mut changed);
        }
        if pod.metadata.deletion_timestamp.is_none() {
            add(&mut changed.metadata, &policy.metadata);
        }
        Ok(if changed == *pod { Mutation::keep() } else { Mutation::change(changed) })
    }
}

impl PodMutator {
    /// Sets the default PriorityClass of the Tenant on a Pod without class, or with the default
    /// class of the cluster, which Kubernetes sets before the webhook.
    ///
    /// Kubernetes compares the priority with the class again after the webhook, so name, priority,
    /// and preemption policy are set together.
    async fn set_priority_class(&self, policy: &PodPolicy, pod: &mut ReviewedPod) -> Result<(), Denial> {
        let Some(default) = policy.priority.as_ref().and_then(ClassFilter::default_class) else {
            return Ok(());
        };
        let current = class_of(pod.spec.priority_class_name.as_ref());
        let is_global =
            |class: &str| self.priority.cached(class).is_some_and(|class| class.global_default == Some(true));
        if current.is_some_and(|class| class == default || !is_global(class)) {
            return Ok(());
        }
        let Some(class) = self.priority.get(default).await else {
            return Err(Denial::forbidden(format!(
                "spec.priorityClassName: PriorityClass {default:?}, the default of the Tenant in \
                 spec.priorityClasses.default, does not exist; name another class, or ask an administrator to create it"
            )));
        };
        pod.spec.priority_class_name = Some(default.to_owned());
        pod.spec.priority = class.value;
        pod.spec.preemption_policy.clone_from(&class.preemption_policy);
        Ok(())
    }
}

/// Sets the default RuntimeClass of the Tenant on a Pod without class. Kubernetes sets the overhead.
fn set_runtime_class(policy: &PodPolicy, pod: &mut ReviewedPod) {
    let default = policy.runtime.as_ref().and_then(ClassFilter::default_class);
    if let (None, Some(default)) = (class_of(pod.spec.runtime_class_name.as_ref()), default) {
        pod.spec.runtime_class_name = Some(default.to_owned());
    }
}
