//! The controller of `CapsuleConfiguration`s: keeps what all Tenants need.
//!
//! ```text
//! users   pure: who may own Tenants
//! roles   pure: the cluster roles that owners get, and who is bound to them; grants makes and repairs them
//! status  pure: what is said of the configuration and of each TenantOwner
//! ```

mod grants;
pub(crate) mod roles;
mod status;
pub mod users;

use std::sync::Arc;

use k8s_openapi::{
    api::{
        core::v1::Namespace,
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
    rbac::{CREATE, DELETE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
    status::StatusWriter,
    write::WriteError,
};

use self::{
    grants::Grants,
    roles::{mark, roles},
    status::{Report, owner_status, status, without_effect},
    users::users,
};
use crate::{
    api::{
        names::{DELETER_ROLE, PROVISIONER_ROLE},
        v1beta2::{
            CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, Tenant, TenantOwner, UserSpec,
        },
    },
    failure::{Failure, Failures},
    owners::{Selectors, differs},
    reasons::{RECONCILE_FAILED, STATUS_UPDATE_FAILED},
    webhook::patterns,
};

/// Why a configuration could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Some of what the configuration asks is not there; the condition Ready tells of it too.
    #[error("not all is as the configuration asks")]
    Incomplete(#[source] Failures),
    /// A status could not be written.
    #[error(transparent)]
    Status(#[from] WriteError),
}

impl ReconcileError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Incomplete(_) => RECONCILE_FAILED,
            Self::Status(_) => STATUS_UPDATE_FAILED,
        }
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Incomplete(failures) if failures.need_other_spec())
    }
}

/// Keeps the cluster roles of owners as the configuration asks, and says who owns what.
pub struct ConfigurationController {
    tenants: Informer<Tenant>,
    owners: Informer<TenantOwner>,
    cluster_roles: Grants<ClusterRole>,
    bindings: Grants<ClusterRoleBinding>,
    status: StatusWriter<CapsuleConfiguration>,
    owner_status: StatusWriter<TenantOwner>,
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
            rule::<Tenant>(LIST | WATCH),
            rule::<ClusterRole>(GET | LIST | WATCH | CREATE),
            rule::<ClusterRole>(UPDATE | DELETE).named([PROVISIONER_ROLE, DELETER_ROLE]),
            rule::<ClusterRoleBinding>(GET | LIST | WATCH | CREATE),
            rule::<ClusterRoleBinding>(UPDATE | DELETE).named([PROVISIONER_ROLE]),
            // What the cluster roles grant: nobody may put more into a role than they have.
            rule::<Namespace>(CREATE | PATCH | DELETE),
        ]
    }

    fn crds() -> Vec<CustomResourceDefinition> {
        vec![CapsuleConfiguration::crd()]
    }

    fn default_objects() -> Vec<CapsuleConfiguration> {
        vec![CapsuleConfiguration::new(CONFIGURATION_NAME, CapsuleConfigurationSpec::default())]
    }

    fn leftovers() -> Vec<ClusterLeftovers> {
        // The binding first: what it gives to people is theirs only while admission watches over it.
        vec![
            ClusterLeftovers::of::<ClusterRoleBinding>(mark(), &[PROVISIONER_ROLE]),
            ClusterLeftovers::of::<ClusterRole>(mark(), &[PROVISIONER_ROLE, DELETER_ROLE]),
        ]
    }

    fn build(builder: &mut ControllerBuilder<'_, CapsuleConfiguration>) -> Self {
        let tenants = builder.informer::<Tenant>(Selection::All);
        builder.watches(&tenants, |change| concerned(concerns_owners(change)));
        let owners = builder.informer::<TenantOwner>(Selection::All);
        builder.watches(&owners, |change| concerned(differs(change)));
        Self {
            cluster_roles: Grants::build(builder),
            bindings: Grants::build(builder),
            status: builder.status(),
            owner_status: builder.status_of(&owners, |_| {}, |_| concerned(true)),
            tenants,
            owners,
        }
    }

    async fn reconcile(&self, configuration: Arc<CapsuleConfiguration>) -> Result<Outcome, Error> {
        let now = Timestamp::now();
        if configuration.name_any() != CONFIGURATION_NAME {
            return Ok(self.status.write(&configuration, |known| without_effect(known, now)).await?);
        }
        let owners = self.owners.store().list();
        let tenants = self.tenants.store().list();
        let users = users(&configuration.spec, owners.iter().map(AsRef::as_ref));
        let mut failures = self.grant(&configuration.spec, &users).await;
        failures.add_all(patterns::errors(&configuration.spec).into_iter().map(Failure::Pattern));
        if !failures.is_empty() && failures.are_passing() {
            return Err(Error::Incomplete(failures));
        }
        let mut names: Vec<_> = tenants.iter().map(|tenant| tenant.name_any()).collect();
        names.sort();
        let report = Report { users, tenants: names, failure: failures.to_string() };
        let told = self.status.write(&configuration, |known| status(known, &report, now)).await?;
        let told = told.and(self.tell_owners(&owners, &tenants, now).await?);
        if failures.is_empty() || told != Outcome::Done {
            return Ok(told);
        }
        Err(Error::Incomplete(failures))
    }
}

