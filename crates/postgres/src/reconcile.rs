//! The PostgresCluster controller.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use operator_core::{
    Controller, ControllerBuilder, ObjectKey, Outcome, Setting, Values,
    admission::Policy,
    error::chain,
    events::Events,
    informer::{Change, Informer},
    metrics::{Gauge, Histogram},
    owner::Owner,
    quantity::Quantity,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
};

use kube::{CustomResourceExt, ResourceExt};
use lease::{LeaseRecord, record};
use operator_core::kind::uid;
use parking_lot::Mutex;
use postgres_model::version::{Catalog, OFFICIAL_IMAGES};
use tokio::time::Instant;

use crate::{
    api::{PostgresBackup, PostgresCluster},
    backups::{BackupObjects, Members, Reconciled, Summary},
    build::{
        FENCE, FORCE_PROMOTE, RESTART, SWITCHOVER, pod::MemberImages, revision::revision,
        secret::server_names,
    },
    children::{ChildObjects, key},
    decide::{
        Action, Decision, Failover, Observed, Storage, Switchover, Synchronous, Updates, decide,
        requeue_after,
    },
    deletion::{Deleter, FINALIZER, Finalizer},
    error::Error,
    event_log, events,
    fence::stopped,
    identities::Identities,
    lease_state::LeaseState,
    live_owner::LiveOwner,
    members::MemberObjects,
    membership::{Membership, Serial},
    metrics::{GAUGES, HISTOGRAMS, Interruptions, readings},
    passwords::Passwords,
    protection, recovery,
    reports::Reports,
    resize_refusals,
    secrets::{Secrets, recheck},
    standbys::{streaming, successors},
    status::{Failure, Observation, status},
    timers::Timers,
    version::{Served, Unsupported, Versions, major_version},
};

/// Images of PostgreSQL.
pub const IMAGES: Setting = Setting {
    flag: "postgres-images",
    env: "POSTGRES_IMAGES",
    default: OFFICIAL_IMAGES,
    values: Values::Valid(|images| images.parse::<Catalog>().map(drop).map_err(|error| error.to_string())),
    help: "Images of PostgreSQL for each major version; the first entry is the default",
};

/// Image with the instance manager.
pub const INSTANCE_IMAGE: Setting = Setting {
    flag: "postgres-instance-image",
    env: "POSTGRES_INSTANCE_IMAGE",
    default: concat!("ensemble:", env!("CARGO_PKG_VERSION")),
    values: Values::Any,
    help: "Image with the instance manager that runs PostgreSQL in the Pods of a PostgresCluster",
};

/// Reconciles the members of each PostgresCluster.
pub struct PostgresClusterController {
    clusters: Informer<PostgresCluster>,
    children: ChildObjects,
    backups: BackupObjects,
    members: MemberObjects,
    finalizer: Finalizer,
    status: StatusWriter<PostgresCluster>,
    events: Events,
    identities: Arc<Identities>,
    passwords: Arc<Passwords>,
    reports: Arc<Reports>,
    timers: Arc<Mutex<Timers>>,
    versions: Versions,
    instance_image: String,
}

