//! Tenants with webhooks: access to namespaces and to managed objects.
//!
//! All tests of this folder share a cluster with two managers. The second one reviews namespaces
//! whose names end in `b`, and the objects in them.

mod assignment;
mod configuration;
mod denial_flood;
mod examples;
mod managed_objects;
mod manager_outage;
mod namespace_takeover;
mod policies;
mod quota;
mod subjects;
mod vulnerabilities;

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::subjects::Subject;
use crate::support::{Manager, PATIENCE, QUICK, TENANT, TestEnv, Webhooks};

const TENANT_LABEL: &str = "capsule.clastix.io/tenant";

/// Returns the shared cluster with its managers.
async fn shared_env() -> &'static TestEnv {
    static SHARED_ENV: OnceCell<(TestEnv, [Manager; 2])> = OnceCell::const_new();
    &SHARED_ENV.get_or_init(build).await.0
}

async fn build() -> (TestEnv, [Manager; 2]) {
    let env = TestEnv::complete().await;
    let webhooks = [Webhooks::new(), Webhooks::new()];
    let flags = [&["--leader-elect=true"], &QUICK[..]].concat();
    let names = ["manager-a", "manager-b"];
    let managers = [0, 1].map(|at| env.start_with_webhooks(names[at], webhooks[at], &flags));
    for manager in &managers {
        manager.until_readyz(200, "ok").await;
    }
    let deployed = env.deployed_configurations().await;
    env.configure(webhooks[0]).await;
    route_to_second(&env, &deployed, webhooks).await;
    permit(&env).await;
    env.until_enforced().await;
    (env, managers)
}

/// Routes reviews of namespaces whose names end in `b` to the second manager.
async fn route_to_second(env: &TestEnv, deployed: &[Value], webhooks: [Webhooks; 2]) {
    let configurations = webhooks.map(|webhooks| webhooks.configurations(deployed));
    for (at, configurations) in configurations.into_iter().enumerate() {
        for mut configuration in configurations.into_iter().filter(|one| one.get("webhooks").is_some()) {
            let kind = configuration["kind"].as_str().unwrap().to_owned();
            let name = configuration["metadata"]["name"].as_str().unwrap().to_owned();
            let there = env.read(&["get", &kind, &name]).await;
            let bundle = there["webhooks"][0]["clientConfig"]["caBundle"].clone();
            // A namespace's `namespace` is its own name.
            let is_second = "(has(request.namespace) && request.namespace.endsWith('b'))";
            let condition = if at == 0 { format!("!{is_second}") } else { is_second.to_owned() };
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                webhook["clientConfig"]["caBundle"] = bundle.clone();
                let fields = webhook.as_object_mut().unwrap();
                let conditions = fields.entry("matchConditions").or_insert_with(|| json!([]));
                conditions.as_array_mut().unwrap().push(json!({ "name": "shared", "expression": condition }));
            }
            if at == 1 {
                configuration["metadata"]["name"] = format!("{name}-b").into();
            }
            env.cluster.apply_yaml(&configuration.to_string()).await.unwrap();
        }
    }
}

/// Grants all rights on namespaces to all users, so that only admission rejects requests.
async fn permit(env: &TestEnv) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "anything" },
        "rules": [
            { "apiGroups": [""], "resources": ["namespaces", "namespaces/status", "namespaces/finalize", "limitranges",
                "resourcequotas", "resourcequotas/status", "configmaps", "pods", "pods/exec", "pods/eviction", "serviceaccounts"],
                "verbs": ["*"] },
            { "apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["*"] },
            { "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies", "ingresses"], "verbs": ["*"] },
            { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"] },
            { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"] },
        ],
    });
    env.cluster.apply_yaml(&role.to_string()).await.unwrap();
    let binding = [
        "create",
        "clusterrolebinding",
        "anything",
        "--clusterrole=anything",
        "--group=system:authenticated",
        "--group=system:serviceaccounts",
    ];
    env.kubectl(&binding).await.unwrap();
}

impl TestEnv {
    /// Waits until both managers review namespaces and the policy is in effect.
    async fn until_enforced(&self) {
        self.until_tenants_reviewed().await;
        for name in ["unowned-a", "unowned-b"] {
            eventually("the webhooks of both managers", PATIENCE, async || {
                let refused = Subject::user("outsider").dry_create(self, name).await;
                Ok(match refused {
                    Err(refused) if refused.contains("you own no Tenant") => Ok(()),
                    other => Err(other),
                })
            })
            .await
            .unwrap();
        }
        eventually("the cluster's own the webhooks of both managers", PATIENCE, async || {
            let label =
                ["label", "--dry-run=server", "namespace", "kube-public", "capsule.clastix.io/tenant=x"];
            Ok(match self.kubectl(&label).await {
                Err(refused) if format!("{refused:#}").contains("is part of the cluster") => Ok(()),
                other => Err(other.map_err(|error| format!("{error:#}"))),
            })
        })
        .await
        .unwrap();
    }

    /// Creates a Tenant with these owners.
    async fn tenant(&self, name: &str, owners: &[&Subject], mut spec: Value) {
        spec["owners"] = owners.iter().map(|owner| owner.as_owner()).collect();
        self.create(&TENANT, "", name, spec).await;
    }

    /// Returns the owner reference of the Tenant's namespaces.
    async fn reference(&self, tenant: &str) -> Value {
        let uid = self.read(&["get", "tenant", tenant]).await["metadata"]["uid"].clone();
        json!({ "apiVersion": TENANT.api_version(), "kind": "Tenant", "name": tenant, "uid": uid })
    }

    /// Returns the Tenant of a namespace from its label and its only owner reference.
    async fn tenant_of(&self, namespace: &str) -> String {
        let found = self.read(&["get", "namespace", namespace]).await["metadata"].clone();
        let references = found["ownerReferences"].as_array().unwrap();
        assert_eq!(references.len(), 1, "{found}");
        let tenant = found["labels"][TENANT_LABEL].as_str().unwrap();
        assert_eq!(references[0], self.reference(tenant).await);
        tenant.to_owned()
    }

    /// Waits until a namespace no longer exists.
    async fn until_no_namespace(&self, name: &str) {
        eventually(&format!("namespace {name} to be gone"), PATIENCE, async || {
            let all = self.names(&["namespaces"]).await;
            Ok(if all.iter().any(|one| one == name) { Err(all) } else { Ok(()) })
        })
        .await
        .unwrap();
    }
}

/// Returns a namespace with this metadata.
fn namespace(name: &str, mut metadata: Value) -> Namespace {
    metadata["name"] = name.into();
    serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).unwrap()
}

/// Creates a namespace. Returns its name or the error message.
async fn create_namespace(
    api: &Api<Namespace>,
    namespace: &Namespace,
    params: &PostParams,
) -> Result<String, String> {
    api.create(params, namespace).await.map(|made| made.name_any()).map_err(|error| error.to_string())
}
