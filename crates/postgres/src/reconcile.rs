//! The PostgresCluster controller.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{PersistentVolumeClaim, Pod, Service, ServiceAccount},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
    jiff::Timestamp,
};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, Setting,
    events::Events,
    informer::Informer,
    owner::Owner,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
};

use postgres_model::version::OFFICIAL_IMAGES;

use crate::{
    api::PostgresCluster,
    build::{member_name, pod::MemberImages},
    children::ChildObjects,
    decide::{Decision, Observed, decide},
    error::Error,
    event_log, events,
    members::MemberObjects,
    membership::Membership,
    status::{Failure, Observation, status},
    version::{Served, Unsupported, Versions},
};

/// Images of PostgreSQL.
pub const IMAGES: Setting = Setting {
    flag: "postgres-images",
    env: "POSTGRES_IMAGES",
    default: OFFICIAL_IMAGES,
    values: &[],
    help: "Images of PostgreSQL for each major version; the first entry is the default",
};

/// Image with the instance manager.
pub const INSTANCE_IMAGE: Setting = Setting {
    flag: "postgres-instance-image",
    env: "POSTGRES_INSTANCE_IMAGE",
    default: concat!("ensemble:", env!("CARGO_PKG_VERSION")),
    values: &[],
    help: "Image with the instance manager that runs PostgreSQL in the Pods of a PostgresCluster",
};

/// Reconciles the members of each PostgresCluster.
pub struct PostgresClusterController {
    clusters: Informer<PostgresCluster>,
    children: ChildObjects,
    members: MemberObjects,
    status: StatusWriter<PostgresCluster>,
    events: Events,
    versions: Versions,
    instance_image: String,
}

impl Controller for PostgresClusterController {
    const NAME: &'static str = "postgres";
    type Object = PostgresCluster;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<PostgresCluster>(GET | LIST | WATCH),
            rule::<PostgresCluster>(UPDATE).subresource("status"),
            rule::<PostgresCluster>(UPDATE).subresource("finalizers"),
            rule::<PersistentVolumeClaim>(LIST | WATCH | CREATE | DELETE),
            rule::<Pod>(LIST | WATCH | CREATE | PATCH | DELETE),
            rule::<Service>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<ServiceAccount>(GET | LIST | WATCH | CREATE | UPDATE),
            // Nobody can create a Role with rights that he does not have: the controller has those of
            // its members.
            rule::<Role>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<RoleBinding>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<Lease>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<PodDisruptionBudget>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
        ]
    }

    fn settings() -> &'static [Setting] {
        &[IMAGES, INSTANCE_IMAGE]
    }

    fn build(builder: &mut ControllerBuilder<'_, PostgresCluster>) -> Self {
        let clusters = builder.objects().clone();
        let versions = Versions::from_setting(&builder.setting(&IMAGES));
        let default_version = versions.default_major();
        builder.watches(&clusters, move |change| {
            event_log::log(change, &default_version);
            Vec::new()
        });
        Self {
            clusters,
            children: ChildObjects::build(builder),
            members: MemberObjects::build(builder),
            status: builder.status(),
            events: builder.events(),
            versions,
            instance_image: builder.setting(&INSTANCE_IMAGE),
        }
    }

    async fn reconcile(&self, cluster: Arc<PostgresCluster>) -> Result<Outcome, Error> {
        let owner = Owner::controller(cluster.as_ref(), cluster.metadata.namespace.as_deref())?;
        let version = self.versions.serve(&cluster.spec);
        let mut failures = if cluster.spec.paused {
            Vec::new()
        } else {
            Box::pin(self.children.reconcile(&cluster, &owner)).await
        };
        let decision = decide(&self.observe(&cluster));
        let stored = if self.may_decide(&cluster) {
            self.store(&cluster, &decision).await?
        } else {
            Outcome::AwaitChange
        };
        if stored == Outcome::Done
            && let Ok(served) = &version
        {
            failures.extend(self.perform(&cluster, &owner, served, &decision).await);
        }
        if failures.iter().any(|failure| matches!(failure, Error::NamespaceTerminating(_))) {
            return Ok(Outcome::AwaitChange);
        }
        let outcome = self.update_status(&cluster, &decision, &failures, &version).await;
        // Awaiting cleanup needs no retry: the informers report when the old objects are gone.
        failures
            .into_iter()
            .find(|failure| !matches!(failure, Error::AwaitingCleanup(_)))
            .map_or(Ok(stored.and(outcome?)), Err)
    }
}