impl Controller for PostgresClusterController {
    const NAME: &'static str = "postgres";
    const OWNED_FINALIZER: Option<&'static str> = Some(FINALIZER);
    type Object = PostgresCluster;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            // Patches change the finalizer, and remove the annotation of a request that has been acted on.
            rule::<PostgresCluster>(GET | LIST | WATCH | PATCH),
            rule::<PostgresCluster>(UPDATE).subresource("status"),
            rule::<PostgresCluster>(UPDATE).subresource("finalizers"),
            // Patches let volumes grow, and record the members on them.
            rule::<PostgresBackup>(LIST | WATCH | CREATE | DELETE),
            rule::<PostgresBackup>(UPDATE).subresource("status"),
            rule::<PersistentVolumeClaim>(LIST | WATCH | CREATE | PATCH | DELETE),
            rule::<Pod>(LIST | WATCH | CREATE | PATCH | DELETE),
            rule::<Service>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<ServiceAccount>(GET | LIST | WATCH | CREATE | UPDATE),
            // Nobody can create a Role with rights that he does not have: the controller has those of
            // its members.
            rule::<Role>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<RoleBinding>(GET | LIST | WATCH | CREATE | UPDATE),
            rule::<Lease>(GET | LIST | WATCH | CREATE | UPDATE),
            // Read by name only.
            rule::<Secret>(GET | CREATE | UPDATE),
            rule::<PodDisruptionBudget>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
            rule::<NetworkPolicy>(GET | LIST | WATCH | CREATE | UPDATE | DELETE),
        ]
    }

    fn policies(_manager_namespace: &str) -> Vec<Policy> {
        protection::policies()
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![PostgresCluster::crd(), PostgresBackup::crd()]
    }

    fn gauges() -> &'static [&'static Gauge] {
        GAUGES
    }

    fn histograms() -> &'static [&'static Histogram] {
        HISTOGRAMS
    }

    fn settings() -> &'static [Setting] {
        &[IMAGES, INSTANCE_IMAGE]
    }

    fn build(builder: &mut ControllerBuilder<'_, PostgresCluster>) -> Self {
        let clusters = builder.objects().clone();
        let versions = Versions::from_setting(&builder.setting(&IMAGES));
        let default_version = versions.default_major();
        let reports = Arc::new(Reports::new(builder.trigger()));
        let timers = Arc::new(Mutex::new(Timers::default()));
        let secrets = Secrets::new(builder.client());
        let identities = Arc::new(Identities::new(secrets.clone()));
        let passwords = Arc::new(Passwords::new(secrets));
        let forgets = (reports.clone(), timers.clone(), identities.clone(), passwords.clone());
        let interruptions = Interruptions::build(builder);
        let measured = clusters.clone();
        builder.gauges(move || readings(measured.store().list()));
        builder.watches(&clusters, move |change| {
            event_log::log(change, &default_version);
            interruptions.note(change, Instant::now());
            let (reports, timers, identities, passwords) = &forgets;
            if let (Some(old), None) = (&change.old, &change.new) {
                let uid = uid(old.as_ref());
                reports.forget(&uid);
                identities.forget(&uid);
                passwords.forget(&uid);
                timers.lock().remove(&uid);
            }
            requested(change)
        });
        Self {
            clusters,
            children: ChildObjects::build(builder),
            backups: BackupObjects::build(builder),
            members: MemberObjects::build(builder),
            finalizer: Finalizer::new(builder.client(), builder.objects().clone()),
            status: builder.status(),
            events: builder.events(),
            identities,
            passwords,
            reports,
            timers,
            versions,
            instance_image: builder.setting(&INSTANCE_IMAGE),
        }
    }

    async fn reconcile(&self, cluster: Arc<PostgresCluster>) -> Result<Outcome, Error> {
        let owner = Owner::controller(cluster.as_ref(), cluster.metadata.namespace.as_deref())?;
        let cluster = if cluster.spec.paused { cluster } else { self.finalizer.reconcile(cluster).await? };
        let owner = LiveOwner::new(&cluster, &owner, self.members.clusters());
        let version = self.versions.serve(&cluster);
        let mut failures =
            if cluster.spec.paused { Vec::new() } else { Box::pin(self.children.reconcile(&owner)).await };
        if !cluster.spec.paused {
            failures.extend(self.passwords.ensure(&owner).await);
        }
        let followed = if cluster.spec.paused { Ok(()) } else { self.follow(&owner).await };
        let served = version.as_ref().ok().filter(|_| followed.is_ok());
        let images = served.map(|served| self.images(served));
        failures.extend(followed.err());
        stop_if_deleted(&mut failures)?;
        let (observed, decision) = self.decide(&cluster, served).await?;
        let stored = if self.may_decide(&cluster) {
            self.store(&cluster, &decision).await?
        } else {
            Outcome::AwaitChange
        };
        if stored == Outcome::Done {
            failures.extend(self.perform(&owner, images.as_ref(), &observed, &decision).await);
            stop_if_deleted(&mut failures)?;
        }
        if failures.iter().any(|failure| matches!(failure, Error::NamespaceTerminating(_))) {
            return Ok(Outcome::AwaitChange);
        }
        let backups = self.reconcile_backups(&owner, &observed).await;
        failures.extend(backups.failures);
        stop_if_deleted(&mut failures)?;
        let outcome =
            self.update_status(&cluster, &observed, &decision, &failures, &version, &backups.summary).await;
        // Awaiting cleanup needs no retry: the informers report when the old objects are gone.
        failures.into_iter().find(|failure| !matches!(failure, Error::AwaitingCleanup(_))).map_or(
            Ok(stored
                .and(outcome?)
                .and(Outcome::RequeueAfter(requeue_after(&observed, &decision, recheck(&cluster))))
                .and(self.next_growth(&cluster))
                .and(backups.outcome)),
            Err,
        )
    }

    async fn cleanup(&self, cluster: Arc<PostgresCluster>) -> Result<Outcome, Error> {
        let deletion = Deleter {
            members: &self.members,
            finalizer: &self.finalizer,
            status: &self.status,
            events: &self.events,
        };
        deletion.delete(&cluster).await
    }
}

