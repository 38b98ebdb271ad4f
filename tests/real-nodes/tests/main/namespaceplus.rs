//! What a NamespacePlus declares acts on real Pods and connections.

use cluster::wait::eventually;

use crate::{
    manager::install,
    support::{Kubectl, PATIENCE, shared},
};

#[tokio::test]
async fn limits_quota_and_policies_of_a_namespaceplus_act_on_pods() {
    let shared = shared().await;
    install(shared.cluster).await;
    let outside = Kubectl::new(shared.cluster, "outside").await;
    let team = format!("{}-team", outside.namespace.name());
    outside
        .apply(&format!(
            "
apiVersion: mygroup.my.domain/v1
kind: NamespacePlus
metadata: {{name: {team}, namespace: NAMESPACE}}
spec:
  labels: {{team: blue, pod-security.kubernetes.io/enforce: baseline}}
  quota: {{pods: 4, limits.memory: 400Mi}}
  limitRange:
    limits:
      - type: Container
        default: {{cpu: 500m, memory: 20Mi}}
        defaultRequest: {{cpu: 10m, memory: 10Mi}}
        max: {{memory: 64Mi}}
  networkPolicies:
    - {{name: default-deny, spec: {{podSelector: {{}}, policyTypes: [Ingress]}}}}
    - {{name: from-within, spec: {{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{}}}}]}}]}}}}
  deletionPolicy: Delete
"
        ))
        .await;
    outside.run(&format!("wait --for=condition=Ready namespaceplus/{team} --timeout=120s")).await.unwrap();
    let inside = async |line: &str| {
        outside.run(&format!("-n {team} {line}")).await.map_err(|error| format!("{error:#}"))
    };

    // Every container gets the default limit, and is killed above it.
    let greedy = format!("-n {team} run greedy --image=busybox:1.36 --restart=Never -- sh -c");
    let script = "head -c 100000000 /dev/zero | tail";
    outside.args(&greedy.split(' ').chain([script]).collect::<Vec<_>>()).await.unwrap();
    let reason = "get pod greedy -o jsonpath={.status.containerStatuses[0].state.terminated.reason}";
    outside.until(&format!("-n {team} {reason}"), |reason| reason == "OOMKilled").await;
    let error = inside("run large --image=busybox:1.36 --overrides={\"spec\":{\"containers\":[{\"name\":\"large\",\"image\":\"busybox:1.36\",\"resources\":{\"limits\":{\"memory\":\"65Mi\"}}}]}}").await;
    assert!(error.unwrap_err().contains("maximum memory usage per Container is 64Mi"));
    let error = inside("run root --image=busybox:1.36 --privileged").await.unwrap_err();
    assert!(error.contains("violates PodSecurity"), "{error}");

    // Finished Pods do not count. While the quota controller computes that, it can miss a new Pod.
    let used = format!("-n {team} get quota default-quota -o jsonpath={{.status.used.pods}}");
    outside.until(&used, |used| used == "0").await;
    inside("run web --image=nginx:1.27 --port=80 --expose").await.unwrap();
    for name in ["client", "second", "third"] {
        inside(&format!("run {name} --image=localhost/client:1 -- sleep 3600")).await.unwrap();
    }
    let error = inside("run fifth --image=busybox:1.36").await.unwrap_err();
    assert!(error.contains("exceeded quota: default-quota"), "{error}");

    // Connections come from the same namespace only.
    outside.client("stranger").await;
    inside("wait --for=condition=Ready pod/web pod/client --timeout=120s").await.unwrap();
    let url = format!("http://web.{team}.svc.cluster.local");
    let get = format!("-- curl -sS -o /dev/null -m 3 {url}");
    let answers = async || Ok(inside(&format!("exec client {get}")).await);
    eventually("the server to answer its own namespace", PATIENCE, answers).await.unwrap();
    let error = format!("{:#}", outside.run(&format!("exec stranger {get}")).await.unwrap_err());
    assert!(error.contains("timed out"), "{error}");

    // A policy that somebody deletes is restored, and acts again.
    inside("delete networkpolicy default-deny from-within").await.unwrap();
    let restored = async || Ok(inside("get networkpolicy default-deny from-within").await);
    eventually("the policies to be restored", PATIENCE, restored).await.unwrap();
    let refused = async || Ok(outside.run(&format!("exec stranger {get}")).await.is_err());
    eventually("the restored policy to act", PATIENCE, refused).await.unwrap();
    eventually("the server to answer again", PATIENCE, answers).await.unwrap();

    outside.run(&format!("delete namespaceplus {team} --wait=false")).await.unwrap();
}
