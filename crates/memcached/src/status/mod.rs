//! Computes the status of a Memcached. Pure functions.

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentCondition},
    jiff::Timestamp,
};
use kube::ResourceExt;
use operator_core::{
    ReconcileError,
    conditions::{NewCondition, READY, Status, set_conditions},
    error::chain,
    pod::PodView,
};

use crate::{
    api::{Memcached, MemcachedStatus},
    autoscalers::Size,
    build::{selector_string, service::endpoint},
    condition_types::{AVAILABLE, DEGRADED, PROGRESSING},
    error::Error,
    pods::CachedPod,
    reasons::{
        AS_SPECIFIED, BLOCKED, PODS_NOT_READY, PROGRESS_DEADLINE_EXCEEDED, REPLICA_FAILURE, ROLLING_OUT,
    },
};

/// State of a Memcached after its child objects were reconciled.
pub(crate) struct Observation<'a> {
    /// Number of Pods that it should have.
    pub(crate) size: &'a Size,
    /// Active Pods, sorted by name.
    pub(crate) pods: &'a [CachedPod],
    /// The Deployment, if it exists and the Memcached owns it.
    pub(crate) deployment: Option<&'a Deployment>,
    /// Whether the Service exists and the Memcached owns it. Without it, the Pods' names do not
    /// resolve.
    pub(crate) has_service: bool,
    /// Failures of this reconcile.
    pub(crate) failures: &'a [Failure],
}

/// Failure to reconcile a child object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// Whether the user must act. Other failures are transient.
    pub(crate) needs_user_action: bool,
}

impl Failure {
    /// Converts an error into a failure.
    pub(crate) fn from_error(error: &Error) -> Self {
        Self { reason: error.reason(), message: chain(error), needs_user_action: error.needs_user_action() }
    }
}

/// Computes the status of a Memcached in this state.
pub(crate) fn status(cache: &Memcached, observed: &Observation<'_>, now: Timestamp) -> MemcachedStatus {
    let before = cache.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let generation = cache.metadata.generation.unwrap_or_default();
    MemcachedStatus {
        nodes: observed.pods.iter().map(|pod| pod.name_any()).collect(),
        endpoints: endpoints(cache, observed),
        replicas: count(observed.pods.len()),
        ready_replicas: ready(observed),
        selector: selector_string(cache),
        observed_generation: Some(generation),
        conditions: set_conditions(before, &new_conditions(observed), generation, now),
    }
}

fn endpoints(cache: &Memcached, observed: &Observation<'_>) -> Vec<String> {
    let (name, namespace) = (cache.name_any(), cache.namespace().unwrap_or_default());
    let at = |pod: &PodView| endpoint(pod, &name, &namespace, cache.spec.container_port);
    let ready = observed.pods.iter().filter(|pod| observed.has_service && pod.is_ready());
    let mut endpoints: Vec<_> = ready.filter_map(|pod| at(pod)).collect();
    endpoints.sort();
    endpoints
}

fn ready(observed: &Observation<'_>) -> i32 {
    count(observed.pods.iter().filter(|pod| pod.is_ready()).count())
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn new_conditions(observed: &Observation<'_>) -> [NewCondition; 4] {
    let available = available(observed.size, ready(observed));
    let degraded = degraded(observed);
    let progressing = progressing(observed.size.pods, observed, &degraded);
    let summary = summary(&available, &progressing, &degraded);
    [available, progressing, degraded, summary]
}

fn available(size: &Size, ready: i32) -> NewCondition {
    let by = size.autoscaler.as_ref().map_or_else(String::new, |autoscaler| {
        format!("; HorizontalPodAutoscaler {autoscaler} scales the Deployment, so spec.size is ignored")
    });
    let message = format!("{ready} of {} pods are ready{by}", size.pods);
    if ready >= size.pods {
        NewCondition::is_true(AVAILABLE, AS_SPECIFIED, message)
    } else {
        NewCondition::is_false(AVAILABLE, PODS_NOT_READY, message)
    }
}

fn degraded(observed: &Observation<'_>) -> NewCondition {
    let mut failures: Vec<_> =
        observed.failures.iter().filter(|failure| failure.needs_user_action).cloned().collect();
    failures.extend(observed.deployment.into_iter().flat_map(deployment_failures));
    let Some(first) = failures.first() else {
        return NewCondition::is_false(DEGRADED, AS_SPECIFIED, "no failures");
    };
    let messages: Vec<_> = failures.iter().map(|failure| failure.message.as_str()).collect();
    NewCondition::is_true(DEGRADED, first.reason, messages.join("; "))
}

/// Returns the failures that the Deployment reports in its conditions.
fn deployment_failures(deployment: &Deployment) -> Vec<Failure> {
    let failure_of = |condition: &DeploymentCondition, reason, otherwise: &str| Failure {
        reason,
        message: condition.message.clone().unwrap_or_else(|| otherwise.to_owned()),
        needs_user_action: true,
    };
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failure =
        |condition: &DeploymentCondition| match (condition.type_.as_str(), condition.status.as_str()) {
            ("ReplicaFailure", "True") => {
                Some(failure_of(condition, REPLICA_FAILURE, "the Pods could not be created"))
            }
            ("Progressing", "False") if condition.reason.as_deref() == Some(PROGRESS_DEADLINE_EXCEEDED) => {
                Some(failure_of(
                    condition,
                    PROGRESS_DEADLINE_EXCEEDED,
                    "the Pods did not become ready in time",
                ))
            }
            _ => None,
        };
    conditions.filter_map(failure).collect()
}

fn progressing(size: i32, observed: &Observation<'_>, degraded: &NewCondition) -> NewCondition {
    if degraded.status == Status::True {
        return NewCondition::is_false(
            PROGRESSING,
            BLOCKED,
            "blocked by the failure in the Degraded condition",
        );
    }
    if let Some(failure) = observed.failures.first() {
        return NewCondition::is_true(PROGRESSING, failure.reason, failure.message.clone());
    }
    let (current, pods, ready) = (current(observed.deployment), count(observed.pods.len()), ready(observed));
    if current == Some(size) && pods == size && ready == size {
        return NewCondition::is_false(PROGRESSING, AS_SPECIFIED, "the rollout is complete");
    }
    let current = current.unwrap_or_default();
    let message = format!("{current} of {size} pods are up to date, {pods} exist, {ready} are ready");
    NewCondition::is_true(PROGRESSING, ROLLING_OUT, message)
}

/// Returns the number of up-to-date Pods, or `None` until the Deployment controller has observed
/// the current generation.
fn current(deployment: Option<&Deployment>) -> Option<i32> {
    let deployment = deployment?;
    let status = deployment.status.as_ref()?;
    let is_observed = status.observed_generation >= deployment.metadata.generation;
    is_observed.then(|| status.updated_replicas.unwrap_or_default())
}

/// Computes Ready: true if the Memcached is as specified, otherwise the most severe of the other
/// conditions.
fn summary(available: &NewCondition, progressing: &NewCondition, degraded: &NewCondition) -> NewCondition {
    let matter = if degraded.status == Status::True {
        degraded
    } else if available.status == Status::False {
        available
    } else if progressing.status == Status::True {
        progressing
    } else {
        return NewCondition::is_true(READY, AS_SPECIFIED, available.message.clone());
    };
    NewCondition::is_false(READY, matter.reason, matter.message.clone())
}

#[cfg(test)]
mod tests;