/// Returns the key of a cluster whose annotations request something else than before.
fn requested(change: &Change<PostgresCluster>) -> Vec<ObjectKey> {
    let requests = |cluster: &Arc<PostgresCluster>| {
        [FENCE, FORCE_PROMOTE, SWITCHOVER, RESTART]
            .map(|annotation| cluster.annotations().get(annotation).cloned())
    };
    let is_new = change.old.as_ref().map(requests) != change.new.as_ref().map(requests);
    is_new.then(|| change.key.clone()).into_iter().collect()
}

/// Stops the reconcile of a cluster that was deleted, so that it writes nothing else.
fn stop_if_deleted(failures: &mut Vec<Error>) -> Result<(), Error> {
    let deleted = failures.iter().position(|failure| matches!(failure, Error::Deleted(_)));
    deleted.map_or(Ok(()), |index| Err(failures.swap_remove(index)))
}

impl PostgresClusterController {
    /// Creates the certificates, and follows the reports of the members.
    async fn follow(&self, owner: &LiveOwner<'_>) -> Result<(), Error> {
        let cluster = owner.cluster;
        let names = server_names(cluster, &Membership::of(cluster));
        let client = self.identities.ensure(owner, names).await?;
        let sources = self.members.sources(cluster);
        self.reports.follow(&uid(cluster), &ObjectKey::of(cluster), &client, sources);
        Ok(())
    }

    /// Brings the backups one step further, and asks their members for what is due.
    async fn reconcile_backups(&self, owner: &LiveOwner<'_>, observed: &Observed) -> Reconciled {
        let cluster = owner.cluster;
        let membership = Membership::of(&self.clusters.latest(Arc::new(cluster.clone())));
        let pods = observed.pods.iter().map(|(serial, pod)| (*serial, pod.uid.clone())).collect();
        let members = Members { membership: &membership, reports: &observed.reports, pods };
        let mut reconciled = self.backups.reconcile(owner, members, Timestamp::now()).await;
        for (serial, request) in reconciled.requests.drain(..) {
            self.reports.request(&uid(cluster), serial, request);
        }
        reconciled
    }

    /// Returns the words of the API server about volumes that must not grow.
    fn refusals(&self, cluster: &PostgresCluster) -> BTreeMap<Serial, String> {
        self.timers.lock().get(&uid(cluster)).map(|timers| timers.refusals.messages()).unwrap_or_default()
    }

    /// Returns when the growth of a volume is tried again.
    fn next_growth(&self, cluster: &PostgresCluster) -> Outcome {
        let is_refused = !self.refusals(cluster).is_empty();
        if is_refused { Outcome::RequeueAfter(resize_refusals::RETRY) } else { Outcome::Done }
    }

    fn images<'a>(&'a self, served: &'a Served) -> MemberImages<'a> {
        MemberImages {
            postgres: &served.image,
            user: served.user,
            instance: &self.instance_image,
            previous: served.previous.as_deref(),
        }
    }

