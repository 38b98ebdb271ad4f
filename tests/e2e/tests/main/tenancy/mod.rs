//! Tenants with their webhooks: who may do what with namespaces and with what the controller keeps in them.
//!
//! One cluster for all tests of this folder, with two managers, both of which answer: of namespaces whose names end in
//! `b`, and of what is in them, the second.

mod absence;
mod assignment;
mod configuration;
mod flood;
mod hijack;
mod managed;
mod people;
mod quota;
mod vulnerabilities;

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::people::Person;
use crate::support::{Manager, PATIENCE, QUICK, Stage, TENANT, Webhooks};

const TENANT_LABEL: &str = "capsule.clastix.io/tenant";

/// The cluster, with the managers.
async fn town() -> &'static Stage {
    static TOWN: OnceCell<(Stage, [Manager; 2])> = OnceCell::const_new();
    &TOWN.get_or_init(build).await.0
}

async fn build() -> (Stage, [Manager; 2]) {
    let stage = Stage::complete().await;
    let webhooks = [Webhooks::new(), Webhooks::new()];
    let flags = [&["--leader-elect=true"], &QUICK[..]].concat();
    let names = ["manager-a", "manager-b"];
    let managers = [0, 1].map(|at| stage.start_with_webhooks(names[at], webhooks[at], &flags));
    for manager in &managers {
        manager.until_readyz(200, "ok").await;
    }
    let deployed = stage.deployed_configurations().await;
    stage.configure(webhooks[0]).await;
    share(&stage, &deployed, webhooks).await;
    permit(&stage).await;
    stage.until_guarded().await;
    (stage, managers)
}

/// Has the API server ask the second manager instead of the first where a name ends in `b`.
async fn share(stage: &Stage, deployed: &[Value], webhooks: [Webhooks; 2]) {
    let configurations = webhooks.map(|webhooks| webhooks.configurations(deployed));
    for (at, configurations) in configurations.into_iter().enumerate() {
        for mut configuration in configurations.into_iter().filter(|one| one.get("webhooks").is_some()) {
            let kind = configuration["kind"].as_str().unwrap().to_owned();
            let name = configuration["metadata"]["name"].as_str().unwrap().to_owned();
            let there = stage.read(&["get", &kind, &name]).await;
            let bundle = there["webhooks"][0]["clientConfig"]["caBundle"].clone();
            // For a namespace, its own name.
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
            stage.cluster.apply_yaml(&configuration.to_string()).await.unwrap();
        }
    }
}

/// Gives everybody every right on namespaces, so that whatever is refused is refused by admission.
async fn permit(stage: &Stage) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "anything" },
        "rules": [
            { "apiGroups": [""], "resources": ["namespaces", "namespaces/status", "namespaces/finalize", "limitranges",
                "resourcequotas", "resourcequotas/status"], "verbs": ["*"] },
            { "apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"] },
            { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"] },
            { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"] },
        ],
    });
    stage.cluster.apply_yaml(&role.to_string()).await.unwrap();
    let binding = [
        "create",
        "clusterrolebinding",
        "anything",
        "--clusterrole=anything",
        "--group=system:authenticated",
        "--group=system:serviceaccounts",
    ];
    stage.kubectl(&binding).await.unwrap();
}

impl Stage {
    /// Waits until both managers are asked about namespaces, and the policy is in effect.
    async fn until_guarded(&self) {
        self.until_asked().await;
        for name in ["nobody-a", "nobody-b"] {
            eventually("namespaces to be guarded", PATIENCE, async || {
                let refused = Person::user("nobody").dry_create(self, name).await;
                Ok(match refused {
                    Err(refused) if refused.contains("you own no Tenant") => Ok(()),
                    other => Err(other),
                })
            })
            .await
            .unwrap();
        }
        eventually("the cluster's own namespaces to be guarded", PATIENCE, async || {
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
    async fn tenant(&self, name: &str, owners: &[&Person], mut spec: Value) {
        spec["owners"] = owners.iter().map(|owner| owner.as_owner()).collect();
        self.create(&TENANT, "", name, spec).await;
    }

    /// The owner reference that a namespace of the Tenant has.
    async fn reference(&self, tenant: &str) -> Value {
        let uid = self.read(&["get", "tenant", tenant]).await["metadata"]["uid"].clone();
        json!({ "apiVersion": TENANT.api_version(), "kind": "Tenant", "name": tenant, "uid": uid })
    }

    /// The Tenant that a namespace belongs to, by its label and its only owner reference.
    async fn tenant_of(&self, namespace: &str) -> String {
        let found = self.read(&["get", "namespace", namespace]).await["metadata"].clone();
        let references = found["ownerReferences"].as_array().unwrap();
        assert_eq!(references.len(), 1, "{found}");
        let tenant = found["labels"][TENANT_LABEL].as_str().unwrap();
        assert_eq!(references[0], self.reference(tenant).await);
        tenant.to_owned()
    }

    /// Waits until a namespace is gone.
    async fn until_no_namespace(&self, name: &str) {
        eventually(&format!("namespace {name} to be gone"), PATIENCE, async || {
            let all = self.names(&["namespaces"]).await;
            Ok(if all.iter().any(|one| one == name) { Err(all) } else { Ok(()) })
        })
        .await
        .unwrap();
    }
}

/// A namespace with this metadata.
fn namespace(name: &str, mut metadata: Value) -> Namespace {
    metadata["name"] = name.into();
    serde_json::from_value(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).unwrap()
}

/// What came of a create: the name, or what was said.
async fn created(api: &Api<Namespace>, namespace: &Namespace, params: &PostParams) -> Result<String, String> {
    api.create(params, namespace).await.map(|made| made.name_any()).map_err(|error| error.to_string())
}
