//! `deploy/webhooks`: the webhook configurations and admission policies of the controllers, and
//! their Service.

use anyhow::{Result, bail};
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::core::ObjectMeta;
use manager::CONTROLLERS;
use operator_core::{
    Registration, labels,
    manifests::{
        validate_webhooks,
        webhooks::{ClientConfig, PORT, SERVICE, mutating, policies, validating},
    },
};

use crate::{
    generate::{Generated, document, sync_folder},
    ports::Ports,
    rbac::NAMESPACE,
};

/// Writes `deploy/webhooks`, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let mut files = files()?;
    files.push(Generated::kustomization("gen-webhooks", &files));
    sync_folder("deploy/webhooks", &files, "gen-webhooks", check)
}

/// Returns the Service, and a file for each controller with webhooks or policies.
pub(crate) fn files() -> Result<Vec<Generated>> {
    let faults: Vec<_> = CONTROLLERS.iter().flat_map(validate_webhooks).collect();
    if !faults.is_empty() {
        bail!("invalid webhook declarations:\n{}", faults.join("\n"));
    }
    let mut files = vec![manifest("service", &[document(&service(Ports::of_manager()?))?])?];
    for controller in CONTROLLERS {
        let documents = configurations(controller)?;
        if !documents.is_empty() {
            files.push(manifest(controller.name, &documents)?);
        }
    }
    Ok(files)
}

fn manifest(name: &str, documents: &[serde_json::Value]) -> Result<Generated> {
    Generated::manifest(format!("{name}.yaml"), "gen-webhooks", documents)
}

fn configurations(controller: &Registration) -> Result<Vec<serde_json::Value>> {
    let client_config = ClientConfig::Service { namespace: NAMESPACE.to_owned() };
    let validating = validating(controller, &client_config).map(|one| document(&one));
    let mutating = mutating(controller, &client_config).map(|one| document(&one));
    let policies = policies(controller, NAMESPACE);
    let policies = policies.iter().flat_map(|(policy, binding)| [document(policy), document(binding)]);
    validating.into_iter().chain(mutating).chain(policies).collect()
}

fn service(ports: Ports) -> Service {
    let component = |name: &str| labels::recommended("ensemble", "ensemble", name);
    let mut selector = component("manager");
    selector.retain(|label, _| {
        ["app.kubernetes.io/name", "app.kubernetes.io/component"].contains(&label.as_str())
    });
    Service {
        metadata: ObjectMeta {
            name: Some(SERVICE.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(component("webhook")),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(selector),
            ports: Some(vec![ServicePort {
                name: Some("webhook".to_owned()),
                port: PORT,
                target_port: Some(IntOrString::Int(ports.webhook.into())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}