    fn observe(&self, cluster: &PostgresCluster, lease: &LeaseState, served: Option<&Served>) -> Observed {
        let size = usize::try_from(cluster.spec.size).unwrap_or_default();
        let storage = Quantity::try_from(&cluster.spec.storage.size).ok();
        let membership = Membership::of(cluster);
        let reports = self.reports.of(&uid(cluster));
        let primary = membership.members.iter().find(|member| membership.is_primary(member.serial));
        let last_position = self.reports.last_position(&uid(cluster), primary.map(|member| member.serial));
        let primary = primary.and_then(|primary| reports.get(&primary.serial));
        let mut timers = self.timers.lock();
        let timers = timers.entry(uid(cluster)).or_default();
        let now = Instant::now();
        let streaming = streaming(primary);
        let streaming_since = timers.standbys.observe(streaming.clone(), now);
        let fence = stopped(cluster);
        let is_fenced = membership.failover.current.as_ref().is_some_and(|primary| fence.contains(primary));
        let failover = Failover {
            enabled: cluster.spec.failover.enabled,
            lease: Duration::from_secs(cluster.spec.failover.lease_seconds.into()),
            lease_expires_in: lease.expires_in,
            since_renewal: lease.since_renewal,
            expired_lease: lease.expired.clone(),
            since_change: timers.state.observe(membership.failover.clone(), now),
            max_lag: cluster.spec.failover.max_lag_bytes.try_into().unwrap_or_default(),
            last_position,
            since_fenced: timers.fenced.observe(is_fenced, now),
        };
        Observed {
            cluster_uid: uid(cluster),
            size,
            paused: cluster.spec.paused,
            hibernated: cluster.spec.hibernated,
            fence,
            when_scaled: cluster.spec.retention.when_scaled,
            former: cluster.spec.bootstrap.volumes,
            major_version: major_version(cluster),
            forced: cluster.annotations().get(FORCE_PROMOTE).cloned(),
            volumes: self.members.volumes(cluster),
            pods: self.members.pods(cluster),
            failover,
            synchronous: Synchronous {
                number: cluster.spec.synchronous.number(size),
                durability: cluster.spec.synchronous.durability,
                streaming_since: streaming.as_ref().map_or(Duration::ZERO, |_| streaming_since),
                streaming: streaming.unwrap_or_default(),
            },
            switchover: Switchover {
                request: cluster.annotations().get(SWITCHOVER).cloned(),
                successors: primary.map(successors).unwrap_or_default(),
            },
            updates: Updates {
                revision: served.map(|served| revision(cluster, &served.image)),
                primary: cluster.spec.updates.primary,
            },
            storage: Storage { refused: timers.refusals.recent(storage, now), size: storage },
            upgrade: served.and_then(|served| served.upgrade.clone()),
            recovery: recovery::source(cluster, |name| self.backups.get(&key(cluster, name))),
            membership,
            reports,
        }
    }

    /// Decides by the cache, and again if that would give up a target that has just acquired the Lease.
    ///
    /// # Errors
    /// Returns an error if the Lease cannot be read, although the decision depends on it.
    async fn decide(
        &self,
        cluster: &PostgresCluster,
        served: Option<&Served>,
    ) -> Result<(Observed, Decision), Error> {
        let lease = self.lease_state(cluster).await?;
        let mut observed = self.observe(cluster, &lease, served);
        let decision = decide(&observed);
        let (before, after) = (&observed.membership.failover, &decision.membership.failover);
        let Some(cached) = lease.unproven_for(before, after) else { return Ok((observed, decision)) };
        let duration = cached.duration.max(observed.failover.lease);
        let proven = self.proven_lease(cluster, cached.clone(), duration).await?;
        if proven.expires_in.is_zero() {
            return Ok((observed, decision));
        }
        observed.failover.lease_expires_in = proven.expires_in;
        observed.failover.since_renewal = proven.since_renewal;
        let decision = decide(&observed);
        Ok((observed, decision))
    }

    /// Returns when the Lease expires unless it is renewed.
    ///
    /// # Errors
    /// Returns an error if the Lease looks expired, and cannot be read to see whether the cache is stale.
    async fn lease_state(&self, cluster: &PostgresCluster) -> Result<LeaseState, Error> {
        let spec = Duration::from_secs(cluster.spec.failover.lease_seconds.into());
        let Some(lease) = self.children.lease(cluster) else { return Ok(LeaseState::missing(spec)) };
        let known = record(&lease);
        let duration = known.duration.max(spec);
        // Comes first: a Lease that expires meanwhile reconciles the cluster again.
        self.children.await_lease_age(cluster, &known.version, duration);
        let unchanged = self.children.lease_age(cluster, &known.version);
        if let Some(state) = LeaseState::by_cache(&known, duration, unchanged) {
            return Ok(state);
        }
        self.proven_lease(cluster, known, duration).await
    }

    /// Returns the state of a Lease that looks free or expired, after a look at the API server.
    async fn proven_lease(
        &self,
        cluster: &PostgresCluster,
        known: LeaseRecord,
        duration: Duration,
    ) -> Result<LeaseState, Error> {
        let latest = self.children.read_lease(cluster).await.map_err(Error::from_write)?;
        Ok(LeaseState::by_api_server(known, duration, latest.as_ref().map(record).as_ref()))
    }

    /// Returns whether members may be created. A Lease that is created after the first of them has to
    /// age before it can be held, so it comes first.
    fn may_decide(&self, cluster: &PostgresCluster) -> bool {
        let has_begun = cluster.status.as_ref().is_some_and(|status| status.bootstrap.is_some());
        has_begun || self.children.lease(cluster).is_some()
    }

    /// Returns whether the API server has no other fence than the cache. A primary stops as soon as it
    /// reads that it is fenced, and the cache can show its end before its cause.
    async fn fence_is_current(&self, cluster: &PostgresCluster) -> Result<bool, Error> {
        let latest = self.members.read_cluster(cluster).await.map_err(Error::from_write)?;
        Ok(latest.is_some_and(|latest| stopped(&latest) == stopped(cluster)))
    }

