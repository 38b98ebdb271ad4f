//! Allowed classes of Ingresses and volumes, and metadata of Services, on a running manager.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TENANT, TestEnv, Webhooks, webhooks_env};

const NAMESPACE: &str = "oil-wells";

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

fn ingress(namespace: &str, metadata: Value, class: Option<&str>) -> Value {
    let backend = json!({ "service": { "name": "web", "port": { "number": 80 } } });
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata,
        "spec": { "defaultBackend": backend },
    });
    ingress["metadata"]["name"] = "web".into();
    ingress["metadata"]["namespace"] = namespace.into();
    if let Some(class) = class {
        ingress["spec"]["ingressClassName"] = class.into();
    }
    ingress
}

impl TestEnv {
    async fn until_classes(&self, names: &[&str]) {
        let has = |tenant: &kube::api::DynamicObject| {
            let storage = &tenant.data["status"]["classes"]["storage"];
            *storage == json!(names) || (names.is_empty() && storage.is_null())
        };
        self.until(&TENANT, "", "oil", &format!("to list the classes {names:?}"), has).await;
    }
}

#[tokio::test]
async fn claims_get_only_allowed_storage_classes() {
    let classes = json!({
        "allowed": ["slow", "absent-by-name"], "allowedRegex": "^fa", "matchLabels": { "tier": "oil" }, "default": "slow",
    });
    // Its own cluster: the status lists all StorageClasses.
    let (env, manager) = TestEnv::with_webhooks().await;
    env.create_tenant("oil", NAMESPACE, json!({ "storageClasses": classes })).await;
    for (name, tier) in [("slow", "gas"), ("fast", "gas"), ("special", "oil"), ("gold", "gas")] {
        env.store(storage_class(name, tier)).await;
    }
    env.until_classes(&["fast", "slow", "special"]).await;
    let inside = format!("--namespace={NAMESPACE}");

    let filled = env.dry_run(claim(NAMESPACE, json!({}), None)).await.unwrap();
    assert_eq!(filled["spec"]["storageClassName"], "slow");
    for class in ["slow", "fast", "special", "absent-by-name"] {
        let tried = env.dry_run(claim(NAMESPACE, json!({}), Some(class))).await.unwrap();
        assert_eq!(tried["spec"]["storageClassName"], class);
    }
    let expected = "is not allowed by Tenant oil; allowed StorageClasses: slow, absent-by-name, names that match \"^fa\"";
    let old_way = json!({ "annotations": { "volume.beta.kubernetes.io/storage-class": "gold" } });
    for (metadata, class, expected) in [
        (json!({}), Some("gold"), expected),
        (json!({}), Some(""), "spec.storageClassName: "),
        (json!({}), Some("absent"), "StorageClass \"absent\" does not exist, so Tenant oil"),
        (
            old_way.clone(),
            None,
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: StorageClass \"gold\"",
        ),
        (
            old_way,
            Some("slow"),
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: StorageClass \"gold\"",
        ),
    ] {
        let refused = env.dry_run(claim(NAMESPACE, metadata, class)).await.unwrap_err();
        assert!(
            refused.contains("persistentvolumeclaims.tenant.ensemble") && refused.contains(expected),
            "{refused}"
        );
    }
    env.dry_run(claim("default", json!({}), Some("gold"))).await.unwrap();

    // Kubernetes' controller creates the claims of a StatefulSet.
    let labels = json!({ "app": "db" });
    let mut template = claim(NAMESPACE, json!({}), Some("gold"));
    template["metadata"] = json!({ "name": "data" });
    env.store(json!({
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
    eventually("an Event of the StatefulSet", PATIENCE, async || {
        let events = env.kubectl(&["get", "events", &inside, "--output=json"]).await?;
        Ok(events.contains("is not allowed by Tenant oil; allowed StorageClasses"))
    })
    .await
    .unwrap();
    assert_eq!(env.names(&["persistentvolumeclaims", &inside]).await, [""; 0]);

    // The status follows the existing classes and the Tenant's selectors.
    env.kubectl(&["delete", "storageclass", "fast"]).await.unwrap();
    env.until_classes(&["slow", "special"]).await;
    env.kubectl(&["label", "storageclass", "gold", "tier=oil", "--overwrite"]).await.unwrap();
    env.until_classes(&["gold", "slow", "special"]).await;
    env.change(&TENANT, "", "oil", json!({ "storageClasses": { "matchLabels": null } })).await;
    env.until_classes(&["slow"]).await;
    // Without a list, all classes are allowed. With an empty list, none is.
    env.change(&TENANT, "", "oil", json!({ "storageClasses": null })).await;
    env.until_classes(&["gold", "slow", "special"]).await;
    env.store(storage_class("later", "gas")).await;
    env.until_classes(&["gold", "later", "slow", "special"]).await;
    env.change(&TENANT, "", "oil", json!({ "storageClasses": {} })).await;
    env.until_classes(&[]).await;
    env.assert_no_forbidden_requests();
    manager.stop().await;
}

#[tokio::test]
async fn ingresses_get_only_allowed_classes() {
    let allowed = json!({ "allowed": ["nginx"] });
    let (env, tenant, namespace) = (webhooks_env().await, "ingresses", "ingresses-dev");
    let spec = json!({ "ingressOptions": { "allowedClasses": allowed } });
    env.create_tenant(tenant, namespace, spec).await;
    let inside = format!("--namespace={namespace}");
    let ingress = |metadata, class| ingress(namespace, metadata, class);
    env.store(ingress_class("nginx", false)).await;
    env.store(ingress_class("other", false)).await;
    let old_way = |class: &str| json!({ "annotations": { "kubernetes.io/ingress.class": class } });

    env.dry_run(ingress(json!({}), Some("nginx"))).await.unwrap();
    env.dry_run(ingress(old_way("nginx"), None)).await.unwrap();
    for (metadata, class, expected) in [
        (
            json!({}),
            None,
            "spec.ingressClassName: Tenant ingresses requires a class; allowed IngressClasses: nginx",
        ),
        (json!({}), Some("other"), "spec.ingressClassName: IngressClass \"other\" is not allowed"),
        (
            old_way("other"),
            None,
            "metadata.annotations[kubernetes.io/ingress.class]: IngressClass \"other\" is not allowed",
        ),
        (
            old_way("other"),
            Some("nginx"),
            "metadata.annotations[kubernetes.io/ingress.class]: IngressClass \"other\" is not allowed",
        ),
    ] {
        // The API server itself rejects both fields together.
        let refused = env.dry_run(ingress(metadata, class)).await.unwrap_err();
        assert!(refused.contains(expected) || refused.contains("when both are specified"), "{refused}");
    }

    // An update is validated with the new class (CVE-2026-61795), and only if the class changes.
    env.store(ingress(json!({}), Some("nginx"))).await;
    let patch = async |patch: Value| {
        let patch = patch.to_string();
        let answer = env.kubectl(&["patch", "ingress", "web", &inside, "--type=merge", "-p", &patch]).await;
        answer.map_err(|error| format!("{error:#}"))
    };
    let refused = patch(json!({ "spec": { "ingressClassName": "other" } })).await.unwrap_err();
    assert!(refused.contains("IngressClass \"other\" is not allowed"), "{refused}");
    env.change(
        &TENANT,
        "",
        tenant,
        json!({ "ingressOptions": { "allowedClasses": { "allowed": ["other"] } } }),
    )
    .await;
    env.until_ready(&TENANT, "", tenant).await;
    eventually("the new list to take effect", PATIENCE, async || {
        Ok(env
            .dry_run(ingress(json!({ "labels": { "a": "b" } }), Some("nginx")))
            .await
            .is_err_and(|refused| refused.contains("is not allowed")))
    })
    .await
    .unwrap();
    patch(json!({ "metadata": { "labels": { "still": "changes" } } })).await.unwrap();
    patch(json!({ "spec": { "ingressClassName": "other" } })).await.unwrap();

    // The Tenant's default applies to Ingresses without a class, even if the cluster has a
    // default class.
    env.store(ingress_class("of-the-cluster", true)).await;
    env.kubectl(&["delete", "ingress", "web", &inside]).await.unwrap();
    let with_default = json!({ "ingressOptions": { "allowedClasses": { "default": "nginx" } } });
    env.change(&TENANT, "", tenant, with_default).await;
    eventually("the default to be filled in", PATIENCE, async || {
        let filled = env.dry_run(ingress(json!({}), None)).await;
        Ok(match filled {
            Ok(filled) if filled["spec"]["ingressClassName"] == "nginx" => Ok(()),
            other => Err(other),
        })
    })
    .await
    .unwrap();
    env.assert_no_forbidden_requests();
}

/// The manager reads this Tenant live because its cache cannot contain it.
#[tokio::test]
async fn unreadable_tenant_allows_no_class() {
    let (env, webhooks) = (TestEnv::complete().await, Webhooks::new());
    let definition = env.read(&["get", "crd", "tenants.capsule.clastix.io"]).await;
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let at = versions.iter().position(|version| version["name"] == "v1beta2").unwrap();
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = format!("/spec/versions/{at}/schema/openAPIV3Schema");
    let patch = format!("--patch={}", json!([{ "op": "replace", "path": schema, "value": open }]));
    env.kubectl(&["patch", "crd", "tenants.capsule.clastix.io", "--type=json", &patch]).await.unwrap();
    eventually("the CRD to accept any object", PATIENCE, async || {
        let odd = json!({
            "apiVersion": TENANT.api_version(), "kind": "Tenant", "metadata": { "name": "odd" },
            "spec": { "storageClasses": "all", "ingressOptions": 7 },
        });
        let stored = env.cluster.apply_yaml(&odd.to_string()).await;
        Ok(stored.map_err(|error| format!("{error:#}")))
    })
    .await
    .unwrap();
    for (tenant, namespace) in [("odd", NAMESPACE), ("gone", "gone-wells")] {
        let labels = json!({ "capsule.clastix.io/tenant": tenant });
        let metadata = json!({ "name": namespace, "labels": labels });
        env.store(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })).await;
    }
    let manager = env.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    env.configure(webhooks).await;
    env.until_tenants_reviewed().await;
    for object in [claim(NAMESPACE, json!({}), Some("gold")), ingress(NAMESPACE, json!({}), Some("nginx"))] {
        let refused = env.dry_run(object).await.unwrap_err();
        assert!(refused.contains("cannot read Tenant odd: it does not match the schema"), "{refused}");
    }
    // Without a Tenant, all classes are allowed.
    env.dry_run(claim("gone-wells", json!({}), Some("gold"))).await.unwrap();
    manager.stop().await;
}

#[tokio::test]
async fn services_and_endpoint_slices_get_metadata_of_tenant() {
    let metadata = json!({ "labels": { "team": "oil" }, "annotations": { "example.com/cost": "7" } });
    let (env, namespace) = (webhooks_env().await, "services-dev");
    let spec = json!({ "serviceOptions": { "additionalMetadata": metadata } });
    env.create_tenant("services", namespace, spec).await;
    let inside = format!("--namespace={namespace}");
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": namespace, "labels": { "team": "mine", "app": "web" } },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    env.store(service).await;
    let read = async || env.read(&["get", "service", "web", &inside]).await["metadata"].clone();
    let there = read().await;
    assert_eq!(there["labels"], json!({ "team": "oil", "app": "web" }));
    assert_eq!(there["annotations"]["example.com/cost"], "7");
    env.kubectl(&["label", "service", "web", &inside, "team-", "color=blue"]).await.unwrap();
    assert_eq!(read().await["labels"], json!({ "team": "oil", "app": "web", "color": "blue" }));
    // Kubernetes copies the labels to the EndpointSlice.
    eventually("the EndpointSlice to have the label, too", PATIENCE, async || {
        let slices = env.read(&["get", "endpointslices", &inside]).await;
        let metadata = &slices["items"][0]["metadata"];
        Ok(metadata["labels"]["team"] == "oil")
    })
    .await
    .unwrap();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "by-hand", "namespace": namespace }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.10.1.1"] }], "ports": [{ "name": "web", "port": 80 }],
    });
    env.store(slice).await;
    env.kubectl(&["label", "endpointslice", "by-hand", &inside, "team=mine", "--overwrite"]).await.unwrap();
    let there = env.read(&["get", "endpointslice", "by-hand", &inside]).await["metadata"].clone();
    assert_eq!(
        (&there["labels"]["team"], &there["annotations"]["example.com/cost"]),
        (&"oil".into(), &"7".into())
    );
}
