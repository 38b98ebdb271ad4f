//! The `CapsuleConfiguration` controller, which manages what all Tenants share.
//!
//! - `users`: who may own Tenants (pure)
//! - `roles`: desired ClusterRoles of owners and their binding (pure), applied by `rbac_objects`
//! - `status`: status of the configuration and of each `TenantOwner` (pure)
//! - `metrics`: conditions as metrics (pure)
//! - `proxy`: status of each `ProxySetting` and `GlobalProxySettings`

mod metrics;
mod proxy;
mod rbac_objects;
pub(crate) mod roles;
mod status;
pub mod users;

use std::sync::Arc;

use capsule::{
    api::{
        names::{DELETER_ROLE, PROVISIONER_ROLE},
        proxy_settings::{GlobalProxySettings, ProxySetting},
        v1beta2::{
            CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, OwnerKind, Tenant,
            TenantOwner, UserSpec,
        },
    },
    lookups,
    membership::referenced_tenants,
    owners::{OwnerSelectors, is_relevant_change},
};
use k8s_openapi::{
    api::{
        authorization::v1::SubjectAccessReview,
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{CustomResourceExt, ResourceExt};
use operator_core::{
    ClusterLeftovers, Controller, ControllerBuilder, ObjectKey, Outcome, ReconcileError,
    error::status as answered,
    informer::{Change, Informer, Selection},
    metrics::Gauge,
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
};
use serde_json::json;

use self::{
    proxy::ProxySettingsStatuses,
    rbac_objects::RbacObjects,
    roles::{ownership_mark, roles},
    status::{Report, ineffective_status, owner_status, status},
    users::users,
};
use crate::{
    failure::{Failure, Failures},
    promotion::{PROMOTED, PromotedAccounts, allows_promotion, user_name},
    reasons::{RECONCILE_FAILED, STATUS_UPDATE_FAILED},
    spec_patterns,
};

/// Reason why a configuration could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some objects do not match the spec. The condition Ready reports the same failures.
    #[error("cannot reconcile all objects of the configuration")]
    Incomplete(#[source] Failures),
    /// A status could not be written.
    #[error(transparent)]
    Status(#[from] WriteError),
    /// The API server did not say what the proxy may do.
    #[error("cannot ask the API server which kinds of GlobalProxySettings the proxy may list")]
    ProxyRights(#[from] kube::Error),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Incomplete(_) | Self::ProxyRights(_) => RECONCILE_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Incomplete(failures) if failures.need_spec_change())
    }
}

/// Reconciles the ClusterRoles of owners, and reports the Tenants of each `TenantOwner`.
pub struct ConfigurationController {
    tenants: Informer<Tenant>,
    owners: Informer<TenantOwner>,
    cluster_roles: RbacObjects<ClusterRole>,
    bindings: RbacObjects<ClusterRoleBinding>,
    status: StatusWriter<CapsuleConfiguration>,
    owner_status: StatusWriter<TenantOwner>,
    proxy: ProxySettingsStatuses,
    promoted: PromotedAccounts,
    namespaces: Informer<Namespace>,
    manager_namespace: String,
}

impl Controller for ConfigurationController {
    const NAME: &'static str = "capsuleconfiguration";
    type Object = CapsuleConfiguration;
    type Error = Error;

    fn rules() -> Vec<Rule> {
        vec![
            rule::<CapsuleConfiguration>(GET | LIST | WATCH | CREATE),
            rule::<CapsuleConfiguration>(UPDATE).subresource("status"),
            rule::<TenantOwner>(GET | LIST | WATCH),
            rule::<TenantOwner>(UPDATE).subresource("status"),
            rule::<ProxySetting>(GET | LIST | WATCH),
            rule::<ProxySetting>(UPDATE).subresource("status"),
            rule::<GlobalProxySettings>(GET | LIST | WATCH),
            rule::<GlobalProxySettings>(UPDATE).subresource("status"),
            // Whether the proxy may list the kinds of GlobalProxySettings.
            rule::<SubjectAccessReview>(CREATE),
            rule::<Tenant>(LIST | WATCH),
            rule::<ClusterRole>(GET | LIST | WATCH | CREATE),
            rule::<ClusterRole>(UPDATE | DELETE).named([PROVISIONER_ROLE, DELETER_ROLE]),
            rule::<ClusterRoleBinding>(GET | LIST | WATCH | CREATE),
            rule::<ClusterRoleBinding>(UPDATE | DELETE).named([PROVISIONER_ROLE]),
            // Promoted ServiceAccounts in the namespaces of Tenants are bound to the provisioner.
            rule::<ServiceAccount>(LIST | WATCH),
            // Lists namespaces to find those ServiceAccounts. The ClusterRoles grant the other verbs:
            // to prevent escalation, Kubernetes lets a client grant only permissions that it has.
            rule::<Namespace>(LIST | WATCH | CREATE | PATCH | DELETE),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![CapsuleConfiguration::crd(), ProxySetting::crd(), GlobalProxySettings::crd()]
    }

    fn gauges() -> &'static [&'static Gauge] {
        metrics::GAUGES
    }

    fn default_objects() -> Vec<CapsuleConfiguration> {
        // As in the chart of Capsule. The account has only the permissions that an owner gives it.
        let impersonation = json!({ "tenantDefaultServiceAccount": "default" });
        let spec = CapsuleConfigurationSpec {
            impersonation: Some(impersonation),
            ..CapsuleConfigurationSpec::default()
        };
        vec![CapsuleConfiguration::new(CONFIGURATION_NAME, spec)]
    }

    fn leftovers() -> Vec<ClusterLeftovers> {
        // The binding first, because its permissions are safe only while the admission webhooks
        // run.
        vec![
            ClusterLeftovers::of::<ClusterRoleBinding>(ownership_mark(), &[PROVISIONER_ROLE]),
            ClusterLeftovers::of::<ClusterRole>(ownership_mark(), &[PROVISIONER_ROLE, DELETER_ROLE]),
        ]
    }

    fn build(builder: &mut ControllerBuilder<'_, CapsuleConfiguration>) -> Self {
        let proxy = ProxySettingsStatuses::build(builder);
        let tenants = builder.informer::<Tenant>(Selection::All);
        let settings = proxy.settings().clone();
        builder.watches(&tenants, move |change| {
            configuration_if(changes_owners(change) || ProxySettingsStatuses::concerns(&settings, change))
        });
        let owners = builder.informer::<TenantOwner>(Selection::All);
        builder.watches(&owners, |change| configuration_if(is_relevant_change(change)));
        let (configurations, measured) = (builder.objects().clone(), owners.clone());
        builder.gauges(move || metrics::readings(&configurations.store().list(), &measured.store().list()));
        let accounts = builder.informer::<ServiceAccount>(PROMOTED);
        builder.watches(&accounts, |_| configuration_if(true));
        let namespaces = builder.informer::<Namespace>(Selection::All);
        let promoted = accounts.clone();
        builder.watches(&namespaces, move |change| {
            configuration_if(!promoted.store().is_empty() && changes_membership(change))
        });
        Self {
            cluster_roles: RbacObjects::build(builder),
            bindings: RbacObjects::build(builder),
            // Admission reserves routes.
            status: builder.status_with_shared_fields(|status| status.route_reservations.clear()),
            owner_status: builder.status_of(&owners, |_| {}, |_| configuration_if(true)),
            tenants,
            owners,
            proxy,
            promoted: PromotedAccounts::new(accounts),
            namespaces,
            manager_namespace: builder.manager_namespace().to_owned(),
        }
    }

    async fn reconcile(&self, configuration: Arc<CapsuleConfiguration>) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        if configuration.name_any() != CONFIGURATION_NAME {
            return Ok(self.status.write(&configuration, |current| ineffective_status(current, now)).await?);
        }
        let owners = self.owners.store().list();
        let tenants = self.tenants.store().list();
        let users = users(&configuration.spec, owners.iter().map(AsRef::as_ref));
        let promoted = self.promoted_users(&configuration.spec);
        let mut failures = self.apply_roles(&configuration.spec, &users, &promoted).await;
        failures.add_all(spec_patterns::errors(&configuration.spec).into_iter().map(Failure::Pattern));
        if !failures.is_empty() && failures.are_transient() {
            return Err(Error::Incomplete(failures));
        }
        let mut names: Vec<_> = tenants.iter().map(|tenant| tenant.name_any()).collect();
        names.sort();
        let report = Report { users, tenants: names, failure: failures.to_string() };
        let updated = self.status.write(&configuration, |current| status(current, &report, now)).await?;
        let updated = updated.and(self.update_owner_statuses(&owners, &tenants, now).await?);
        let proxied = self.proxy.update(&tenants, now).await?;
        if failures.is_empty() || updated != Outcome::Done {
            return Ok(updated.and(proxied));
        }
        Err(Error::Incomplete(failures))
    }
}

impl ConfigurationController {
    /// Returns the promoted ServiceAccounts that own Tenants, sorted. ServiceAccounts outside of
    /// Tenants are not among them, whatever their labels are.
    fn promoted_users(&self, configuration: &CapsuleConfigurationSpec) -> Vec<UserSpec> {
        let owns = |account: &Arc<ServiceAccount>| {
            let namespace = ObjectKey::cluster(&account.namespace().unwrap_or_default());
            let tenant = self.namespaces.store().get(&namespace).and_then(|namespace| {
                lookups::tenant_of(&namespace, self.tenants.store(), &self.manager_namespace)
            });
            tenant.is_some_and(|tenant| allows_promotion(configuration, &tenant))
        };
        let promoted = self.promoted.list().into_iter().filter(owns);
        let user = |account: Arc<ServiceAccount>| UserSpec {
            kind: OwnerKind::ServiceAccount,
            name: user_name(&account),
        };
        let mut users: Vec<_> = promoted.map(user).collect();
        users.sort();
        users
    }

    /// Applies the ClusterRoles and their binding. Subjects are bound only to a ClusterRole that
    /// the controller manages, because another program may own a ClusterRole of that name.
    async fn apply_roles(
        &self,
        spec: &CapsuleConfigurationSpec,
        users: &[UserSpec],
        promoted: &[UserSpec],
    ) -> Failures {
        let mut failures = Failures::default();
        let names = &spec.rbac;
        if names.provisioner == names.deleter {
            failures.add(Failure::DuplicateRoleName { name: names.deleter.clone() });
            return failures;
        }
        let (desired, invalid) = roles(names, users.iter().chain(&spec.administrators).chain(promoted));
        failures.add_all(invalid);
        let (provisioner, deleter) = tokio::join!(
            self.cluster_roles.apply(&desired.provisioner),
            self.cluster_roles.apply(&desired.deleter)
        );
        let bound = match provisioner {
            Ok(()) => self.bindings.apply(&desired.binding).await,
            Err(error) => {
                let errors = self.bindings.remove_extra_subjects(&desired.binding).await;
                failures.add_all(errors.into_iter().map(rbac_failure));
                Err(error)
            }
        };
        let errors: Vec<_> = [bound, deleter].into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            // The binding first, because it grants nothing without its ClusterRole.
            let pruned = self.bindings.prune(&[&names.provisioner]).await;
            failures.add_all(pruned.into_iter().map(rbac_failure));
            let pruned = self.cluster_roles.prune(&[names.provisioner.as_str(), &names.deleter]).await;
            failures.add_all(pruned.into_iter().map(rbac_failure));
        }
        failures.add_all(errors.into_iter().map(rbac_failure));
        failures
    }

    /// Updates the status of each `TenantOwner` with its Tenants.
    async fn update_owner_statuses(
        &self,
        owners: &[Arc<TenantOwner>],
        tenants: &[Arc<Tenant>],
        now: Timestamp,
    ) -> Result<Outcome, Error> {
        let tenants: Vec<_> =
            tenants.iter().map(|tenant| (tenant.as_ref(), OwnerSelectors::of(tenant))).collect();
        let mut outcome = Outcome::Done;
        for owner in owners {
            let next = |current: &TenantOwner| owner_status(current, &tenants, now);
            outcome = outcome.and(self.owner_status.write(owner, next).await?);
        }
        Ok(outcome)
    }
}

/// Returns the key of the effective configuration if a change is relevant to it.
fn configuration_if(is_relevant: bool) -> Vec<ObjectKey> {
    if is_relevant { vec![ObjectKey::cluster(CONFIGURATION_NAME)] } else { Vec::new() }
}

/// Returns whether a Tenant is created or deleted, or selects other owners.
fn changes_owners(change: &Change<Tenant>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    old.spec.permissions != new.spec.permissions
}

/// Returns whether a namespace joins or leaves a Tenant.
fn changes_membership(change: &Change<Namespace>) -> bool {
    let tenants = |namespace: &Arc<Namespace>| referenced_tenants(&namespace.metadata);
    change.old.as_ref().map(tenants).unwrap_or_default()
        != change.new.as_ref().map(tenants).unwrap_or_default()
}

/// Explains the missing permissions if the API server denies the write of an object with a custom
/// name.
fn rbac_failure(error: WriteError) -> Failure {
    let is_forbidden = error.api_error().and_then(answered).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden { Failure::RbacForbidden(error) } else { error.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tenant(spec: Value) -> Arc<Tenant> {
        Arc::new(serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap())
    }

    #[test]
    fn tenant_requeues_configuration_when_created_deleted_or_selecting_other_owners() {
        let is_relevant = |old: Option<Value>, new: Option<Value>| {
            let (old, new) = (old.map(tenant), new.map(tenant));
            changes_owners(&Change { key: ObjectKey::cluster("oil"), old, new })
        };
        let none = || Some(json!({}));
        assert!(is_relevant(None, none()) && is_relevant(none(), None));
        assert!(is_relevant(none(), Some(json!({ "permissions": { "matchOwners": [{}] } }))));
        assert!(!is_relevant(none(), Some(json!({ "cordoned": true }))));
    }
}
