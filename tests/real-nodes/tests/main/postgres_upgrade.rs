//! The containers of an upgrade to another major version.
//!
//! The images for tests have one version of PostgreSQL, whatever their tag says. So the upgrade fails, and the cluster
//! goes on with its data. Upgrades that succeed are in `tests/postgres`.

use crate::{
    manager::install,
    support::{Kubectl, shared},
};

const MANIFEST: &str = "
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: shop, namespace: NAMESPACE}
spec:
  size: 1
  version: 15
  storage: {size: 256Mi}
";

/// The init containers of the member, and whether each is complete.
const INITS: &str =
    r"jsonpath={range .status.initContainerStatuses[*]}{.name}={.state.terminated.exitCode} {end}";

#[tokio::test]
async fn image_of_another_version_ends_an_upgrade_and_the_former_version_runs_again() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "upgrade").await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    kubectl.args(&["label", "namespace", kubectl.namespace.name(), restricted]).await.unwrap();
    kubectl.apply(MANIFEST).await;
    let ready = "wait pgc/shop --for=condition=Ready --timeout=120s";
    kubectl.run(ready).await.unwrap();
    kubectl.exec("shop-1", "psql --username=postgres --command='create table kept ()'").await.unwrap();

    let upgrade = r#"{"spec": {"version": 18, "updates": {"majorVersion": "Upgrade"}}}"#;
    kubectl.args(&["patch", "pgc", "shop", "--type=merge", "--patch", upgrade]).await.unwrap();
    let failure = "get pgc shop -o jsonpath={.status.majorUpgrade.failure}";
    let failure = kubectl.until(failure, |failure| !failure.is_empty()).await;
    assert!(failure.starts_with("the image of the new version has another major version"), "{failure}");

    let back = r#"{"spec": {"version": 15}}"#;
    kubectl.args(&["patch", "pgc", "shop", "--type=merge", "--patch", back]).await.unwrap();
    kubectl.until("get pgc shop -o jsonpath={.status.majorUpgrade}", str::is_empty).await;
    kubectl.run(ready).await.unwrap();
    let kept = "psql --username=postgres --tuples-only --no-align --command='select count(*) from kept'";
    assert_eq!(kubectl.exec("shop-1", kept).await.unwrap().trim(), "0");
    let inits = kubectl.args(&["get", "pod", "shop-1", "-o", INITS]).await.unwrap();
    assert_eq!(inits.trim(), "install=0");
}
