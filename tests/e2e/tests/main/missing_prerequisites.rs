//! Clusters without CRDs or RBAC: the manager logs once what is missing, and starts when it is
//! installed.

use std::time::Duration;

use crate::support::{POD_SET, TestEnv, sample, tutorial};

/// Kinds that users write.
const KINDS: [&str; 12] = [
    "CapsuleConfiguration",
    "GlobalProxySettings",
    "GlobalTenantResource",
    "Memcached",
    "NamespacePlus",
    "PodSet",
    "PostgresBackup",
    "PostgresCluster",
    "ProxySetting",
    "Tenant",
    "TenantOwner",
    "TenantResource",
];

#[tokio::test]
async fn waits_for_missing_crds() {
    let env = TestEnv::bare().await;
    env.grant_rights().await;
    let manager = env.start_with_probes("manager", &env.account, &[]);
    manager.until_readyz(503, &format!("waiting for the first list of {}", KINDS.join(", "))).await;
    assert_eq!(manager.probe("/healthz").unwrap(), (200, "ok".to_owned()));
    let advice = |kind| {
        format!("cannot watch {kind}: the API server does not know it; install its CRD (--install-crds does)")
    };
    for kind in KINDS {
        manager.until_logged(&advice(kind)).await;
    }

    assert_install_is_forbidden(&env).await;
    assert_install_works(&env).await;

    manager.until_readyz(200, "ok").await;
    for kind in KINDS {
        assert_eq!(manager.count(&advice(kind)), 1, "{}", manager.log());
        manager.until_logged(&format!("the watch works again kind={kind}")).await;
    }
    env.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    env.until_ready(&POD_SET, "default", "podset-sample").await;
}

/// Runs `--install-crds` without the rights.
async fn assert_install_is_forbidden(env: &TestEnv) {
    let manager = env.start("no-right", &env.account, &["--install-crds"]);
    manager.until_logged("cannot install the CustomResourceDefinition").await;
    let (end, log) = manager.until_exit(Duration::from_secs(5)).await;
    assert!(end.contains("exit code 1"), "{end}");
    assert!(log.contains("is forbidden") && log.contains("deploy/rbac/optional/install-crds.yaml"), "{log}");
}

/// Runs `--install-crds` with the rights.
async fn assert_install_works(env: &TestEnv) {
    env.grant_crd_rights().await;
    let manager = env.start_with_probes("installer", &env.account, &["--install-crds"]);
    manager.until_logged("installed the CustomResourceDefinitions").await;
    manager.until_readyz(200, "ok").await;
    manager.stop().await;
    let again = env.start_with_probes("installer-again", &env.account, &["--install-crds"]);
    again.until_readyz(200, "ok").await;
    again.stop().await;
}

#[tokio::test]
async fn waits_for_missing_rights() {
    let env = tutorial().await;
    let account = env.account("newcomer").await;
    let manager = env.start_with_probes("newcomer", &account, &["--controllers=podset,tenant"]);
    let kinds = [
        "CapsuleConfiguration",
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "GatewayClass",
        "GlobalProxySettings",
        "LimitRange",
        "Namespace",
        "NetworkPolicy",
        "PersistentVolume",
        "Pod",
        "PodSet",
        "PriorityClass",
        "ProxySetting",
        "ResourceQuota",
        "RoleBinding",
        "RuntimeClass",
        "ServiceAccount",
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
        env.grant_controller_rights(&account, controller).await;
    }
    manager.until_readyz(200, "ok").await;
    for kind in kinds {
        assert_eq!(manager.count(&advice(kind)), 1, "{}", manager.log());
    }
    manager.stop().await;
}