    /// Stores the membership of a decision, if it changed. Its actions may be performed only if the
    /// outcome is [`Outcome::Done`].
    async fn store(&self, cluster: &PostgresCluster, decision: &Decision) -> Result<Outcome, Error> {
        let before = Membership::of(cluster);
        if decision.membership == before {
            return Ok(Outcome::Done);
        }
        let (old, new) = (&before.failover, &decision.membership.failover);
        let gives_up_primary = old.current.is_some() && new.epoch > old.epoch;
        if gives_up_primary && !self.fence_is_current(cluster).await? {
            return Ok(Outcome::AwaitChange);
        }
        let next = |known: &PostgresCluster| {
            let status = known.status.clone().unwrap_or_default();
            // Another writer has changed the membership: the next reconcile decides again.
            if Membership::of(known) != before {
                return status;
            }
            decision.membership.store(status)
        };
        let written = self.status.write(cluster, next).await.map_err(Error::Status)?;
        let latest = self.clusters.store().get(&ObjectKey::of(cluster));
        let is_stored = latest.is_some_and(|latest| {
            latest.metadata.uid == cluster.metadata.uid && Membership::of(&latest) == decision.membership
        });
        if written == Outcome::Done && !is_stored {
            return Ok(Outcome::AwaitChange);
        }
        if is_stored {
            events::record(&self.events, cluster, &before, &decision.membership);
            if decision.is_forced {
                events::record_forced(&self.events, cluster, &decision.membership);
            }
        }
        Ok(written)
    }

    /// Performs the actions of a decision. A failure of one does not block the others. Without
    /// images, no Pod is created.
    async fn perform(
        &self,
        owner: &LiveOwner<'_>,
        images: Option<&MemberImages<'_>>,
        observed: &Observed,
        decision: &Decision,
    ) -> Vec<Error> {
        let cluster = owner.cluster;
        let mut failures = Vec::new();
        for action in &decision.actions {
            if let Action::Seal(serial, epoch) = action {
                self.reports.seal(&uid(cluster), *serial, *epoch);
            }
            let performed = self.members.perform(owner, images, decision, action).await;
            failures.extend(self.note_growth(cluster, observed, action, performed.err()));
        }
        failures
    }

    /// Notes whether the API server let a volume grow. Returns a failure that is no refusal.
    fn note_growth(
        &self,
        cluster: &PostgresCluster,
        observed: &Observed,
        action: &Action,
        failure: Option<Error>,
    ) -> Option<Error> {
        let Action::GrowVolume(serial, _) = action else { return failure };
        let refusal = match &failure {
            Some(Error::Denied(error)) => Some(chain(error)),
            _ => None,
        };
        let is_refused = refusal.is_some();
        let mut timers = self.timers.lock();
        let refusals = &mut timers.entry(uid(cluster)).or_default().refusals;
        refusals.note(*serial, observed.storage.size, refusal, Instant::now());
        failure.filter(|_| !is_refused)
    }

    /// Computes the status from the cache and from the failures, and writes it if it changed.
    async fn update_status(
        &self,
        cluster: &Arc<PostgresCluster>,
        observed: &Observed,
        decision: &Decision,
        failures: &[Error],
        version: &Result<Served, Unsupported>,
        backups: &Summary,
    ) -> Result<Outcome, Error> {
        let latest = self.clusters.latest(cluster.clone());
        let failures: Vec<_> = failures.iter().map(Failure::from_error).collect();
        let pods = self.members.states(cluster);
        let refusals = self.refusals(cluster);
        let now = Timestamp::now();
        let next = |known: &PostgresCluster| {
            let membership = Membership::of(known);
            let observation = Observation {
                membership: &membership,
                pods: &pods,
                problems: &decision.problems,
                obstacle: decision.obstacle.as_ref(),
                outdated: &decision.outdated,
                retained: &decision.retained,
                adoption_problem: decision.adoption_problem.as_ref(),
                recovery_problem: decision.recovery_problem.as_ref(),
                reports: &observed.reports,
                volumes: &observed.volumes,
                refusals: &refusals,
                successors: &observed.switchover.successors,
                failures: &failures,
                version,
                backups,
            };
            status(known, &observation, now)
        };
        let written = self.status.write(&latest, next).await.map_err(Error::Status);
        events::record_archive(&self.events, &latest, &self.clusters.latest(latest.clone()));
        written
    }
}
