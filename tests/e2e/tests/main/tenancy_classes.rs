//! What the people of a Tenant may use, on a running manager: classes of Ingresses and volumes, and what Services get.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{Manager, PATIENCE, Stage, TENANT, Webhooks};

const NAMESPACE: &str = "oil-wells";
const INSIDE: &str = "--namespace=oil-wells";

fn storage_class(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": name, "labels": { "tier": tier } }, "provisioner": "example.com/none",
    })
}

fn ingress_class(name: &str, is_default: bool) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {
            "name": name,
            "annotations": { "ingressclass.kubernetes.io/is-default-class": is_default.to_string() },
        },
        "spec": { "controller": "example.com/none" },
    })
}

fn claim(namespace: &str, metadata: Value, class: Option<&str>) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    claim["metadata"]["name"] = "data".into();
    claim["metadata"]["namespace"] = namespace.into();
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

fn ingress(metadata: Value, class: Option<&str>) -> Value {
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
        "spec": { "defaultBackend": backend },
    });
    ingress["metadata"]["name"] = "web".into();
    ingress["metadata"]["namespace"] = NAMESPACE.into();
    if let Some(class) = class {
        ingress["spec"]["ingressClassName"] = class.into();
    }
    ingress
}

impl Stage {
    /// What the API server would store, or why it refuses.
    async fn tried(&self, object: Value) -> Result<Value, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let manifest = file.path().to_str().unwrap();
        let answer = self.kubectl(&["create", "--dry-run=server", "--output=json", "-f", manifest]).await;
        answer.map(|object| serde_json::from_str(&object).unwrap()).map_err(|error| format!("{error:#}"))
    }

    async fn stored(&self, object: Value) {
        self.cluster.apply_yaml(&object.to_string()).await.unwrap();
    }

    async fn until_classes(&self, names: &[&str]) {
        let has = |tenant: &kube::api::DynamicObject| {
            let storage = &tenant.data["status"]["classes"]["storage"];
            *storage == json!(names) || (names.is_empty() && storage.is_null())
        };
        self.until(&TENANT, "", "oil", &format!("to tell of the classes {names:?}"), has).await;
    }
}

/// A manager that is asked, and the Tenant oil with one namespace.
async fn start(spec: Value) -> (Stage, Manager) {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_asked().await;
    stage.create(&TENANT, "", "oil", spec).await;
    stage.join("oil", NAMESPACE).await;
    stage.until_joined("oil", 1).await;
    (stage, manager)
}

