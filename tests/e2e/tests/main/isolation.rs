//! What an owner of a Tenant can and cannot do, under the rights and webhooks that are deployed and no others.

use cluster::wait::eventually;
use serde_json::json;

use crate::support::{PATIENCE, Stage, TENANT, Webhooks};

const GROUP: &str = "--as-group=projectcapsule.dev";

/// An owner, who types commands.
struct Owner<'s> {
    stage: &'s Stage,
    name: String,
}

impl Owner<'_> {
    async fn types(&self, line: &str) -> Result<String, String> {
        let user = format!("--as={}", self.name);
        let words: Vec<_> = line.split_whitespace().chain([user.as_str(), GROUP]).collect();
        self.stage.kubectl(&words).await.map_err(|error| format!("{error:#}"))
    }

    /// Types each line, and returns those that did not end as they should.
    async fn types_all(
        &self,
        lines: &[&str],
        should: impl Fn(&Result<String, String>) -> bool,
    ) -> Vec<String> {
        let mut amiss = Vec::new();
        for line in lines {
            let said = self.types(line).await;
            if !should(&said) {
                amiss.push(format!("{} typed {line}: {said:?}", self.name));
            }
        }
        amiss
    }
}

/// A cluster with the Tenants oil, of alice, and gas, of bob, each with one namespace.
async fn world() -> (Stage, crate::support::Manager) {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_asked().await;
    for (tenant, name) in [("oil", "alice"), ("gas", "bob")] {
        let spec = json!({
            "owners": [{ "kind": "User", "name": name }],
            "namespaceOptions": { "quota": 2 },
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "limitRanges": { "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "100m" } }] }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
            "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": { "pods": "2" } }] },
        });
        stage.create(&TENANT, "", tenant, spec).await;
        stage.until_settled(&TENANT, "", tenant).await;
        let owner = Owner { stage: &stage, name: name.to_owned() };
        let create = format!("create namespace {tenant}-dev");
        eventually("an owner to be able to create a namespace", PATIENCE, async || {
            Ok(match owner.types(&create).await {
                Err(error) if !error.contains("already exists") => Err(error),
                _ => Ok(()),
            })
        })
        .await
        .unwrap();
        stage.until_joined(tenant, 1).await;
    }
    (stage, manager)
}

const REFUSED: &[&str] = &[
    // The cluster.
    "get nodes",
    "get namespaces",
    "get clusterroles",
    "get persistentvolumes",
    "create clusterrole mine --verb=get --resource=secrets",
    "create clusterrolebinding mine --clusterrole=cluster-admin --user=alice",
    "create priorityclass mine --value=1000",
    "label namespace kube-system mine=yes",
    "label namespace kube-system capsule.clastix.io/tenant=oil",
    "label namespace default capsule.clastix.io/tenant=oil",
    "label namespace ensemble-system mine=yes",
    "delete namespace kube-system",
    "get secrets --namespace=ensemble-system",
    // What says who they are.
    "get tenants",
    "patch tenant oil --type=merge --patch={\"spec\":{\"namespaceOptions\":{\"quota\":9}}}",
    "delete tenant oil",
    "patch capsuleconfiguration default --type=merge --patch={\"spec\":{\"userNames\":[\"alice\"]}}",
    "get tenantowners",
    "delete validatingwebhookconfiguration ensemble-tenant",
    // Another Tenant.
    "get pods --namespace=gas-dev",
    "get secrets --namespace=gas-dev",
    "create configmap mine --namespace=gas-dev",
    "label namespace gas-dev mine=yes",
    "label --overwrite namespace gas-dev capsule.clastix.io/tenant=oil",
    "delete namespace gas-dev",
    // What their own namespace is and belongs to.
    "label --overwrite namespace oil-dev capsule.clastix.io/tenant=gas",
    // What the controller keeps in it.
    "delete limitrange capsule-oil-0 --namespace=oil-dev",
    "delete resourcequota capsule-oil-0 --namespace=oil-dev",
    "delete networkpolicy capsule-oil-0 --namespace=oil-dev",
    "delete networkpolicies --all --namespace=oil-dev",
    "delete rolebindings --all --namespace=oil-dev",
    "patch resourcequota capsule-oil-0 --namespace=oil-dev --type=merge --patch={\"spec\":{\"hard\":{\"pods\":\"9\"}}}",
    "label --overwrite networkpolicy capsule-oil-0 --namespace=oil-dev projectcapsule.dev/managed-by-",
    // The names of what it may keep there one day.
    "create quota capsule-oil-7 --hard=pods=9 --namespace=oil-dev",
    "create rolebinding capsule:managed:mine --clusterrole=view --user=carol --namespace=oil-dev",
    // Rights that they do not have themselves.
    "create rolebinding mine --clusterrole=cluster-admin --user=alice --namespace=oil-dev",
    "create role mine --verb=update --resource=resourcequotas --namespace=oil-dev",
];

