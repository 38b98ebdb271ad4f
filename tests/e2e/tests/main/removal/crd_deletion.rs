//! CustomResourceDefinitions that are deleted and created again while the manager runs.

use cluster::wait::eventually;

use super::{install_crds, installation::Installation};
use crate::support::{PATIENCE, TestEnv};

/// Kinds that the manager watches.
const KINDS: [&str; 10] = [
    "CapsuleConfiguration",
    "GlobalProxySettings",
    "Memcached",
    "NamespacePlus",
    "PodSet",
    "PostgresBackup",
    "PostgresCluster",
    "ProxySetting",
    "Tenant",
    "TenantOwner",
];

/// Deletes and recreates the CustomResourceDefinitions while the manager runs. Returns the manager
/// with an object of each kind.
///
/// The manager finalizes the objects, logs one warning for each kind, and continues when the kind
/// is back.
pub(super) async fn recreate_while_manager_runs(stage: &mut TestEnv) -> Installation<'_> {
    let installation = Installation::begin(stage, "second").await;
    installation.populate(&["early"]).await;
    let Installation { stage, manager } = &installation;
    Installation::delete_crds(stage).await;
    eventually("the CustomResourceDefinitions to be deleted", PATIENCE, async || {
        let left = stage.names(&["customresourcedefinitions"]).await;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await
    .unwrap();
    let warning = |kind| format!("cannot watch {kind}: the API server does not know it");
    for kind in KINDS {
        manager.until_logged(&warning(kind)).await;
    }
    install_crds(stage).await;
    for kind in KINDS {
        manager.until_logged(&format!("the watch works again kind={kind}")).await;
        assert_eq!(manager.count(&warning(kind)), 1, "{}", manager.log());
    }
    assert_eq!(manager.count("reconcile failed"), 0, "{}", manager.log());
    installation.populate(&["late"]).await;
    installation
}
