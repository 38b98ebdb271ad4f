//! GatewayClasses of Gateways, and DeviceClasses of ResourceClaims.

use cluster::wait::eventually;
use serde_json::{Value, json};

use super::{create_tenant, object, shared_env};
use crate::support::{PATIENCE, TENANT, TestEnv};

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

fn gateway_class(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": GATEWAY_API, "kind": "GatewayClass", "spec": { "controllerName": "example.com/none" },
        "metadata": { "name": name, "labels": { "tier": tier } },
    })
}

fn device_class(name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {},
        "metadata": { "name": name, "labels": { "tier": tier } },
    })
}

/// Waits until the status of a Tenant lists exactly these classes.
async fn until_classes(env: &TestEnv, tenant: &str, kind: &str, expected: &[&str]) {
    eventually(&format!("the {kind} classes {expected:?} of {tenant}"), PATIENCE * 2, async || {
        let found = env.read(&["get", "tenant", tenant]).await["status"]["classes"][kind].clone();
        let found = if found.is_null() { json!([]) } else { found };
        Ok(if found == json!(expected) { Ok(()) } else { Err(found) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn gateway_classes_are_defaulted_and_validated() {
    let env = shared_env().await;
    // The manager started before the Gateway API was installed.
    env.install_gateway_api().await;
    for (name, tier) in [("shared", "none"), ("premium", "oil"), ("foreign", "none")] {
        env.store(gateway_class(name, tier)).await;
    }
    let list = json!({ "allowed": ["shared", "absent"], "matchLabels": { "tier": "oil" } });
    let spec = json!({ "gatewayOptions": { "allowedClasses": list } });
    let (_, namespace) = create_tenant(env, "gateways", spec).await;
    until_classes(env, "gateways", "gateway", &["premium", "shared"]).await;
    let of = |class: Option<&str>| {
        let spec = json!({ "gatewayClassName": class, "listeners": [{ "name": "http", "port": 80 }] });
        object(GATEWAY_API, "Gateway", &namespace, "web", spec)
    };
    for class in ["shared", "premium"] {
        let admitted = env.until_admitted(&of(Some(class))).await;
        assert_eq!(admitted["spec"]["gatewayClassName"], class);
    }
    env.assert_denied(&of(None), "spec.gatewayClassName: Required value").await;
    env.assert_denied(&of(Some("foreign")), "GatewayClass \"foreign\" is not allowed by Tenant gateways")
        .await;
    env.assert_denied(&of(Some("absent")), "GatewayClass \"absent\" does not exist").await;
    env.assert_denial_event(&of(Some("foreign")), "ForbiddenGatewayClass").await;
    env.assert_denial_event(&of(Some("absent")), "MissingGatewayClass").await;
    let unrestricted = create_tenant(env, "gatewaysfree", json!({})).await.1;
    env.until_admitted(&object(
        GATEWAY_API,
        "Gateway",
        &unrestricted,
        "web",
        json!({ "gatewayClassName": "anything" }),
    ))
    .await;

    // Other fields stay when the default is set.
    let list = json!({ "allowedClasses": { "default": "premium", "allowed": null } });
    env.change_tenant("gateways", json!({ "gatewayOptions": list })).await;
    let defaulted = eventually("the default class", PATIENCE, async || {
        Ok(env.dry_run(of(None)).await.map_err(|error| error.clone()))
    })
    .await
    .unwrap();
    assert_eq!(defaulted["spec"]["gatewayClassName"], "premium");
    assert_eq!(defaulted["spec"]["listeners"][0]["port"], 80);
    env.kubectl(&["delete", "gatewayclass", "premium"]).await.unwrap();
    until_classes(env, "gateways", "gateway", &[]).await;
    env.until(&TENANT, "", "gateways", "to report the missing class", |tenant| {
        let conditions = tenant.data["status"]["conditions"].to_string();
        conditions
            .contains("GatewayClass \\\"premium\\\" does not exist, so Gateways without a class are denied")
    })
    .await;
    env.until_denied(&of(None), "GatewayClass \"premium\" does not exist").await;
}

#[tokio::test]
async fn device_classes_are_validated_in_all_requests_of_claims_and_templates() {
    let env = shared_env().await;
    let list = json!({ "matchLabels": { "tier": "oil" } });
    if !env.serves_device_classes().await {
        // There are no claims. A Tenant with such a list works.
        create_tenant(env, "devices", json!({ "deviceClasses": list })).await;
        return;
    }
    for (name, tier) in [("gpu.example.com", "oil"), ("nic.example.com", "none")] {
        env.store(device_class(name, tier)).await;
    }
    let (_, namespace) = create_tenant(env, "devices", json!({ "deviceClasses": list })).await;
    until_classes(env, "devices", "device", &["gpu.example.com"]).await;
    let exactly = |class: &str| json!({ "name": "one", "exactly": { "deviceClassName": class } });
    let either = |class: &str| {
        let first = json!({ "name": "first", "deviceClassName": "gpu.example.com" });
        json!({ "name": "two", "firstAvailable": [first, { "name": "second", "deviceClassName": class }] })
    };
    let claim = |requests: Value| {
        let spec = json!({ "devices": { "requests": requests } });
        object("resource.k8s.io/v1", "ResourceClaim", &namespace, "claim", spec)
    };
    let template = |requests: Value| {
        let spec = json!({ "spec": { "devices": { "requests": requests } } });
        object("resource.k8s.io/v1", "ResourceClaimTemplate", &namespace, "template", spec)
    };
    for object in [&claim as &dyn Fn(Value) -> Value, &template] {
        env.until_admitted(&object(json!([exactly("gpu.example.com"), either("gpu.example.com")]))).await;
        for (request, path) in [
            (exactly as fn(&str) -> Value, "devices.requests[0].exactly.deviceClassName"),
            (either, "devices.requests[0].firstAvailable[1].deviceClassName"),
        ] {
            let denied = object(json!([request("nic.example.com")]));
            let text = format!("{path}: DeviceClass \"nic.example.com\" is not allowed by Tenant devices");
            env.assert_denied(&denied, &text).await;
            let missing = object(json!([request("absent.example.com")]));
            env.assert_denied(&missing, "DeviceClass \"absent.example.com\" does not exist").await;
        }
    }
    env.assert_denial_event(&claim(json!([exactly("nic.example.com")])), "ForbiddenDeviceClass").await;
    env.assert_denial_event(&claim(json!([exactly("absent.example.com")])), "MissingDeviceClass").await;
    env.kubectl(&["delete", "deviceclass", "gpu.example.com"]).await.unwrap();
    until_classes(env, "devices", "device", &[]).await;
}
