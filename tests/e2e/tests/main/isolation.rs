//! Permissions of a Tenant's owner with the deployed RBAC and webhooks.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TENANT, TestEnv, webhooks_env};

const GROUP: &str = "--as-group=projectcapsule.dev";

/// An owner who runs kubectl.
pub(crate) struct Owner<'s> {
    env: &'s TestEnv,
    pub(crate) name: String,
}

impl Owner<'_> {
    pub(crate) async fn run(&self, line: &str) -> Result<String, String> {
        let user = format!("--as={}", self.name);
        let args: Vec<_> = line.split_whitespace().chain([user.as_str(), GROUP]).collect();
        self.env.kubectl(&args).await.map_err(|error| format!("{error:#}"))
    }

    /// Runs each command and returns those with an unexpected result.
    async fn run_all(&self, lines: &[&str], should: impl Fn(&Result<String, String>) -> bool) -> Vec<String> {
        let mut unexpected = Vec::new();
        for line in lines {
            let result = self.run(line).await;
            if !should(&result) {
                unexpected.push(format!("{} ran {line}: {result:?}", self.name));
            }
        }
        unexpected
    }
}

/// Creates a Tenant, and the namespace `<tenant>-dev` as its owner.
pub(crate) async fn create_tenant<'e>(
    env: &'e TestEnv,
    tenant: &str,
    name: &str,
    mut spec: Value,
) -> Owner<'e> {
    spec["owners"] = json!([{ "kind": "User", "name": name }]);
    env.create(&TENANT, "", tenant, spec).await;
    env.until_ready(&TENANT, "", tenant).await;
    let owner = Owner { env, name: name.to_owned() };
    let create = format!("create namespace {tenant}-dev");
    eventually("the owner to be allowed to create a namespace", PATIENCE, async || {
        Ok(match owner.run(&create).await {
            Err(error) if !error.contains("already exists") => Err(error),
            _ => Ok(()),
        })
    })
    .await
    .unwrap();
    env.until_tenant_ready(tenant, 1).await;
    owner
}

fn spec() -> Value {
    json!({
        "namespaceOptions": { "quota": 2 },
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "100m" } }] }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": { "pods": "2" } }] },
    })
}

const REFUSED: &[&str] = &[
    // Cluster-scoped resources.
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
    // Objects that define Tenants and their owners.
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
    // The assignment of the own namespace.
    "label --overwrite namespace oil-dev capsule.clastix.io/tenant=gas",
    // Managed objects.
    "delete limitrange capsule-oil-0 --namespace=oil-dev",
    "delete resourcequota capsule-oil-0 --namespace=oil-dev",
    "delete networkpolicy capsule-oil-0 --namespace=oil-dev",
    "delete networkpolicies --all --namespace=oil-dev",
    "delete rolebindings --all --namespace=oil-dev",
    "patch resourcequota capsule-oil-0 --namespace=oil-dev --type=merge --patch={\"spec\":{\"hard\":{\"pods\":\"9\"}}}",
    "label --overwrite networkpolicy capsule-oil-0 --namespace=oil-dev projectcapsule.dev/managed-by-",
    // Reserved names of managed objects.
    "create quota capsule-oil-7 --hard=pods=9 --namespace=oil-dev",
    "create rolebinding capsule:managed:mine --clusterrole=view --user=carol --namespace=oil-dev",
    // Privilege escalation.
    "create rolebinding mine --clusterrole=cluster-admin --user=alice --namespace=oil-dev",
    "create role mine --verb=update --resource=resourcequotas --namespace=oil-dev",
];

/// Requests that succeed without an effect: the webhook restores what the Tenant sets.
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
async fn owner_has_full_rights_only_within_the_tenant() {
    let env = webhooks_env().await;
    let alice = create_tenant(env, "oil", "alice", spec()).await;
    create_tenant(env, "gas", "bob", spec()).await;
    let is_denied = |result: &Result<String, String>| {
        result.as_ref().is_err_and(|error| error.contains("orbidden") || error.contains("denied"))
    };
    let mut unexpected = alice.run_all(REFUSED, is_denied).await;
    let identity = async || {
        let metadata = env.read(&["get", "namespace", "oil-dev"]).await["metadata"].clone();
        ["labels", "annotations", "ownerReferences"].map(|field| metadata[field].clone())
    };
    let before = identity().await;
    unexpected.extend(alice.run_all(WITHOUT_EFFECT, Result::is_ok).await);
    assert_eq!(identity().await, before);
    unexpected.extend(alice.run_all(ALLOWED, Result::is_ok).await);
    assert!(unexpected.is_empty(), "{unexpected:#?}");

    // The administrator's view of the Tenant.
    let table = env.kubectl(&["get", "tenant", "oil"]).await.unwrap();
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "NAME STATE NAMESPACE QUOTA NAMESPACE COUNT NODE SELECTOR READY STATUS AGE");
    assert!(lines[1].starts_with("oil Active 2 "), "{table}");
    assert!(lines[1].contains(r#"{"kubernetes.io/os":"linux"} True"#), "{table}");

    // An owner can add a NetworkPolicy.
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": "own", "namespace": "oil-dev" }, "spec": { "podSelector": {} },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), policy.to_string()).unwrap();
    alice.run(&format!("create -f {}", file.path().display())).await.unwrap();
    alice.run("delete networkpolicy own --namespace=oil-dev").await.unwrap();

    // The quota of namespaces: one is left or terminating.
    alice
        .run("create namespace oil-third")
        .await
        .map(drop)
        .or_else(|error| if error.contains("2 namespaces") { Ok(()) } else { Err(error) })
        .unwrap();
    let refused = alice.run("create namespace oil-fourth").await.unwrap_err();
    assert!(refused.contains("oil") && refused.contains("quota"), "{refused}");
    eventually("an Event about the denial", PATIENCE, async || {
        let about =
            "--field-selector=involvedObject.kind=Tenant,involvedObject.name=oil,reason=NamespaceDenied";
        let events = env.kubectl(&["get", "events", "--namespace=default", about]).await?;
        Ok(if events.contains("denied request of alice") { Ok(()) } else { Err(events) })
    })
    .await
    .unwrap();
    // The quota of Pods.
    alice.run("scale deployment web --replicas=5 --namespace=oil-dev").await.unwrap();
    eventually("the quota to be used up", PATIENCE, async || {
        let quota = env.read(&["get", "resourcequota", "capsule-oil-0", "--namespace=oil-dev"]).await;
        Ok(if quota["status"]["used"]["pods"] == "2" { Ok(()) } else { Err(quota) })
    })
    .await
    .unwrap();
    assert_eq!(env.names(&["pods", "--namespace=oil-dev"]).await.len(), 2);
}
