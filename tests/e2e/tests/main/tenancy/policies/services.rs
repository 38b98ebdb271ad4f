//! Types, external addresses, and keys of Services.

use serde_json::{Value, json};

use super::{create_tenant, object, shared_env};

fn service(namespace: &str, spec: Value) -> Value {
    let mut all = json!({ "ports": [{ "port": 80 }] });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object("v1", "Service", namespace, "web", all)
}

#[tokio::test]
async fn services_use_only_allowed_types_and_addresses() {
    let env = shared_env().await;
    let types = json!({ "nodePort": false, "externalName": false, "loadBalancer": false });
    let options =
        json!({ "allowedServices": types, "externalIPs": { "allowed": ["10.20.0.0/16", "192.168.1.2/32"] } });
    let (_, namespace) = create_tenant(env, "svctypes", json!({ "serviceOptions": options })).await;
    let of_type = |type_: &str| service(&namespace, json!({ "type": type_, "externalName": "a.example" }));
    env.until_admitted(&service(&namespace, json!({}))).await;
    for (type_, field) in
        [("NodePort", "nodePort"), ("ExternalName", "externalName"), ("LoadBalancer", "loadBalancer")]
    {
        let text = format!("spec.type: Services of type {type_} are not allowed by Tenant svctypes");
        env.assert_denied(&of_type(type_), &text).await;
        assert!(env.dry_run(of_type(type_)).await.unwrap_err().contains(field));
    }
    let addresses = |addresses: Value| service(&namespace, json!({ "externalIPs": addresses }));
    for good in ["10.20.0.0", "10.20.255.255", "192.168.1.2"] {
        env.until_admitted(&addresses(json!([good]))).await;
    }
    let text = "spec.externalIPs[1]: \"8.8.8.8\" is not allowed by Tenant svctypes";
    env.assert_denied(&addresses(json!(["10.20.0.1", "8.8.8.8"])), text).await;

    // An update is denied for what it changes.
    env.store(service(&namespace, json!({}))).await;
    let within = format!("--namespace={namespace}");
    let patch = async |patch: Value| {
        let patch = patch.to_string();
        let patched = env.kubectl(&["patch", "service", "web", &within, "--type=merge", "-p", &patch]).await;
        patched.map_err(|error| format!("{error:#}"))
    };
    let denied = patch(json!({ "spec": { "type": "NodePort" } })).await.unwrap_err();
    assert!(denied.contains("Services of type NodePort"), "{denied}");
    env.change_tenant("svctypes", json!({ "serviceOptions": { "allowedServices": { "nodePort": true } } }))
        .await;
    let other = |spec: Value| {
        let mut service = service(&namespace, spec);
        service["metadata"]["name"] = "other".into();
        service
    };
    env.until_admitted(&other(json!({ "type": "NodePort" }))).await;
    patch(json!({ "spec": { "type": "NodePort" } })).await.unwrap();
    env.change_tenant("svctypes", json!({ "serviceOptions": { "allowedServices": { "nodePort": false } } }))
        .await;
    env.until_denied(&of_type("NodePort"), "Services of type NodePort").await;
    patch(json!({ "metadata": { "labels": { "still": "changes" } } })).await.unwrap();

    let load_balancer = json!({ "serviceOptions": { "allowedServices": { "loadBalancer": true } } });
    env.change_tenant("svctypes", load_balancer).await;
    env.until_denied(&of_type("LoadBalancer"), "spec.allocateLoadBalancerNodePorts: ").await;
    let spec = json!({ "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false });
    env.until_admitted(&other(spec)).await;
    let event = env.assert_denial_event(&other(json!({ "type": "NodePort" })), "ForbiddenNodePort").await;
    assert_eq!(event["regarding"]["kind"], "Service");
}

#[tokio::test]
async fn services_have_no_forbidden_keys() {
    let env = shared_env().await;
    let options = json!({
        "forbiddenLabels": { "denied": ["secret"], "deniedRegex": "^x-" }, "forbiddenAnnotations": { "denied": ["note"] },
    });
    let (_, namespace) = create_tenant(env, "svckeys", json!({ "serviceOptions": options })).await;
    let with = |metadata: Value| {
        let mut service = service(&namespace, json!({}));
        service["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        service
    };
    env.until_admitted(&with(json!({ "labels": { "app": "web" } }))).await;
    for (metadata, text) in [
        (
            json!({ "labels": { "secret": "1" } }),
            "metadata.labels[secret]: the key is forbidden by Tenant svckeys",
        ),
        (json!({ "labels": { "x-a": "1" } }), "metadata.labels[x-a]: "),
        (json!({ "annotations": { "note": "1" } }), "metadata.annotations[note]: "),
    ] {
        env.assert_denied(&with(metadata), text).await;
    }
    env.store(service(&namespace, json!({}))).await;
    let within = format!("--namespace={namespace}");
    let denied = env.kubectl(&["label", "service", "web", &within, "x-b=1"]).await.unwrap_err();
    assert!(format!("{denied:#}").contains("metadata.labels[x-b]: "), "{denied:#}");
}
