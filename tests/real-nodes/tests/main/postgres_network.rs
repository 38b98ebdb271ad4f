//! Who may connect to a PostgresCluster on a network that enforces its NetworkPolicy.

use cluster::wait::eventually;

use crate::{
    manager::install,
    support::{Kubectl, PATIENCE, shared},
};

/// The second member needs the first.
const MANIFEST: &str = "
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: shop, namespace: NAMESPACE}
spec:
  size: 2
  version: 15
  storage: {size: 256Mi}
";

impl Kubectl {
    /// Waits until the Pod `client` of the namespace reaches PostgreSQL, or no longer does.
    async fn until_reaches(&self, host: &str, expected: bool) {
        let what = format!("{} to reach {host}: {expected}", self.namespace.name());
        eventually(&what, PATIENCE, async || {
            let reaches = self.connects("client", host, 5432).await?;
            Ok(if reaches == expected { Ok(()) } else { Err(reaches) })
        })
        .await
        .unwrap();
    }

    async fn patch(&self, patch: &str) {
        self.args(&["patch", "pgc", "shop", "--type=merge", "--patch", patch]).await.unwrap();
    }
}

#[tokio::test]
async fn namespace_may_connect_unless_the_spec_names_others() {
    let shared = shared().await;
    install(shared.cluster).await;
    let inside = Kubectl::new(shared.cluster, "shop").await;
    let outside = Kubectl::new(shared.cluster, "reports").await;
    inside.apply(MANIFEST).await;
    tokio::join!(inside.client("client"), outside.client("client"));
    inside.until("get pgc shop -o jsonpath={.status.readyMembers}", |ready| ready == "2").await;
    let host = format!("shop-rw.{}.svc", inside.namespace.name());
    inside.until_reaches(&host, true).await;
    outside.until_reaches(&host, false).await;

    let selector = format!(r#"{{"kubernetes.io/metadata.name":"{}"}}"#, outside.namespace.name());
    let clients = format!(r#"[{{"namespaceSelector":{{"matchLabels":{selector}}}}}]"#);
    inside.patch(&format!(r#"{{"spec":{{"networkPolicy":{{"clients":{clients}}}}}}}"#)).await;
    outside.until_reaches(&host, true).await;
    inside.until_reaches(&host, false).await;
    // A new member copies the primary, although members are not among the clients.
    inside.patch(r#"{"spec":{"size":3}}"#).await;
    inside.until("get pgc shop -o jsonpath={.status.readyMembers}", |ready| ready == "3").await;

    inside.patch(r#"{"spec":{"networkPolicy":{"enabled":false,"clients":null}}}"#).await;
    inside.until_reaches(&host, true).await;
    assert_eq!(inside.run("get networkpolicies -o name").await.unwrap(), "");
}