#[tokio::test]
async fn a_volume_claim_gets_a_class_that_its_tenant_allows_whoever_makes_it() {
    let classes = json!({
        "allowed": ["slow", "absent-by-name"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" }, "default": "slow",
    });
    let (stage, manager) = start(json!({ "storageClasses": classes })).await;
    for (name, tier) in [("slow", "gas"), ("fast", "gas"), ("special", "oil"), ("gold", "gas")] {
        stage.stored(storage_class(name, tier)).await;
    }
    stage.until_classes(&["fast", "slow", "special"]).await;

    let filled = stage.tried(claim(NAMESPACE, json!({}), None)).await.unwrap();
    assert_eq!(filled["spec"]["storageClassName"], "slow");
    for class in ["slow", "fast", "special", "absent-by-name"] {
        let tried = stage.tried(claim(NAMESPACE, json!({}), Some(class))).await.unwrap();
        assert_eq!(tried["spec"]["storageClassName"], class);
    }
    let says =
        "is none of the StorageClasses that Tenant oil allows: slow, absent-by-name, what matches \"^fa\"";
    let old_way = json!({ "annotations": { "volume.beta.kubernetes.io/storage-class": "gold" } });
    for (metadata, class, says) in [
        (json!({}), Some("gold"), says),
        (json!({}), Some(""), "spec.storageClassName: "),
        (json!({}), Some("absent"), "there is no StorageClass \"absent\" whose labels could be looked at"),
        (old_way.clone(), None, "metadata.annotations[volume.beta.kubernetes.io/storage-class]: \"gold\""),
        (old_way, Some("slow"), "metadata.annotations[volume.beta.kubernetes.io/storage-class]: \"gold\""),
    ] {
        let refused = stage.tried(claim(NAMESPACE, metadata, class)).await.unwrap_err();
        assert!(
            refused.contains("persistentvolumeclaims.tenant.ensemble") && refused.contains(says),
            "{refused}"
        );
    }
    stage.tried(claim("default", json!({}), Some("gold"))).await.unwrap();

    // A StatefulSet has Kubernetes' own controller make its claims.
    let labels = json!({ "app": "db" });
    let mut template = claim(NAMESPACE, json!({}), Some("gold"));
    template["metadata"] = json!({ "name": "data" });
    stage
        .stored(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db", "namespace": NAMESPACE },
            "spec": {
                "serviceName": "db", "replicas": 1, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "db", "image": "db" }] },
                },
                "volumeClaimTemplates": [template],
            },
        }))
        .await;
    eventually("the StatefulSet to be told", PATIENCE, async || {
        let events = stage.kubectl(&["get", "events", INSIDE, "--output=json"]).await?;
        Ok(events.contains("is none of the StorageClasses that Tenant oil allows"))
    })
    .await
    .unwrap();
    assert_eq!(stage.names(&["persistentvolumeclaims", INSIDE]).await, [""; 0]);

    // The status follows the classes that there are, and what the Tenant says of them.
    stage.kubectl(&["delete", "storageclass", "fast"]).await.unwrap();
    stage.until_classes(&["slow", "special"]).await;
    stage.kubectl(&["label", "storageclass", "gold", "tier=oil", "--overwrite"]).await.unwrap();
    stage.until_classes(&["gold", "slow", "special"]).await;
    stage.change(&TENANT, "", "oil", json!({ "storageClasses": { "matchLabels": null } })).await;
    stage.until_classes(&["slow"]).await;
    // Without a list, all of them; with an empty one, none.
    stage.change(&TENANT, "", "oil", json!({ "storageClasses": null })).await;
    stage.until_classes(&["gold", "slow", "special"]).await;
    stage.stored(storage_class("later", "gas")).await;
    stage.until_classes(&["gold", "later", "slow", "special"]).await;
    stage.change(&TENANT, "", "oil", json!({ "storageClasses": {} })).await;
    stage.until_classes(&[]).await;
    stage.assert_nothing_was_forbidden();
    manager.ask_to_end().await;
}

