//! Managers that share their controllers.

use std::collections::BTreeMap;

use cluster::{
    audit::{Entry, Mark},
    wait::eventually,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};

use super::{Account, NAMESPACE, PATIENCE, Stage};

/// Times that a test need not wait long for: a lease of 3 s.
pub(crate) const QUICK: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

impl Stage {
    /// An account for a replica of its own name: with the rights of these controllers, and to hold Leases.
    pub(crate) async fn replica(&self, name: &str, controllers: &[&str]) -> Account {
        let account = self.account(name).await;
        for controller in controllers {
            self.permit_account(&account, controller).await;
        }
        let subject = format!("--serviceaccount={NAMESPACE}:{name}");
        let (namespace, role) = (format!("--namespace={NAMESPACE}"), "--role=ensemble-leader-election");
        self.kubectl(&["create", "rolebinding", name, &namespace, role, &subject]).await.unwrap();
        account
    }

    /// Who holds the Leases, by controller; those that nobody holds are left out.
    pub(crate) async fn holders(&self) -> BTreeMap<String, String> {
        let leases = self.leases().await.list(&ListParams::default()).await.unwrap();
        let holder = |lease: Lease| {
            let controller = lease.name_any().strip_prefix("ensemble-")?.to_owned();
            let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty())?;
            // The end is different in each life of a process.
            Some((controller, holder.split('_').next()?.to_owned()))
        };
        leases.into_iter().filter_map(holder).collect()
    }

    pub(crate) async fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.client().await.unwrap(), NAMESPACE)
    }

    /// Waits until a replica other than `before` holds a controller's Lease. Returns which.
    pub(crate) async fn until_led(&self, controller: &str, before: &str) -> String {
        eventually(&format!("another than {before:?} to lead {controller}"), PATIENCE, async || {
            let holder = self.holders().await.remove(controller);
            Ok(holder.clone().filter(|holder| holder != before).ok_or(holder))
        })
        .await
        .unwrap()
    }

    /// Holds the replicas to having written only while they held the Lease of the controller that wrote: between a write
    /// of the Lease by one and the next by another, only the one writes. Returns how many writes were looked at, and how
    /// often Leases changed hands.
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

/// The controller that sent a request.
fn controller(entry: &Entry) -> Option<String> {
    let (_, name) = entry.user_agent.split_once('(')?;
    Some(name.trim_end_matches(')').to_owned())
}
