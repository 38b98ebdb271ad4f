//! NetworkPolicies act on real connections.

use cluster::wait::eventually;

use crate::support::{Kubectl, PATIENCE, shared};

const GET: &str = "curl -sS -o /dev/null -m 2 http://web";

impl Kubectl {
    /// Waits until the client can or cannot reach the server.
    async fn until_reachable(&self, client: &str, reachable: bool) {
        let probe = async || Ok(self.exec(client, GET).await.is_ok() == reachable);
        let what = format!("{client} to reach the server: {reachable}");
        eventually(&what, PATIENCE, probe).await.unwrap();
    }
}

#[tokio::test]
async fn policies_deny_and_allow_connections_and_leave_dns_working() {
    let shared = shared().await;
    let kubectl = Kubectl::new(shared.cluster, "policies").await;
    kubectl.run("run web --image=nginx:1.27 --port=80 --expose").await.unwrap();
    for client in ["friend", "stranger"] {
        kubectl.client(client).await;
    }
    kubectl.ready("web").await;
    for client in ["friend", "stranger"] {
        kubectl.until_reachable(client, true).await;
    }

    kubectl
        .apply(
            "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: NAMESPACE}
spec: {podSelector: {}, policyTypes: [Ingress]}
",
        )
        .await;
    for client in ["friend", "stranger"] {
        kubectl.until_reachable(client, false).await;
    }

    kubectl
        .apply(
            "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow, namespace: NAMESPACE}
spec:
  podSelector: {matchLabels: {run: web}}
  ingress: [{from: [{podSelector: {matchLabels: {run: friend}}}], ports: [{port: 80}]}]
",
        )
        .await;
    kubectl.until_reachable("friend", true).await;
    kubectl.until_reachable("stranger", false).await;
    kubectl.exec("stranger", "drill web.$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace).svc.cluster.local | grep -q NOERROR").await.unwrap();
    kubectl.ready("web").await;

    kubectl.run("delete networkpolicy deny allow").await.unwrap();
    kubectl.until_reachable("stranger", true).await;
}
