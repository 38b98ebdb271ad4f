//! Tenants and NamespacePluses on real Pods and connections.

use cluster::{Cluster, wait::eventually};
use tokio::sync::OnceCell;

use crate::{
    manager::install,
    support::{Kubectl, PATIENCE, shared},
};

/// Two Tenants whose namespaces accept connections from their own Tenant only.
const TENANTS: [(&str, &str); 2] = [("oil", "alice"), ("gas", "bob")];

static TENANTS_READY: OnceCell<()> = OnceCell::const_new();

/// Runs kubectl as an owner.
pub(crate) async fn owner(cluster: &Cluster, user: &str, line: &str) -> anyhow::Result<String> {
    let user = format!("--as={user}");
    let args: Vec<_> =
        [user.as_str(), "--as-group=projectcapsule.dev"].into_iter().chain(line.split(' ')).collect();
    cluster.kubectl(&args).await
}

/// Creates the Tenants, each with a namespace that has a web server and a client.
async fn tenants(cluster: &'static Cluster) {
    install(cluster).await;
    TENANTS_READY
        .get_or_init(async || {
            for (tenant, user) in TENANTS {
                let manifest = format!(
                    "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {{name: {tenant}}}
spec:
  owners: [{{kind: User, name: {user}}}]
  limitRanges:
    items:
      - limits: [{{type: Container, default: {{cpu: 100m, memory: 50Mi}}, defaultRequest: {{cpu: 10m, memory: 10Mi}}}}]
  resourceQuotas:
    items: [{{hard: {{pods: '3'}}}}]
  networkPolicies:
    items:
      - podSelector: {{}}
        policyTypes: [Ingress, Egress]
        ingress: [{{from: [{{namespaceSelector: {{matchLabels: {{capsule.clastix.io/tenant: {tenant}}}}}}}]}}]
        egress:
          - to: [{{namespaceSelector: {{matchLabels: {{capsule.clastix.io/tenant: {tenant}}}}}}}]
          - to: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: kube-system}}}}}}]
            ports: [{{port: 53, protocol: UDP}}, {{port: 53, protocol: TCP}}]
"
                );
                cluster.apply_yaml(&manifest).await.unwrap();
                let create = format!("create namespace {tenant}-dev");
                let create = async || {
                    let created = owner(cluster, user, &create).await.map_err(|error| format!("{error:#}"));
                    Ok(created.or_else(|error| if error.contains("already exists") { Ok(error) } else { Err(error) }))
                };
                eventually("the owner to create a namespace", PATIENCE, create).await.unwrap();
                let dev = format!("-n {tenant}-dev");
                let owned = async |line: String| owner(cluster, user, &format!("{line} {dev}")).await.map_err(|error| format!("{error:#}"));
                let policies = async || {
                    let policies = cluster.kubectl(&["get", "networkpolicy,resourcequota,limitrange,rolebinding", "-n", &format!("{tenant}-dev"), "--no-headers"]).await?;
                    Ok(if policies.lines().count() >= 5 { Ok(()) } else { Err(policies) })
                };
                eventually("the namespace to be complete", PATIENCE, policies).await.unwrap();
                owned("run web --image=nginx:1.27 --port=80 --expose".to_owned()).await.unwrap();
                cluster.kubectl(&["run", "client", "--image=localhost/client:1", "-n", &format!("{tenant}-dev"), "--", "sleep", "infinity"]).await.unwrap();
                owned("wait --for=condition=Ready pod/web pod/client --timeout=120s".to_owned()).await.unwrap();
            }
        })
        .await;
}

