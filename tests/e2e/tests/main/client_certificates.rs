//! Admission reviews that only the API server can send, with a client certificate.

use std::{fs, path::Path};

use cluster::{Cluster, Options, wait::eventually};
use harness::hostile_reviews::WebhookRule;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestEnv, Webhooks};

/// Writes an authority, a client certificate, and the API server's configuration for it.
fn write_files(folder: &Path) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "webhook clients");
    let key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = client.signed_by(&key, &issuer).unwrap();

    let file = |name: &str| folder.join(name).display().to_string();
    let user = json!({ "client-certificate": file("client.crt"), "client-key": file("client.key") });
    // Matches webhooks by URL. A webhook with a Service has the host
    // `ensemble-webhook.ensemble-system.svc`.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "users": [{ "name": "*", "user": user }],
    });
    let plugin = |name: &str| {
        let kind = "WebhookAdmissionConfiguration";
        let configuration = json!({ "apiVersion": "apiserver.config.k8s.io/v1", "kind": kind, "kubeConfigFile": file("kubeconfig") });
        json!({ "name": name, "configuration": configuration })
    };
    let admission = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [plugin("ValidatingAdmissionWebhook"), plugin("MutatingAdmissionWebhook")],
    });
    for (name, text) in [
        ("ca.crt", ca.pem()),
        ("client.crt", certificate.pem()),
        ("client.key", key.serialize_pem()),
        ("kubeconfig", kubeconfig.to_string()),
        ("admission.yaml", admission.to_string()),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[tokio::test]
async fn admission_requires_client_certificate_and_conversion_does_not() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let api_server_args = vec![format!("--admission-control-config-file={}", file("admission.yaml"))];
    let cluster = Cluster::start(Options { api_server_args, ..Options::default() }).await.unwrap();
    let (env, webhooks) = (TestEnv::bare_on(cluster).await, Webhooks::new());
    env.install_crds().await;
    env.grant_rights().await;
    let flag = format!("--webhook-client-ca-file={}", file("ca.crt"));
    let manager = env.start_with_webhooks("manager", webhooks, &[&flag]);
    manager.until_readyz(200, "ok").await;
    env.configure(webhooks).await;

    // The API server sends its client certificate with admission reviews, but not with
    // conversion reviews.
    env.until_tenants_reviewed().await;
    eventually("the API server to convert", PATIENCE, async || {
        Ok(env.kubectl(&["get", "tenants.v1alpha1.capsule.clastix.io"]).await.is_ok())
    })
    .await
    .unwrap();

    let target = env.target(webhooks).await;
    let configurations = env.deployed_configurations().await;
    let reviewed: Vec<_> = configurations.iter().flat_map(WebhookRule::from_configuration).collect();
    assert!(!reviewed.is_empty());
    for one in &reviewed {
        let review = one.review("spec", "{}");
        assert_eq!(target.post(&one.path, &review).await.unwrap(), 401, "{}", one.path);
    }
    let objects: Vec<Value> = Vec::new();
    let request =
        json!({ "uid": "1", "desiredAPIVersion": "capsule.clastix.io/v1beta2", "objects": objects });
    let conversion =
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request });
    let status = target.post("/tenant/convert/tenants", &conversion.to_string()).await.unwrap();
    assert_eq!(status, 200);
    manager.stop().await;
}
