//! The Pods of a Memcached.

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SeccompProfile, TopologySpreadConstraint,
};

use super::{
    Asked, CONTAINER, REVISION_LABEL, container,
    exporter::{self, EXPORTER},
    selector,
};
use crate::api::Memcached;

/// UID and GID of the user `memcache` in the official images.
const MEMCACHE: i64 = 11211;
/// Termination grace period, including the preStop hook.
const GRACE_SECONDS: i64 = 30;
const HOSTNAME: &str = "kubernetes.io/hostname";
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

/// Sets the desired state.
pub(super) fn shape(asked: &Asked<'_>, pod: &mut PodSpec) {
    pod.security_context = Some(restricted());
    pod.automount_service_account_token = Some(false);
    pod.enable_service_links = Some(false);
    pod.termination_grace_period_seconds = Some(GRACE_SECONDS);
    let over_hosts = |one: &TopologySpreadConstraint| {
        one.topology_key == HOSTNAME && one.when_unsatisfiable == SCHEDULE_ANYWAY
    };
    let spread = pod.topology_spread_constraints.get_or_insert_default();
    shape_one(spread, over_hosts, |one| *one = over_nodes(asked.cache));
    let serving = |one: &Container| one.name == CONTAINER;
    shape_one(&mut pod.containers, serving, |one| container::shape(asked, one));
    let exporting = |one: &Container| one.name == EXPORTER;
    match &asked.cache.spec.metrics {
        Some(metrics) => {
            shape_one(&mut pod.containers, exporting, |one| exporter::shape(asked, metrics, one));
        }
        None => pod.containers.retain(|one| !exporting(one)),
    }
}

/// Mutates the first element that `matches`, or appends a new one.
fn shape_one<T: Default>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, shape: impl FnOnce(&mut T)) {
    if let Some(found) = list.iter_mut().find(|one| is_it(one)) {
        shape(found);
    } else {
        let mut new = T::default();
        shape(&mut new);
        list.push(new);
    }
}

fn restricted() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(MEMCACHE),
        run_as_group: Some(MEMCACHE),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Returns a constraint that spreads the Pods of one revision over the nodes if possible, so that
/// the loss of a node loses few items.
fn over_nodes(cache: &Memcached) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOSTNAME.to_owned(),
        when_unsatisfiable: SCHEDULE_ANYWAY.to_owned(),
        label_selector: Some(selector(cache)),
        match_label_keys: Some(vec![REVISION_LABEL.to_owned()]),
        ..TopologySpreadConstraint::default()
    }
}
