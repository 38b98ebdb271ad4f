//! The Pods of a Memcached.

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SeccompProfile, TopologySpreadConstraint,
};

use super::{
    CONTAINER, DesiredCache, REVISION_LABEL, container,
    exporter::{self, EXPORTER},
    selector,
};
use crate::api::Memcached;

/// UID and GID of the user `memcache` in the official images.
const MEMCACHE_UID: i64 = 11211;
/// Termination grace period, including the preStop hook.
const TERMINATION_GRACE_SECONDS: i64 = 30;
const HOSTNAME: &str = "kubernetes.io/hostname";
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

/// Sets the desired state.
pub(super) fn mutate(desired: &DesiredCache<'_>, pod: &mut PodSpec) {
    pod.security_context = Some(restricted());
    pod.automount_service_account_token = Some(false);
    pod.enable_service_links = Some(false);
    pod.termination_grace_period_seconds = Some(TERMINATION_GRACE_SECONDS);
    let is_node_spread = |one: &TopologySpreadConstraint| {
        one.topology_key == HOSTNAME && one.when_unsatisfiable == SCHEDULE_ANYWAY
    };
    let spread = pod.topology_spread_constraints.get_or_insert_default();
    mutate_element(spread, is_node_spread, |one| *one = node_spread(desired.cache));
    let is_memcached = |one: &Container| one.name == CONTAINER;
    mutate_element(&mut pod.containers, is_memcached, |one| container::mutate(desired, one));
    let is_exporter = |one: &Container| one.name == EXPORTER;
    match &desired.cache.spec.metrics {
        Some(metrics) => {
            mutate_element(&mut pod.containers, is_exporter, |one| exporter::mutate(desired, metrics, one));
        }
        None => pod.containers.retain(|one| !is_exporter(one)),
    }
}

/// Mutates the first element that `matches`, or appends a new one.
fn mutate_element<T: Default>(list: &mut Vec<T>, matches: impl Fn(&T) -> bool, mutate: impl FnOnce(&mut T)) {
    if let Some(found) = list.iter_mut().find(|one| matches(one)) {
        mutate(found);
    } else {
        let mut new = T::default();
        mutate(&mut new);
        list.push(new);
    }
}

fn restricted() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(MEMCACHE_UID),
        run_as_group: Some(MEMCACHE_UID),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Returns a constraint that spreads the Pods of one revision over the nodes if possible, so that
/// the loss of a node loses few items.
fn node_spread(cache: &Memcached) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOSTNAME.to_owned(),
        when_unsatisfiable: SCHEDULE_ANYWAY.to_owned(),
        label_selector: Some(selector(cache)),
        match_label_keys: Some(vec![REVISION_LABEL.to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}
