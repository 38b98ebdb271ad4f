//! The pods of a cache.

use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, SeccompProfile, TopologySpreadConstraint,
};

use super::{
    Asked, CONTAINER, REVISION_LABEL, container,
    exporter::{self, EXPORTER},
    selector,
};
use crate::api::Memcached;

/// The user and group `memcache` of the official images.
const MEMCACHE: i64 = 11211;
/// How long a pod may take to end, its farewell included.
const GRACE_SECONDS: i64 = 30;
const HOSTNAME: &str = "kubernetes.io/hostname";
const SCHEDULE_ANYWAY: &str = "ScheduleAnyway";

/// Makes the pods what the cache asks.
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

/// Shapes the element that `is_it` finds, or a new one at the end.
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

/// Spreads the pods of one revision over the nodes, as far as there are nodes, so that the loss of a node
/// costs as little of the cache as can be.
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
