//! Managers with leader election.

use std::collections::BTreeMap;

use cluster::{
    audit::{Entry, Mark},
    wait::eventually,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};

use super::{Account, NAMESPACE, PATIENCE, TestEnv};

/// Leader election flags for tests: a lease duration of 3 s.
pub(crate) const QUICK: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// All controllers. The user agent of a controller contains its name.
pub(crate) const CONTROLLERS: [&str; 8] = [
    "capsuleconfiguration",
    "globaltenantresource",
    "memcached",
    "namespaceplus",
    "podset",
    "postgres",
    "tenant",
    "tenantresource",
];

impl TestEnv {
    /// Creates an account for a replica with the rights of these controllers and on Leases.
    pub(crate) async fn replica(&self, name: &str, controllers: &[&str]) -> Account {
        let account = self.account(name).await;
        for controller in controllers {
            self.grant_controller_rights(&account, controller).await;
        }
        let subject = format!("--serviceaccount={NAMESPACE}:{name}");
        let (namespace, role) = (format!("--namespace={NAMESPACE}"), "--role=ensemble-leader-election");
        self.kubectl(&["create", "rolebinding", name, &namespace, role, &subject]).await.unwrap();
        account
    }

    /// Returns the holder of each controller's Lease. Omits Leases without a holder.
    pub(crate) async fn holders(&self) -> BTreeMap<String, String> {
        let leases = self.leases().await.list(&ListParams::default()).await.unwrap();
        let holder = |lease: Lease| {
            let controller = lease.name_any().strip_prefix("ensemble-")?.to_owned();
            let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty())?;
            // The suffix differs in each process.
            Some((controller, holder.split('_').next()?.to_owned()))
        };
        leases.into_iter().filter_map(holder).collect()
    }

    pub(crate) async fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.client().await.unwrap(), NAMESPACE)
    }

    /// Waits until a replica other than `before` holds a controller's Lease, and returns its name.
    pub(crate) async fn until_led(&self, controller: &str, before: &str) -> String {
        eventually(&format!("a replica other than {before:?} to lead {controller}"), PATIENCE, async || {
            let holder = self.holders().await.remove(controller);
            Ok(holder.clone().filter(|holder| holder != before).ok_or(holder))
        })
        .await
        .unwrap()
    }

    /// Asserts that each replica wrote only while it held the Lease of the writing controller.
    /// Between a Lease write by one replica and the next one by another, only the first may write.
    /// Returns the number of checked writes and the number of failovers.
    pub(crate) fn assert_only_holders_wrote(&self, replicas: &[&Account], since: Mark) -> (usize, usize) {
        let users: Vec<_> = replicas.iter().map(|account| account.user()).collect();
        let log = self.cluster.audit_since(since).unwrap();
        let mut writes: Vec<_> =
            log.filter(|entry| entry.is_write() && entry.code < 400 && users.contains(&entry.user)).entries;
        writes.sort_by_key(|entry| entry.time);
        let mut holders = BTreeMap::<String, String>::new();
        let (mut seen, mut hands) = (0, 0);
        for entry in writes {
            if entry.resource == "leases" {
                let controller = entry.name.trim_start_matches("ensemble-").to_owned();
                let before = holders.insert(controller, entry.user.clone());
                hands += usize::from(before.as_ref() != Some(&entry.user));
                continue;
            }
            let Some(controller) = controller(&entry) else { continue };
            assert_eq!(holders.get(&controller), Some(&entry.user), "{entry:?}");
            seen += 1;
        }
        (seen, hands)
    }
}

/// Returns the controller that sent a request.
fn controller(entry: &Entry) -> Option<String> {
    let (_, name) = entry.user_agent.split_once('(')?;
    Some(name.trim_end_matches(')').to_owned())
}
