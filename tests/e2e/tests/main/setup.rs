//! A cluster that is not ready for the manager: it says what is missing, once, and goes on by itself when it is there.

use std::time::Duration;

use crate::support::{POD_SET, Stage, sample, tutorial};

/// The kinds that people write.
const KINDS: [&str; 6] =
    ["CapsuleConfiguration", "Memcached", "NamespacePlus", "PodSet", "Tenant", "TenantOwner"];

#[tokio::test]
async fn without_definitions_it_waits_says_so_once_and_goes_on_when_they_are_installed() {
    let stage = Stage::bare().await;
    stage.permit().await;
    let manager = stage.start_with_probes("manager", &stage.account, &[]);
    manager.until_readyz(503, &format!("waiting for the first list of {}", KINDS.join(", "))).await;
    assert_eq!(manager.probe("/healthz").unwrap(), (200, "ok".to_owned()));
    let advice = |kind| {
        format!("cannot watch {kind}: the API server does not know it; install its CRD (--install-crds does)")
    };
    for kind in KINDS {
        manager.until_logged(&advice(kind)).await;
    }

    refuses_to_install_what_it_may_not(&stage).await;
    installs_definitions(&stage).await;

    manager.until_readyz(200, "ok").await;
    for kind in KINDS {
        assert_eq!(manager.count(&advice(kind)), 1, "{}", manager.log());
        manager.until_logged(&format!("the watch works again kind={kind}")).await;
    }
    stage.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    stage.until_settled(&POD_SET, "default", "podset-sample").await;
}

/// `--install-crds` without the right to.
async fn refuses_to_install_what_it_may_not(stage: &Stage) {
    let manager = stage.start("no-right", &stage.account, &["--install-crds"]);
    manager.until_logged("cannot install the CustomResourceDefinition").await;
    let (end, log) = manager.until_ended(Duration::from_secs(5)).await;
    assert!(end.contains("exit code 1"), "{end}");
    assert!(log.contains("is forbidden") && log.contains("deploy/rbac/optional/install-crds.yaml"), "{log}");
}

/// `--install-crds` with it.
async fn installs_definitions(stage: &Stage) {
    stage.permit_definitions().await;
    let manager = stage.start_with_probes("installer", &stage.account, &["--install-crds"]);
    manager.until_logged("installed the CustomResourceDefinitions").await;
    manager.until_readyz(200, "ok").await;
    manager.ask_to_end().await;
    let again = stage.start_with_probes("installer-again", &stage.account, &["--install-crds"]);
    again.until_readyz(200, "ok").await;
    again.ask_to_end().await;
}

#[tokio::test]
async fn without_rights_it_waits_says_once_what_to_do_and_goes_on_when_it_has_them() {
    let stage = tutorial().await;
    let account = stage.account("newcomer").await;
    let manager = stage.start_with_probes("newcomer", &account, &["--controllers=podset,tenant"]);
    let kinds = [
        "CapsuleConfiguration",
        "ClusterRole",
        "ClusterRoleBinding",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "Pod",
        "PodSet",
        "ResourceQuota",
        "RoleBinding",
        "StorageClass",
        "Tenant",
        "TenantOwner",
    ];
    manager.until_readyz(503, &format!("waiting for the first list of {}", kinds.join(", "))).await;
    let advice =
        |kind| format!("cannot watch {kind}: not allowed; apply the ClusterRole and binding of deploy/rbac");
    for kind in kinds {
        manager.until_logged(&advice(kind)).await;
    }
    for controller in ["podset", "tenant", "capsuleconfiguration"] {
        stage.permit_account(&account, controller).await;
    }
    manager.until_readyz(200, "ok").await;
    for kind in kinds {
        assert_eq!(manager.count(&advice(kind)), 1, "{}", manager.log());
    }
    manager.ask_to_end().await;
}