impl PostgresClusterController {
    fn observe(&self, cluster: &PostgresCluster) -> Observed {
        Observed {
            size: usize::try_from(cluster.spec.size).unwrap_or_default(),
            paused: cluster.spec.paused,
            when_scaled: cluster.spec.retention.when_scaled,
            membership: Membership::of(cluster.status.as_ref()),
            volumes: self.members.volumes(cluster),
            pods: self.members.pods(cluster),
        }
    }

    /// Returns whether members may be created. A Lease that is created after the first of them has to
    /// age before it can be held, so it comes first.
    fn may_decide(&self, cluster: &PostgresCluster) -> bool {
        let has_begun = cluster.status.as_ref().is_some_and(|status| status.bootstrap.is_some());
        has_begun || self.children.has_lease(cluster)
    }

    /// Stores the membership of a decision, if it changed. Its actions may be performed only if the
    /// outcome is [`Outcome::Done`].
    async fn store(&self, cluster: &PostgresCluster, decision: &Decision) -> Result<Outcome, Error> {
        let before = Membership::of(cluster.status.as_ref());
        if decision.membership == before {
            return Ok(Outcome::Done);
        }
        let next = |known: &PostgresCluster| {
            let status = known.status.clone().unwrap_or_default();
            // Another writer has changed the membership: the next reconcile decides again.
            if Membership::of(known.status.as_ref()) != before {
                return status;
            }
            decision.membership.store(status, |serial| member_name(cluster, serial))
        };
        let written = self.status.write(cluster, next).await.map_err(Error::Status)?;
        let latest = self.clusters.store().get(&ObjectKey::of(cluster));
        let is_stored = latest.is_some_and(|latest| {
            latest.metadata.uid == cluster.metadata.uid
                && Membership::of(latest.status.as_ref()) == decision.membership
        });
        if written == Outcome::Done && !is_stored {
            return Ok(Outcome::AwaitChange);
        }
        if is_stored {
            events::record(&self.events, cluster, &before, &decision.membership);
        }
        Ok(written)
    }

    /// Performs the actions of a decision. A failure of one does not block the others.
    async fn perform(
        &self,
        cluster: &PostgresCluster,
        owner: &Owner,
        served: &Served,
        decision: &Decision,
    ) -> Vec<Error> {
        let images =
            MemberImages { postgres: &served.image, user: served.user, instance: &self.instance_image };
        let mut failures = Vec::new();
        for action in &decision.actions {
            let performed = self.members.perform(cluster, owner, &images, action).await;
            failures.extend(performed.err().map(Error::from_write));
        }
        failures
    }

    /// Computes the status from the cache and from the failures, and writes it if it changed.
    async fn update_status(
        &self,
        cluster: &Arc<PostgresCluster>,
        decision: &Decision,
        failures: &[Error],
        version: &Result<Served, Unsupported>,
    ) -> Result<Outcome, Error> {
        let latest = self.clusters.latest(cluster.clone());
        let failures: Vec<_> = failures.iter().map(Failure::from_error).collect();
        let pods = self.members.states(cluster);
        let now = Timestamp::now();
        let next = |known: &PostgresCluster| {
            let membership = Membership::of(known.status.as_ref());
            let observed = Observation {
                membership: &membership,
                pods: &pods,
                problems: &decision.problems,
                failures: &failures,
                version,
            };
            status(known, &observed, now)
        };
        self.status.write(&latest, next).await.map_err(Error::Status)
    }
}