#[tokio::test]
async fn connections_stay_in_their_tenant_and_dns_works() {
    let shared = shared().await;
    tenants(shared.cluster).await;
    let get = async |from: &str, to: &str| {
        let namespace = format!("{from}-dev");
        let url = format!("http://web.{to}-dev.svc.cluster.local");
        let args =
            ["exec", "-n", &namespace, "client", "--", "curl", "-sS", "-o", "/dev/null", "-m", "3", &url];
        shared.cluster.kubectl(&args).await.map_err(|error| format!("{error:#}"))
    };
    for (from, to) in [("oil", "oil"), ("gas", "gas")] {
        // A new Pod is unrestricted or unreachable for an instant.
        eventually("an own server to answer", PATIENCE, async || Ok(get(from, to).await)).await.unwrap();
    }
    for (from, to) in [("oil", "gas"), ("gas", "oil")] {
        let error = get(from, to).await.unwrap_err();
        assert!(error.contains("timed out"), "the name resolves, and the connection does not: {error}");
    }
}

#[tokio::test]
async fn quota_and_limits_act_on_pods() {
    let shared = shared().await;
    tenants(shared.cluster).await;
    let limits = "get pods -n oil-dev -o jsonpath={.items[*].spec.containers[0].resources.limits.memory}";
    let limits = shared.cluster.kubectl(&limits.split(' ').collect::<Vec<_>>()).await.unwrap();
    assert_eq!(limits, "50Mi 50Mi");
    owner(shared.cluster, "alice", "run third --image=busybox:1.36 -n oil-dev -- sleep 3600").await.unwrap();
    let error =
        owner(shared.cluster, "alice", "run fourth --image=busybox:1.36 -n oil-dev -- sleep 3600").await;
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("exceeded quota"), "{error}");
    owner(shared.cluster, "alice", "delete pod third -n oil-dev --now").await.unwrap();
}

#[tokio::test]
async fn owner_reaches_nothing_of_another_tenant() {
    let shared = shared().await;
    tenants(shared.cluster).await;
    for line in [
        "exec -n gas-dev client -- true",
        "attach -n gas-dev client",
        "port-forward -n gas-dev pod/web :80",
        "logs -n gas-dev web",
        "cp -n gas-dev web:/etc/passwd /dev/null",
        "debug -n gas-dev web --image=busybox:1.36 -- true",
        "get pods -n gas-dev",
        "get secrets -n gas-dev",
        "get pods --all-namespaces",
        "delete pod -n gas-dev web",
        "create token default -n gas-dev",
        "get --raw /api/v1/namespaces/gas-dev/services/web/proxy/",
        "get --raw /api/v1/nodes/worker-0/proxy/pods",
        "get --raw /api/v1/namespaces/gas-dev/pods/web/proxy/",
        "debug node/worker-0 --image=busybox:1.36 -n oil-dev -- true",
        "drain worker-0 --force",
        "top pods -n gas-dev",
        "create rolebinding mine -n gas-dev --clusterrole=admin --user=alice",
        "label namespace gas-dev capsule.clastix.io/tenant=oil --overwrite",
        "delete networkpolicy -n oil-dev -l projectcapsule.dev/managed-by=controller",
    ] {
        let outcome = owner(shared.cluster, "alice", line).await;
        assert!(outcome.is_err(), "alice ran `kubectl {line}`: {outcome:?}");
    }
}

#[tokio::test]
async fn namespaceplus_quota_acts_on_pods() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "team").await;
    let team = format!("{}-team", kubectl.namespace.name());
    kubectl
        .apply(&format!(
            "
apiVersion: mygroup.my.domain/v1
kind: NamespacePlus
metadata: {{name: {team}, namespace: NAMESPACE}}
spec: {{foo: example}}
"
        ))
        .await;
    kubectl.run(&format!("wait --for=condition=Ready namespaceplus/{team} --timeout=120s")).await.unwrap();
    // The default quota allows nothing.
    let run = ["run", "pod", "--image=busybox:1.36", "-n", &team];
    eventually("the quota to reject a Pod", PATIENCE, async || {
        Ok(match shared.cluster.kubectl(&run).await {
            Err(error) => format!("{error:#}").contains("quota"),
            Ok(_) => panic!("the quota allows a Pod"),
        })
    })
    .await
    .unwrap();
    kubectl.run(&format!("delete namespaceplus {team} --timeout=60s")).await.unwrap();
}
