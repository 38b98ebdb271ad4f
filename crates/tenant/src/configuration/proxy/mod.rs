//! Reports whether the proxy of Tenants can show what ProxySettings and GlobalProxySettings grant.
//!
//! - `status`: status of both kinds (pure)
//! - `rights`: which kinds the proxy may list, as the API server says

mod rights;
mod status;

use std::{sync::Arc, time::Duration};

use capsule::{
    Tenant,
    api::{
        proxy_settings::{GlobalProxySettings, ProxySetting},
        v1beta2::CapsuleConfiguration,
    },
};
use k8s_openapi::jiff::Timestamp;
use operator_core::{
    ControllerBuilder, Outcome,
    informer::{Change, Informer, Selection},
    kind::Kind,
    status::StatusWriter,
};

use self::{
    rights::ProxyRights,
    status::{global_status, kinds, setting_status, tenants_by_namespace},
};
use super::{Error, configuration_if};

/// Interval in which the rights of the proxy are asked for again. Nothing says when they change.
const RECHECK: Duration = Duration::from_mins(1);
/// The same interval while a right is missing.
const RECHECK_MISSING: Duration = Duration::from_secs(10);

/// Caches of the settings, and writers of their statuses.
pub(super) struct ProxySettingsStatuses {
    settings: Informer<ProxySetting>,
    global_settings: Informer<GlobalProxySettings>,
    status: StatusWriter<ProxySetting>,
    global_status: StatusWriter<GlobalProxySettings>,
    rights: ProxyRights,
}

impl ProxySettingsStatuses {
    pub(super) fn build(builder: &mut ControllerBuilder<'_, CapsuleConfiguration>) -> Self {
        let settings = builder.informer::<ProxySetting>(Selection::All);
        let global_settings = builder.informer::<GlobalProxySettings>(Selection::All);
        builder.watches(&settings, |change| configuration_if(changes_spec(change)));
        builder.watches(&global_settings, |change| configuration_if(changes_spec(change)));
        Self {
            status: builder.status_of(&settings, |_| {}, |_| configuration_if(true)),
            global_status: builder.status_of(&global_settings, |_| {}, |_| configuration_if(true)),
            settings,
            global_settings,
            rights: ProxyRights::new(builder.client(), builder.manager_namespace()),
        }
    }

    /// Returns whether a change of a Tenant changes the status of a ProxySetting.
    pub(super) fn concerns(settings: &Informer<ProxySetting>, change: &Change<Tenant>) -> bool {
        let namespaces = |tenant: &Option<Arc<Tenant>>| {
            tenant.as_ref().and_then(|tenant| tenant.status.as_ref().map(|status| status.namespaces.clone()))
        };
        !settings.store().is_empty() && namespaces(&change.old) != namespaces(&change.new)
    }

    /// Returns the cache of ProxySettings.
    pub(super) fn settings(&self) -> &Informer<ProxySetting> {
        &self.settings
    }

    /// Updates all statuses.
    pub(super) async fn update(&self, tenants: &[Arc<Tenant>], now: Timestamp) -> Result<Outcome, Error> {
        let mut outcome = Outcome::Done;
        let tenants = tenants_by_namespace(tenants);
        for settings in self.settings.store().list() {
            let next = |current: &ProxySetting| setting_status(current, &tenants, now);
            outcome = outcome.and(self.status.write(&settings, next).await?);
        }
        let all = self.global_settings.store().list();
        let named = all.iter().flat_map(|settings| kinds(&settings.spec)).collect();
        let missing = self.rights.missing(&named).await?;
        for settings in &all {
            let next =
                |current: &GlobalProxySettings| global_status(current, &missing, self.rights.account(), now);
            outcome = outcome.and(self.global_status.write(settings, next).await?);
        }
        if named.is_empty() {
            return Ok(outcome);
        }
        let recheck = if missing.is_empty() { RECHECK } else { RECHECK_MISSING };
        Ok(outcome.and(Outcome::RequeueAfter(recheck)))
    }
}

/// Returns whether an object is created or deleted, or has another spec.
fn changes_spec<K: Kind>(change: &Change<K>) -> bool {
    let of = |object: &Option<Arc<K>>| object.as_ref().map(|object| object.meta().generation);
    of(&change.old) != of(&change.new)
}
