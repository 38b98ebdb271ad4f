//! Reasons of conditions and Events: one spelling for one state in all controllers.
//!
//! Reasons are API. Scripts and alerts compare them, so a reason never changes its spelling or its
//! meaning. Where Kubernetes has a reason for a state, as the ReplicaSet controller has
//! `FailedCreate`, that reason is used.
//!
//! A controller imports the constants it uses. [`CATALOG`] documents each of them; the reference
//! page of reasons is generated from it.

/// Documentation of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The reason as it appears in conditions and Events.
    pub name: &'static str,
    /// What the reason says about the object.
    pub meaning: &'static str,
    /// What you can do. Empty if there is nothing to do.
    pub action: &'static str,
}

/// Declares each reason once: a documented constant, and its entry in [`CATALOG`].
macro_rules! reasons {
    ($($group:literal { $($constant:ident = $name:literal, $meaning:literal, $action:literal;)* })*) => {
        $($(
            #[doc = $meaning]
            pub const $constant: &str = $name;
        )*)*

        /// Every reason, grouped as on the reference page: the title of the group and its reasons.
        pub const CATALOG: &[(&str, &[Reason])] = &[$(
            ($group, &[$(Reason { name: $constant, meaning: $meaning, action: $action }),*]),
        )*];
    };
}

