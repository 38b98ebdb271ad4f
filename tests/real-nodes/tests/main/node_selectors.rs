//! The node selector of a Tenant, which the admission plugin PodNodeSelector adds to its Pods.

use cluster::wait::eventually;

use crate::{
    manager::install,
    support::{Kubectl, PATIENCE, shared},
    tenancy::owner,
};

const NODE: &str = "worker-1";
const OTHER: &str = "worker-2";

#[tokio::test]
async fn pods_of_a_tenant_run_on_its_nodes_only() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "placed").await;
    let tenant = kubectl.namespace.name().to_owned();
    kubectl
        .apply(&format!(
            "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {{name: {tenant}}}
spec:
  owners: [{{kind: User, name: dora}}]
  nodeSelector: {{kubernetes.io/hostname: {NODE}}}
"
        ))
        .await;
    let dev = format!("{tenant}-dev");
    let dora = async |line: &str| {
        let outcome = owner(shared.cluster, "dora", line).await;
        outcome.map_err(|error| format!("{error:#}"))
    };
    kubectl.run(&format!("wait --for=condition=Ready tenant/{tenant} --timeout=120s")).await.unwrap();
    dora(&format!("create namespace {dev}")).await.unwrap();
    let create = format!("create deployment web -n {dev} --image=nginx:1.27 --replicas=3");
    // The RoleBindings of a new namespace follow.
    eventually("dora to create a Deployment", PATIENCE, async || Ok(dora(&create).await)).await.unwrap();
    dora(&format!("rollout status deployment/web -n {dev} --timeout=120s")).await.unwrap();
    let nodes = dora(&format!("get pods -n {dev} -o jsonpath={{.items[*].spec.nodeName}}")).await.unwrap();
    assert_eq!(nodes, [NODE; 3].join(" "));

    // An owner can neither select another node, nor bypass the scheduler.
    let run = format!("run other -n {dev} --image=busybox:1.36 --overrides");
    let other = async |spec: String| {
        let overrides = format!(r#"--overrides={{"spec":{spec}}}"#);
        dora(&run.replace("--overrides", &overrides)).await
    };
    let error =
        other(format!(r#"{{"nodeSelector":{{"kubernetes.io/hostname":"{OTHER}"}}}}"#)).await.unwrap_err();
    assert!(error.contains("conflicts with its namespace node label selector"), "{error}");
    other(format!(r#"{{"nodeName":"{OTHER}"}}"#)).await.unwrap();
    let outcome = format!("get pod other -n {dev} -o jsonpath={{.status.phase}}:{{.status.reason}}");
    kubectl.until(&outcome, |outcome| outcome == "Failed:NodeAffinity").await;
}
