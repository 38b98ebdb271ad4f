//! Children that a cluster owns: Services, the PodDisruptionBudget, the NetworkPolicy, the Lease, and
//! what the members need to use the API.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{Role, RoleBinding},
};
use kube::ResourceExt;
use operator_core::{
    ControllerBuilder, ObjectKey,
    builder::controllers_of,
    kind::{Kind, uid},
    owner::controller_of,
    write::{Children, WriteError},
    writer::Writer,
};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    api::PostgresCluster,
    build::{access, budget, lease, network, service::Access},
    error::Error,
    lease_ages::{LeaseAges, is_renewal},
    live_owner::LiveOwner,
};

/// Reads and writes the children of all clusters.
pub(crate) struct ChildObjects {
    services: Children<Service>,
    budgets: Children<PodDisruptionBudget>,
    policies: Children<NetworkPolicy>,
    leases: Children<Lease>,
    live_leases: Writer<Lease>,
    lease_ages: LeaseAges,
    _expiry: AbortOnDropHandle<()>,
    accounts: Children<ServiceAccount>,
    roles: Children<Role>,
    bindings: Children<RoleBinding>,
}

impl ChildObjects {
    /// Starts the informers. A cluster is reconciled when one of its children changes.
    pub(crate) fn build(builder: &mut ControllerBuilder<'_, PostgresCluster>) -> Self {
        let lease_ages = LeaseAges::default();
        let seen = lease_ages.clone();
        let leases = builder.children::<Lease>(move |change| {
            seen.record(change, Instant::now());
            if is_renewal(change) { Vec::new() } else { controllers_of::<Lease, PostgresCluster>(change) }
        });
        let trigger = builder.trigger();
        let expiry = tokio::spawn(lease_ages.clone().reconcile_expired(move |key| trigger.reconcile(key)));
        Self {
            services: builder.owns(),
            budgets: builder.owns(),
            policies: builder.owns(),
            live_leases: builder.writer(leases.informer().clone()),
            leases,
            lease_ages,
            _expiry: AbortOnDropHandle::new(expiry),
            accounts: builder.owns(),
            roles: builder.owns(),
            bindings: builder.owns(),
        }
    }

    /// Returns the Lease of a cluster. That of a former cluster of its name is about to go.
    pub(crate) fn lease(&self, cluster: &PostgresCluster) -> Option<Arc<Lease>> {
        let lease = self.leases.get(&key(cluster, &cluster.name_any()))?;
        let is_own = controller_of(&lease.metadata).is_some_and(|owner| owner.uid == uid(cluster));
        is_own.then_some(lease)
    }

    /// Returns how long the Lease of a cluster has had this version, as far as this process knows.
    pub(crate) fn lease_age(&self, cluster: &PostgresCluster, version: &str) -> Duration {
        self.lease_ages.of(&key(cluster, &cluster.name_any()), version, Instant::now())
    }

    /// Reconciles a cluster when its Lease reaches this age, unless it is renewed before.
    pub(crate) fn await_lease_age(&self, cluster: &PostgresCluster, version: &str, age: Duration) {
        self.lease_ages.await_age(&key(cluster, &cluster.name_any()), version, age, Instant::now());
    }

    /// Reads the Lease of a cluster from the API server.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub(crate) async fn read_lease(&self, cluster: &PostgresCluster) -> Result<Option<Lease>, WriteError> {
        self.live_leases.read(&key(cluster, &cluster.name_any())).await
    }

    /// Creates, updates, and deletes the children as the spec requires.
    ///
    /// A failure on one object does not block the others. Returns all failures.
    pub(crate) async fn reconcile(&self, owner: &LiveOwner<'_>) -> Vec<Error> {
        let cluster = owner.cluster;
        let (name, own) = (cluster.name_any(), |name: &str| key(cluster, name));
        let account = |object: &mut _| access::mutate_account(cluster, object);
        let role = |object: &mut _| access::mutate_role(cluster, object);
        let binding = |object: &mut _| access::mutate_binding(cluster, object);
        let lease = |object: &mut _| lease::mutate(cluster, object);
        let mut results = vec![
            reconcile_child(&self.accounts, owner, own(&name), Some(account)).await,
            // Comes before the binding: the API server compares its rights with those of the writer.
            reconcile_child(&self.roles, owner, own(&name), Some(role)).await,
            reconcile_child(&self.bindings, owner, own(&name), Some(binding)).await,
            reconcile_child(&self.leases, owner, own(&name), Some(lease)).await,
        ];
        for access in Access::ALL {
            let mutate = |object: &mut _| access.mutate(cluster, object);
            results
                .push(reconcile_child(&self.services, owner, own(&access.name(cluster)), Some(mutate)).await);
        }
        let mutate = budget::is_needed(cluster).then_some(|object: &mut _| budget::mutate(cluster, object));
        results.push(reconcile_child(&self.budgets, owner, own(&name), mutate).await);
        let is_enabled = cluster.spec.network_policy.enabled;
        let mutate = is_enabled.then_some(|object: &mut _| network::mutate(cluster, object));
        results.push(reconcile_child(&self.policies, owner, own(&name), mutate).await);
        results.into_iter().filter_map(Result::err).collect()
    }
}

/// Returns the key of an object in the namespace of the cluster.
pub(crate) fn key(cluster: &PostgresCluster, name: &str) -> ObjectKey {
    ObjectKey::namespaced(&cluster.namespace().unwrap_or_default(), name)
}

async fn reconcile_child<K>(
    children: &Children<K>,
    owner: &LiveOwner<'_>,
    key: ObjectKey,
    mutate: Option<impl Fn(&mut K)>,
) -> Result<(), Error>
where
    K: Kind + Serialize + PartialEq + Default,
{
    if mutate.is_some() && children.get(&key).is_none() {
        owner.confirm().await?;
    }
    children.reconcile(&key, owner.owner, mutate).await.map(drop).map_err(Error::from_write)
}