reasons! {
    "The object and its children match the spec" {
        AS_SPECIFIED = "AsSpecified",
            "Everything matches the spec.",
            "";
        SUCCEEDED = "Succeeded",
            "The Tenant, the namespace, or the configuration matches the spec. The reason of \
             Capsule's API.",
            "";
        ACTIVE = "Active",
            "The namespace is owned and active, or the Tenant is not cordoned.",
            "";
        NONE = "None",
            "No former PostgresCluster of the same name has left volumes.",
            "";
        NO_FAILURE = "NoFailure",
            "Every Pod could be created, deleted, adopted, or released.",
            "";
        DELIVERED = "Delivered",
            "All hook calls that were due were accepted.",
            "";
        NO_HOOKS = "NoHooks",
            "The spec has no hooks.",
            "";
        ENFORCED = "Enforced",
            "Every field of the Tenant that is set is enforced.",
            "";
    }
    "Work in progress" {
        RECONCILING = "Reconciling",
            "The controller works on a new spec.",
            "";
        SCALING = "Scaling",
            "The number of Pods is about to change.",
            "";
        ROLLING_OUT = "RollingOut",
            "A rollout is in progress.",
            "";
        FAILING_OVER = "FailingOver",
            "The primary has failed, and another member takes its place.",
            "If it stays, look at the Pods of the members: a member that does not answer delays it.";
        RECOVERING = "Recovering",
            "The database is recovered from an archive, or the members of a former PostgresCluster are compared. \
             The one with the most rows becomes the primary.",
            "If it stays, look at the Pods of the members that the message names.";
        RECOVERY_FAILING = "RecoveryFailing",
            "The recovery from an archive cannot begin, or does not go on.",
            "Solve what the message says. The recovery is tried again by itself.";
        SWITCHING_OVER = "SwitchingOver",
            "Another member takes the place of the primary, on request or because of a rollout.",
            "If it stays, look at the Pods of the members: a member that does not answer delays it.";
        SWITCHOVER_REQUIRED = "SwitchoverRequired",
            "Only the primary is left of a rollout, and `spec.updates.primary` is `Manual`.",
            "Set the annotation `lukeb0nd.com/switchover=any` when it suits your application.";
        RESTART_PENDING = "RestartPending",
            "PostgreSQL uses a new parameter after a restart.",
            "";
        GROWING = "Growing",
            "A volume is smaller than its claim requests.",
            "If it stays, the message and `kubectl describe pvc` say what the claim waits for.";
        PAUSED = "Paused",
            "`spec.paused` stops the controller.",
            "Set `spec.paused` to `false` to continue.";
        VOLUME_TERMINATING = "VolumeTerminating",
            "The volume of a member is being deleted.",
            "A volume in use stays until its Pod is gone. The other members keep the data.";
        BACKUP_WAITING = "BackupWaiting",
            "The backup has not begun.",
            "The message says what it waits for: another backup, the primary, or `spec.backup`.";
        BACKUP_RUNNING = "BackupRunning",
            "A member makes the backup.",
            "";
        PODS_NOT_READY = "PodsNotReady",
            "Fewer Pods are ready than desired.",
            "Run `ensemblectl status` or `kubectl describe pod` to see what the Pods wait for.";
        MIN_READY_SECONDS = "MinReadySeconds",
            "All Pods are ready, but not yet for `minReadySeconds`.",
            "";
        HOOK_PENDING = "HookPending",
            "A hook call is due or waits for a retry.",
            "If it stays, check that the endpoint answers; `status.hooks` has its last error.";
        AWAITING_CLEANUP = "AwaitingCleanup",
            "An object of a deleted object with the same name still exists.",
            "Wait until the garbage collector has removed it. If it stays, look at its finalizers.";
        NAMESPACE_NOT_READY = "NamespaceNotReady",
            "The objects in the namespace are not reconciled, because the namespace is not ready.",
            "Resolve what the condition `NamespaceReady` reports.";
        TERMINATING = "Terminating",
            "The object or the namespace is being deleted.",
            "If it stays, remove what the message lists.";
        PENDING_UNMANAGED_CONTENT = "PendingUnmanagedContent",
            "Objects or finalizers in the namespace delay its deletion.",
            "Remove what the message lists.";
        CORDONED = "Cordoned",
            "The Tenant is cordoned: its users can change nothing.",
            "Set `spec.cordoned` to `false` to end it.";
        NOT_IN_EFFECT = "NotInEffect",
            "The CapsuleConfiguration is not the one that the manager uses.",
            "Edit the configuration that the message names.";
        NOT_IN_TENANT = "NotInTenant",
            "The namespace of the ProxySetting belongs to no Tenant.",
            "Create the ProxySetting in a namespace of the Tenant.";
        MISSING_RIGHT = "MissingRight",
            "The proxy may not list a kind that the GlobalProxySettings names.",
            "Bind the ServiceAccount of the proxy to a ClusterRole with the rights in the message.";
        NOT_ENFORCED = "NotEnforced",
            "Some fields of the Tenant have no effect in this version.",
            "Remove the fields that the message lists, or enforce them by other means.";
    }
    "Something is wrong" {
        BLOCKED = "Blocked",
            "No progress is possible until the failure in the condition `Degraded` is resolved.",
            "Resolve what `Degraded` reports.";
        REPLICA_FAILURE = "ReplicaFailure",
            "The Deployment could not create its Pods.",
            "The message has the cause: a quota, an admission policy, or an invalid template.";
        PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded",
            "The Deployment exceeded its progress deadline.",
            "Look at its Pods with `kubectl describe pod`.";
        NAME_CONFLICT = "NameConflict",
            "An object of the same name exists and has another owner.",
            "Delete or rename one of the two.";
        NOT_OWNED = "NotOwned",
            "The namespace exists and no NamespacePlus owns it.",
            "Delete the namespace, or set the adoption annotation on it.";
        OWNED_BY_ANOTHER = "OwnedByAnother",
            "Another NamespacePlus owns the namespace.",
            "Delete one of the two NamespacePluses, or use another name.";
        DENIED = "Denied",
            "The name is protected, or the API server denied a write: a quota, an admission \
             policy, or a missing permission.",
            "The message has the API server's answer. Raise the quota, change the policy, or \
             grant the permission.";
        INVALID_SPEC = "InvalidSpec",
            "The API server rejected an object that the spec describes.",
            "Correct the field that the message names.";
        INVALID_OWNER = "InvalidOwner",
            "The object cannot own other objects, because it lacks a name or a UID.",
            "Report it as a bug: the API server sets both.";
        HOOK_FAILED = "HookFailed",
            "A hook call failed permanently.",
            "The message has the answer of the endpoint. Change the spec, or annotate the object \
             to call it again.";
        NO_PRIMARY = "NoPrimary",
            "The PostgresCluster has no primary, or its primary is not ready.",
            "Look at the Pod that the message names: `kubectl describe pod` and `kubectl logs`.";
        HIBERNATED = "Hibernated",
            "`spec.hibernated` is true: the members are stopped, and their volumes stay.",
            "Set `spec.hibernated` to `false` to start them again.";
        FENCED = "Fenced",
            "A person has fenced the primary: nobody takes writes, and no member takes its place.",
            "Remove the primary from the annotation `lukeb0nd.com/fence`, or the annotation.";
        NO_QUORUM = "NoQuorum",
            "The members that answer may lack acknowledged writes, so none of them is promoted.",
            "Bring one of the members back that the message lists. If it is gone for good, set the \
             annotation `lukeb0nd.com/force-promote=any`: rows that only it has are lost then.";
        ASYNC_LAG = "AsyncLag",
            "The member with the most WAL lacks more of it than `spec.failover.maxLagBytes`.",
            "Bring the former primary back, or raise `maxLagBytes` and lose what is missing.";
        SYNC_LOWERED = "SyncLowered",
            "A commit waits for fewer standbys than the spec says, or for none.",
            "Bring the missing standbys back. With `durability: required`, writes wait instead.";
        FAILOVER_DISABLED = "FailoverDisabled",
            "The primary has failed, and `spec.failover.enabled` is `false`.",
            "Bring the primary back, or set `spec.failover.enabled` to `true`.";
        ASYNCHRONOUS = "Asynchronous",
            "A commit waits for no standby, so a failover can lose acknowledged writes.",
            "Set `spec.synchronous.number` to at least 1, or accept the loss.";
        SINGLE_MEMBER = "SingleMember",
            "The PostgresCluster has one member, and no copy of its data.",
            "Raise `spec.size` to at least 2, or accept the risk.";
        DISK_FULL = "DiskFull",
            "No member has both the data and space on its volume, so nobody takes writes.",
            "Raise `spec.storage.size`. The members go on by themselves.";
        FULL = "Full",
            "The volume of a member is full, so PostgreSQL does not run there.",
            "Raise `spec.storage.size`. The member goes on by itself when it has more space.";
        LOW_SPACE = "LowSpace",
            "A member has little space left on its volume.",
            "Raise `spec.storage.size`, or delete data, before PostgreSQL has to stop.";
        RESIZE_REFUSED = "ResizeRefused",
            "The API server does not let the volume of a member grow.",
            "The message has the API server's answer. Use a storage class with \
             `allowVolumeExpansion`, or raise the quota.";
        VOLUME_LOST = "VolumeLost",
            "The volume of a member no longer exists.",
            "Restore the volume, or lower `spec.size` to remove the member and raise it again.";
        RETAINED = "Retained",
            "Volumes of a former PostgresCluster of the same name exist, and no member uses them.",
            "Delete them if you do not need their data.";
        VOLUME_CONFLICT = "VolumeConflict",
            "A volume with the name of a member's volume is another one.",
            "Rename or delete the volume that the message names.";
        END_OF_LIFE = "EndOfLife",
            "The version of the spec is no longer maintained, so the default version runs.",
            "Set `spec.version` to the version that runs.";
        NOT_IN_CATALOG = "NotInCatalog",
            "The manager has no image for the version of the spec.",
            "Use a version that the message lists, or add an image to `--postgres-images`.";
        NOT_CONFIGURED = "NotConfigured",
            "`spec.backup` is not set, so nothing is archived.",
            "Set `spec.backup` to be able to recover from the loss of all volumes.";
        FAILING = "Failing",
            "WAL cannot be archived. It stays on the volumes, and fills them in the end.",
            "The message has the words of the object store, and what to do.";
        CONFLICT = "Conflict",
            "The object store has other content at the place of this cluster. Nothing is overwritten, \
             and archiving has stopped.",
            "Find out who writes there. Then move the object away, or choose another `serverName` or \
             prefix, and make a new backup.";
        NEVER = "Never",
            "The cluster has no backup yet.",
            "Create a PostgresBackup, or wait for the schedule.";
        STALE = "Stale",
            "The last backup is older than twice the time between two backups of the schedule.",
            "Read the status of the last PostgresBackups.";
        LAST_BACKUP_FAILED = "LastBackupFailed",
            "The last backup failed, and none is as recent as the schedule says.",
            "The message has the reason. Mend it, and create a PostgresBackup.";
        INVALID_SCHEDULE = "InvalidSchedule",
            "A schedule has an invalid cron expression or time zone, so it makes no backups.",
            "The message has the words of the parser. Mend `spec.backup.schedules`.";
        BACKUP_FAILED = "BackupFailed",
            "The backup was given up.",
            "The message has the reason. Create another PostgresBackup.";
        ARCHIVE_FAILING = "ArchiveFailing",
            "WAL cannot be archived.",
            "Read the condition Archiving.";
        PARAMETERS_REFUSED = "ParametersRefused",
            "PostgreSQL refuses `spec.parameters`, and runs with the former ones.",
            "The message has the words of PostgreSQL. Mend the parameter.";
        DATABASES_FAILED = "DatabasesFailed",
            "PostgreSQL refuses a role or a database of the spec. All others are applied.",
            "The message has the words of PostgreSQL for each. Mend the entry of `spec.roles` or \
             `spec.databases`, or what stands in its way; the primary tries again.";
        MAJOR_VERSION_CHANGE = "MajorVersionChange",
            "The spec has another major version than the data, so the former version runs.",
            "Set `spec.version` to the major version of the data, or `spec.updates.majorVersion` to \
             `Upgrade`, after a backup.";
        MAJOR_UPGRADE = "MajorUpgrade",
            "The data are being upgraded to another major version, so all members are stopped.",
            "Wait. The message says what happens now, and whether you can cancel it.";
        MAJOR_UPGRADE_FAILED = "MajorUpgradeFailed",
            "The data could not be upgraded to another major version, and the former version runs.",
            "The message has the words of `pg_upgrade`. Solve that, set `spec.version` to the former \
             version, and then to the new one again.";
        CERTIFICATES_FAILED = "CertificatesFailed",
            "The certificates of the PostgresCluster cannot be issued or used.",
            "The message names the Secret. Delete it if it is damaged; it is created again.";
        INVALID_PASSWORD = "InvalidPassword",
            "The password in a Secret cannot be used, or is missing.",
            "Set another password in the Secret that the message names, or create it.";
        FAILED = "Failed",
            "Something that the Tenant's spec describes could not be done. The reason of \
             Capsule's API.",
            "The message lists each failure and its remedy.";
    }
    "Reconcile errors" {
        FAILED_CREATE = "FailedCreate",
            "A Pod could not be created. The reason of the ReplicaSet controller.",
            "The message has the API server's answer and the remedy.";
        FAILED_DELETE = "FailedDelete",
            "An object could not be deleted. For Pods, the reason of the ReplicaSet controller.",
            "The message has the API server's answer.";
        FAILED_ADOPT = "FailedAdopt",
            "A Pod could not be adopted or released.",
            "The message has the API server's answer.";
        WRITE_FAILED = "WriteFailed",
            "A write to a child object failed. The controller retries.",
            "If it stays, the message has the API server's answer.";
        LIST_FAILED = "ListFailed",
            "The API server did not list objects. The controller retries.",
            "If it stays, check the API server.";
        STATUS_UPDATE_FAILED = "StatusUpdateFailed",
            "The status could not be written. The controller retries.",
            "If it stays, the message has the API server's answer.";
        FINALIZER_FAILED = "FinalizerFailed",
            "The finalizer could not be added or removed. The controller retries.",
            "If it stays, the message has the API server's answer.";
        RECONCILE_FAILED = "ReconcileFailed",
            "Some of what the spec describes does not exist. The conditions say what.",
            "Resolve what the conditions report.";
        RECONCILE_TIMED_OUT = "ReconcileTimedOut",
            "A reconcile took longer than `--reconcile-timeout`. The controller retries.",
            "If it stays, check the latency of the API server.";
        RECONCILE_PANICKED = "ReconcilePanicked",
            "A bug stopped the reconcile. The controller retries with backoff.",
            "Report it as a bug, with the log of the manager.";
        DEFAULT_OBJECT_FAILED = "DefaultObjectFailed",
            "An object that must always exist could not be created.",
            "The message has the API server's answer.";
    }
    "Events about normal operation" {
        SUCCESSFUL_CREATE = "SuccessfulCreate",
            "A Pod was created. The reason of the ReplicaSet controller.",
            "";
        SUCCESSFUL_DELETE = "SuccessfulDelete",
            "A Pod was deleted. The reason of the ReplicaSet controller.",
            "";
        CREATED = "Created",
            "An object or the namespace was created.",
            "";
        UPDATED = "Updated",
            "An object was updated to match the spec.",
            "";
        DELETED = "Deleted",
            "An object was deleted because the spec no longer needs it.",
            "";
        DELETING = "Deleting",
            "The object is being deleted with its children.",
            "";
        ADOPTED = "Adopted",
            "The namespace, or the volumes of a former PostgresCluster, were adopted.",
            "";
        VOLUMES_ADOPTED = "VolumesAdopted",
            "A member uses a volume that a former PostgresCluster of the same name has left.",
            "";
        PROMOTION_FORCED = "PromotionForced",
            "A person has chosen the next primary, which may lack acknowledged rows.",
            "";
        RELEASED = "Released",
            "The namespace was released.",
            "";
        SEED_LAUNCHED = "SeedLaunched",
            "The first member creates the database.",
            "";
        MEMBER_JOINED = "MemberJoined",
            "A member became ready for the first time.",
            "";
        MEMBER_REMOVED = "MemberRemoved",
            "A member is removed because `spec.size` was lowered.",
            "";
        FAILOVER_STARTED = "FailoverStarted",
            "The primary has failed. The members are asked what they have.",
            "Look at the Pod of the former primary.";
        BACKUP_DONE = "BackupDone",
            "The backup is complete: everything that a recovery needs is in the object store.",
            "";
        RECOVERY_STARTED = "RecoveryStarted",
            "A member begins to recover the database from an archive.",
            "";
        RECOVERY_DONE = "RecoveryDone",
            "The database has recovered up to its target, and takes writes.",
            "";
        MAJOR_UPGRADE_STARTED = "MajorUpgradeStarted",
            "All members stop, so that the data can be upgraded to another major version.",
            "";
        MAJOR_UPGRADE_DONE = "MajorUpgradeDone",
            "The data are upgraded to another major version.",
            "";
        FAILOVER_DONE = "FailoverDone",
            "Another member has replaced the primary.",
            "";
        PRIMARY_FENCED = "PrimaryFenced",
            "The primary stops, because a person has fenced it.",
            "";
        SWITCHOVER_STARTED = "SwitchoverStarted",
            "The primary stops, so that another member takes its place.",
            "";
        SWITCHOVER_DONE = "SwitchoverDone",
            "A member is the primary after a switchover.",
            "";
        NAMESPACE_DENIED = "NamespaceDenied",
            "A request for a namespace of the Tenant was denied.",
            "The message has the user, the namespace, and the rule.";
    }
    "A policy of a Tenant denied a request (Events; reasons of Capsule's API)" {
        FORBIDDEN_PULL_POLICY = "ForbiddenPullPolicy",
            "A container or volume has an image pull policy that `imagePullPolicies` does not list.",
            "Use a listed policy.";
        FORBIDDEN_CONTAINER_REGISTRY = "ForbiddenContainerRegistry",
            "An image is from a registry that `containerRegistries` does not allow.",
            "Use an image from an allowed registry.";
        MISSING_FQCI = "MissingFQCI",
            "An image names no registry, but `containerRegistries` requires one.",
            "Write the image with its registry, such as `docker.io/library/nginx`.";
        FORBIDDEN_PRIORITY_CLASS = "ForbiddenPriorityClass",
            "A Pod has a PriorityClass that `priorityClasses` does not allow.",
            "Use an allowed class. They are in `status.classes.priority` of the Tenant.";
        FORBIDDEN_RUNTIME_CLASS = "ForbiddenRuntimeClass",
            "A Pod has a RuntimeClass that `runtimeClasses` does not allow.",
            "Use an allowed class. They are in `status.classes.runtime` of the Tenant.";
        FORBIDDEN_STORAGE_CLASS = "ForbiddenStorageClass",
            "A claim has a StorageClass that `storageClasses` does not allow.",
            "Use an allowed class. They are in `status.classes.storage` of the Tenant.";
        MISSING_STORAGE_CLASS = "MissingStorageClass",
            "A claim has no StorageClass, but `storageClasses` requires one.",
            "Set `spec.storageClassName`.";
        FORBIDDEN_INGRESS_CLASS = "ForbiddenIngressClass",
            "An Ingress has an IngressClass that `ingressOptions.allowedClasses` does not allow.",
            "Use an allowed class.";
        MISSING_INGRESS_CLASS = "MissingIngressClass",
            "An Ingress has no IngressClass, but `ingressOptions.allowedClasses` requires one.",
            "Set `spec.ingressClassName`.";
        FORBIDDEN_GATEWAY_CLASS = "ForbiddenGatewayClass",
            "A Gateway has a GatewayClass that `gatewayOptions.allowedClasses` does not allow.",
            "Use an allowed class. They are in `status.classes.gateway` of the Tenant.";
        MISSING_GATEWAY_CLASS = "MissingGatewayClass",
            "A Gateway has no GatewayClass, or one that does not exist, but `gatewayOptions.allowedClasses` requires one.",
            "Set `spec.gatewayClassName` to an existing class.";
        FORBIDDEN_DEVICE_CLASS = "ForbiddenDeviceClass",
            "A ResourceClaim or ResourceClaimTemplate requests a DeviceClass that `deviceClasses` does not allow.",
            "Use an allowed class. They are in `status.classes.device` of the Tenant.";
        MISSING_DEVICE_CLASS = "MissingDeviceClass",
            "A ResourceClaim or ResourceClaimTemplate requests a DeviceClass that does not exist.",
            "Use an existing class.";
        INGRESS_HOSTNAME_EMPTY = "IngressHostnameEmpty",
            "A rule of an Ingress has no host name, but `ingressOptions.allowedHostnames` requires one.",
            "Set the host name of each rule.";
        INGRESS_HOSTNAME_NOT_VALID = "IngressHostnameNotValid",
            "`ingressOptions.allowedHostnames` does not allow a host name of an Ingress.",
            "Use an allowed host name.";
        INGRESS_HOSTNAME_COLLISION = "IngressHostnameCollision",
            "Another Ingress in the `hostnameCollisionScope` uses the same host name and path.",
            "Use another host name or path.";
        WILDCARD_DENIED = "WildcardDenied",
            "An Ingress has a wildcard as its host name.",
            "Name each host, or set `ingressOptions.allowWildcardHostnames` of the Tenant.";
        CROSS_TENANT_REFERENCE = "CrossTenantReference",
            "A claim requests a volume or data of another Tenant.",
            "Use volumes with the label of your Tenant.";
        FORBIDDEN_NODE_PORT = "ForbiddenNodePort",
            "A Service allocates node ports, which `allowedServices.nodePort` forbids.",
            "Use another type, or set `spec.allocateLoadBalancerNodePorts` to false.";
        FORBIDDEN_EXTERNAL_NAME = "ForbiddenExternalName",
            "A Service has the type ExternalName, which `allowedServices.externalName` forbids.",
            "Use another type.";
        FORBIDDEN_LOAD_BALANCER = "ForbiddenLoadBalancer",
            "A Service has the type LoadBalancer, which `allowedServices.loadBalancer` forbids.",
            "Use another type.";
        FORBIDDEN_EXTERNAL_SERVICE_IP = "ForbiddenExternalServiceIP",
            "A Service has an external address that `serviceOptions.externalIPs` does not allow.",
            "Use an allowed address.";
        FORBIDDEN_LABEL = "ForbiddenLabel",
            "A namespace or Service has a label that `forbiddenLabels` forbids.",
            "Remove the label.";
        FORBIDDEN_ANNOTATION = "ForbiddenAnnotation",
            "A namespace or Service has an annotation that `forbiddenAnnotations` forbids.",
            "Remove the annotation.";
        PROMOTION_DENIED = "PromotionDenied",
            "A ServiceAccount has a label for promotion that the user may not set.",
            "Ask an owner of the Tenant, or allow promotion in the configuration and the Tenant.";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn catalog_has_every_reason_once() {
        let reasons: Vec<_> =
            CATALOG.iter().flat_map(|(_, reasons)| *reasons).map(|reason| reason.name).collect();
        let names: BTreeSet<_> = reasons.iter().copied().collect();
        assert_eq!(names.len(), reasons.len());
        let declared = include_str!("reasons.rs")
            .lines()
            .filter_map(|line| line.trim().split_once(" = \"")?.1.strip_suffix("\","));
        assert_eq!(declared.collect::<BTreeSet<_>>(), names);
    }
}
