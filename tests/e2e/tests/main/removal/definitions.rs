//! Definitions that are deleted under a manager that runs, and come back.

use cluster::wait::eventually;

use super::{define, installation::Installation};
use crate::support::{PATIENCE, TestEnv};

/// The kinds that the manager watches.
const KINDS: [&str; 6] =
    ["CapsuleConfiguration", "Memcached", "NamespacePlus", "PodSet", "Tenant", "TenantOwner"];

/// The manager finalizes the objects, says once of each kind that it is gone, and goes on when it is back. Returns it, with
/// an object of each kind.
pub(super) async fn come_back_under_a_manager(stage: &mut TestEnv) -> Installation<'_> {
    let installation = Installation::begin(stage, "second").await;
    installation.populate(&["early"]).await;
    let Installation { stage, manager } = &installation;
    Installation::delete_definitions(stage).await;
    eventually("the definitions to be gone", PATIENCE, async || {
        let left = stage.names(&["customresourcedefinitions"]).await;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await
    .unwrap();
    let told = |kind| format!("cannot watch {kind}: the API server does not know it");
    for kind in KINDS {
        manager.until_logged(&told(kind)).await;
    }
    define(stage).await;
    for kind in KINDS {
        manager.until_logged(&format!("the watch works again kind={kind}")).await;
        assert_eq!(manager.count(&told(kind)), 1, "{}", manager.log());
    }
    assert_eq!(manager.count("reconcile failed"), 0, "{}", manager.log());
    installation.populate(&["late"]).await;
    installation
}