#[tokio::test]
async fn an_ingress_gets_a_class_that_its_tenant_allows() {
    let allowed = json!({ "allowed": ["nginx"] });
    let (stage, manager) = start(json!({ "ingressOptions": { "allowedClasses": allowed } })).await;
    stage.stored(ingress_class("nginx", false)).await;
    stage.stored(ingress_class("other", false)).await;
    let old_way = |class: &str| json!({ "annotations": { "kubernetes.io/ingress.class": class } });

    stage.tried(ingress(json!({}), Some("nginx"))).await.unwrap();
    stage.tried(ingress(old_way("nginx"), None)).await.unwrap();
    for (metadata, class, says) in [
        (
            json!({}),
            None,
            "spec.ingressClassName: name one of the IngressClasses that Tenant oil allows: nginx",
        ),
        (json!({}), Some("other"), "spec.ingressClassName: \"other\" is none of the IngressClasses"),
        (old_way("other"), None, "metadata.annotations[kubernetes.io/ingress.class]: \"other\" is none of"),
        (
            old_way("other"),
            Some("nginx"),
            "metadata.annotations[kubernetes.io/ingress.class]: \"other\" is none of",
        ),
    ] {
        // The API server itself refuses both together.
        let refused = stage.tried(ingress(metadata, class)).await.unwrap_err();
        assert!(refused.contains(says) || refused.contains("when both are specified"), "{refused}");
    }

    // An update is judged by what the Ingress is to become (CVE-2026-61795), and only when the class changes.
    stage.stored(ingress(json!({}), Some("nginx"))).await;
    let patch = async |patch: Value| {
        let patch = patch.to_string();
        let answer = stage.kubectl(&["patch", "ingress", "web", INSIDE, "--type=merge", "-p", &patch]).await;
        answer.map_err(|error| format!("{error:#}"))
    };
    let refused = patch(json!({ "spec": { "ingressClassName": "other" } })).await.unwrap_err();
    assert!(refused.contains("is none of the IngressClasses"), "{refused}");
    stage
        .change(
            &TENANT,
            "",
            "oil",
            json!({ "ingressOptions": { "allowedClasses": { "allowed": ["other"] } } }),
        )
        .await;
    stage.until_settled(&TENANT, "", "oil").await;
    eventually("the new list to count", PATIENCE, async || {
        Ok(stage
            .tried(ingress(json!({ "labels": { "a": "b" } }), Some("nginx")))
            .await
            .is_err_and(|refused| refused.contains("none of")))
    })
    .await
    .unwrap();
    patch(json!({ "metadata": { "labels": { "still": "changes" } } })).await.unwrap();
    patch(json!({ "spec": { "ingressClassName": "other" } })).await.unwrap();

    // With a default, who names none gets it, also where Kubernetes has filled in its own.
    stage.stored(ingress_class("of-the-cluster", true)).await;
    stage.kubectl(&["delete", "ingress", "web", INSIDE]).await.unwrap();
    let with_default = json!({ "ingressOptions": { "allowedClasses": { "default": "nginx" } } });
    stage.change(&TENANT, "", "oil", with_default).await;
    eventually("the default to be filled in", PATIENCE, async || {
        let filled = stage.tried(ingress(json!({}), None)).await;
        Ok(match filled {
            Ok(filled) if filled["spec"]["ingressClassName"] == "nginx" => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    stage.assert_nothing_was_forbidden();
    manager.ask_to_end().await;
}

/// The manager knows such a Tenant only by asking for it.
#[tokio::test]
async fn where_a_tenant_cannot_be_read_no_class_is_allowed() {
    let (stage, webhooks) = (Stage::complete().await, Webhooks::new());
    let definition = stage.read(&["get", "crd", "tenants.capsule.clastix.io"]).await;
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let at = versions.iter().position(|version| version["name"] == "v1beta2").unwrap();
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = format!("/spec/versions/{at}/schema/openAPIV3Schema");
    let patch = format!("--patch={}", json!([{ "op": "replace", "path": schema, "value": open }]));
    stage.kubectl(&["patch", "crd", "tenants.capsule.clastix.io", "--type=json", &patch]).await.unwrap();
    eventually("the definition to take anything", PATIENCE, async || {
        let odd = json!({
            "apiVersion": TENANT.api_version(), "kind": "Tenant", "metadata": { "name": "odd" },
            "spec": { "storageClasses": "all", "ingressOptions": 7 },
        });
        let stored = stage.cluster.apply_yaml(&odd.to_string()).await;
        Ok(stored.map_err(|error| format!("{error:#}")))
    })
    .await
    .unwrap();
    for (tenant, namespace) in [("odd", NAMESPACE), ("gone", "gone-wells")] {
        let labels = json!({ "capsule.clastix.io/tenant": tenant });
        let metadata = json!({ "name": namespace, "labels": labels });
        stage.stored(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).await;
    }
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_asked().await;
    for object in [claim(NAMESPACE, json!({}), Some("gold")), ingress(json!({}), Some("nginx"))] {
        let refused = stage.tried(object).await.unwrap_err();
        assert!(
            refused.contains("cannot read Tenant odd: it does not have the form of a Tenant"),
            "{refused}"
        );
    }
    // Where there is no Tenant, nobody limits anything.
    stage.tried(claim("gone-wells", json!({}), Some("gold"))).await.unwrap();
    manager.ask_to_end().await;
}

#[tokio::test]
async fn services_get_what_their_tenant_wants_on_them() {
    let metadata = json!({ "labels": { "team": "oil" }, "annotations": { "example.com/cost": "7" } });
    let (stage, manager) = start(json!({ "serviceOptions": { "additionalMetadata": metadata } })).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": NAMESPACE, "labels": { "team": "mine", "app": "web" } },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    stage.stored(service).await;
    let read = async || stage.read(&["get", "service", "web", INSIDE]).await["metadata"].clone();
    let there = read().await;
    assert_eq!(there["labels"], json!({ "team": "oil", "app": "web" }));
    assert_eq!(there["annotations"]["example.com/cost"], "7");
    stage.kubectl(&["label", "service", "web", INSIDE, "team-", "color=blue"]).await.unwrap();
    assert_eq!(read().await["labels"], json!({ "team": "oil", "app": "web", "color": "blue" }));
    // Kubernetes itself hands on the labels.
    eventually("the EndpointSlice to have the label, too", PATIENCE, async || {
        let slices = stage.read(&["get", "endpointslices", INSIDE]).await;
        let metadata = &slices["items"][0]["metadata"];
        Ok(metadata["labels"]["team"] == "oil")
    })
    .await
    .unwrap();
    manager.ask_to_end().await;
}