impl ConfigurationController {
    /// Makes the cluster roles. People are bound only to a role that is ours: the name may be that of a stranger's.
    async fn grant(&self, spec: &CapsuleConfigurationSpec, users: &[UserSpec]) -> Failures {
        let mut failures = Failures::default();
        let names = &spec.rbac;
        if names.provisioner == names.deleter {
            failures.add(Failure::OneRole { name: names.deleter.clone() });
            return failures;
        }
        let (wanted, malformed) = roles(names, users.iter().chain(&spec.administrators));
        failures.add_all(malformed);
        let (provisioner, deleter) = tokio::join!(
            self.cluster_roles.make(&wanted.provisioner),
            self.cluster_roles.make(&wanted.deleter)
        );
        let bound = match provisioner {
            Ok(()) => self.bindings.make(&wanted.binding).await,
            Err(error) => {
                failures.add_all(self.bindings.narrow(&wanted.binding).await.into_iter().map(told));
                Err(error)
            }
        };
        let made: Vec<_> = [bound, deleter].into_iter().filter_map(Result::err).collect();
        if made.is_empty() {
            // The binding first: without its role it grants nothing anyway.
            failures.add_all(self.bindings.prune(&[&names.provisioner]).await.into_iter().map(told));
            let kept = [names.provisioner.as_str(), &names.deleter];
            failures.add_all(self.cluster_roles.prune(&kept).await.into_iter().map(told));
        }
        failures.add_all(made.into_iter().map(told));
        failures
    }

    /// Tells each owner which Tenants it has.
    async fn tell_owners(
        &self,
        owners: &[Arc<TenantOwner>],
        tenants: &[Arc<Tenant>],
        now: Timestamp,
    ) -> Result<Outcome, Error> {
        let tenants: Vec<_> = tenants.iter().map(|tenant| (tenant.as_ref(), Selectors::of(tenant))).collect();
        let mut told = Outcome::Done;
        for owner in owners {
            let wrote = self.owner_status.write(owner, |known| owner_status(known, &tenants, now)).await?;
            told = told.and(wrote);
        }
        Ok(told)
    }
}

/// The key of the configuration that counts, if it is concerned.
fn concerned(is_concerned: bool) -> Vec<ObjectKey> {
    if is_concerned { vec![ObjectKey::cluster(CONFIGURATION_NAME)] } else { Vec::new() }
}

/// Whether there is another Tenant, or one that selects other owners.
fn concerns_owners(change: &Change<Tenant>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    old.spec.permissions != new.spec.permissions
}

/// With what to do where the manager has not been given the rights for a name of the person's own.
fn told(error: WriteError) -> Failure {
    let is_forbidden = error.api_error().and_then(answered).is_some_and(kube::core::Status::is_forbidden);
    if is_forbidden { Failure::MayNotKeep(error) } else { error.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tenant(spec: Value) -> Arc<Tenant> {
        Arc::new(serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap())
    }

    #[test]
    fn a_tenant_concerns_the_configuration_when_it_comes_goes_or_selects_others() {
        let concerns = |old: Option<Value>, new: Option<Value>| {
            let (old, new) = (old.map(tenant), new.map(tenant));
            concerns_owners(&Change { key: ObjectKey::cluster("oil"), old, new })
        };
        let none = || Some(json!({}));
        assert!(concerns(None, none()) && concerns(none(), None));
        assert!(concerns(none(), Some(json!({ "permissions": { "matchOwners": [{}] } }))));
        assert!(!concerns(none(), Some(json!({ "cordoned": true }))));
    }
}