/// What goes through without an effect: the Tenant keeps what it gives.
const WITHOUT_EFFECT: &[&str] = &[
    "label namespace oil-dev capsule.clastix.io/tenant-",
    "annotate --overwrite namespace oil-dev scheduler.alpha.kubernetes.io/node-selector=kubernetes.io/os=windows",
    "patch namespace oil-dev --type=merge --patch={\"metadata\":{\"ownerReferences\":null}}",
];

const ALLOWED: &[&str] = &[
    "get namespace oil-dev",
    "label namespace oil-dev stage=dev",
    "create namespace oil-test",
    "create configmap mine --namespace=oil-dev",
    "create secret generic mine --from-literal=a=b --namespace=oil-dev",
    "create deployment web --image=web --namespace=oil-dev",
    "create service clusterip web --tcp=80 --namespace=oil-dev",
    "create serviceaccount robot --namespace=oil-dev",
    "create role mine --verb=get --resource=pods --namespace=oil-dev",
    "create rolebinding viewers --clusterrole=view --user=carol --namespace=oil-dev",
    "delete rolebinding viewers --namespace=oil-dev",
    "get resourcequotas --namespace=oil-dev",
    "get limitranges --namespace=oil-dev",
    "delete namespace oil-test --wait=false",
];

#[tokio::test]
async fn an_owner_is_kept_to_the_tenant_and_free_within_it() {
    let (stage, manager) = world().await;
    let alice = Owner { stage: &stage, name: "alice".to_owned() };
    let is_refusal = |said: &Result<String, String>| {
        said.as_ref().is_err_and(|error| error.contains("orbidden") || error.contains("denied"))
    };
    let mut amiss = alice.types_all(REFUSED, is_refusal).await;
    let identity = async || {
        let metadata = stage.read(&["get", "namespace", "oil-dev"]).await["metadata"].clone();
        ["labels", "annotations", "ownerReferences"].map(|field| metadata[field].clone())
    };
    let before = identity().await;
    amiss.extend(alice.types_all(WITHOUT_EFFECT, Result::is_ok).await);
    assert_eq!(identity().await, before);
    amiss.extend(alice.types_all(ALLOWED, Result::is_ok).await);
    assert!(amiss.is_empty(), "{amiss:#?}");

    // What an administrator sees of it.
    let table = stage.kubectl(&["get", "tenant", "oil"]).await.unwrap();
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "NAME STATE NAMESPACE QUOTA NAMESPACE COUNT NODE SELECTOR READY STATUS AGE");
    assert!(lines[1].starts_with("oil Active 2 "), "{table}");
    assert!(lines[1].contains(r#"{"kubernetes.io/os":"linux"} True"#), "{table}");

    // A policy of their own stands beside that of the Tenant.
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "own", "namespace": "oil-dev" }, "spec": { "podSelector": {} },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy.to_string()).unwrap();
    alice.types(&format!("create -f {}", file.path().display())).await.unwrap();
    alice.types("delete networkpolicy own --namespace=oil-dev").await.unwrap();

    // The quota of namespaces: one is left, or is going.
    alice
        .types("create namespace oil-third")
        .await
        .map(drop)
        .or_else(|error| if error.contains("2 namespaces") { Ok(()) } else { Err(error) })
        .unwrap();
    let refused = alice.types("create namespace oil-fourth").await.unwrap_err();
    assert!(refused.contains("oil") && refused.contains("quota"), "{refused}");
    eventually("the refusal to be told about the Tenant", PATIENCE, async || {
        let about =
            "--field-selector=involvedObject.kind=Tenant,involvedObject.name=oil,reason=NamespaceDenied";
        let events = stage.kubectl(&["get", "events", "--namespace=default", about]).await?;
        Ok(if events.contains("refused to alice") { Ok(()) } else { Err(events) })
    })
    .await
    .unwrap();
    // The quota of pods.
    alice.types("scale deployment web --replicas=5 --namespace=oil-dev").await.unwrap();
    eventually("the quota to be used up", PATIENCE, async || {
        let quota = stage.read(&["get", "resourcequota", "capsule-oil-0", "--namespace=oil-dev"]).await;
        Ok(if quota["status"]["used"]["pods"] == "2" { Ok(()) } else { Err(quota) })
    })
    .await
    .unwrap();
    assert_eq!(stage.names(&["pods", "--namespace=oil-dev"]).await.len(), 2);
    manager.ask_to_end().await;
}
