//! Rotation of short-lived certificates: the API server always trusts the manager, also after a
//! restart.

use std::time::Duration;

use cluster::{Component, wait::eventually};
use serde_json::{Value, json};

use crate::support::{Manager, PATIENCE, TestEnv, reserve_port, sample};

/// Lifetime of an authority. It is replaced after two thirds of it.
const LIFE: &str = "24s";
/// Timeout for the rotation of an authority on a busy machine.
const ROTATION: Duration = Duration::from_secs(90);

#[tokio::test]
async fn restarted_api_server_trusts_the_manager_and_outage_is_logged_once() {
    let env = TestEnv::complete().await;
    let port = reserve_port();
    env.register_tenant_webhook(port).await;
    let manager = env.start_with_certificates(port, "24h").await;
    let before = env.certificates().await;
    env.cluster.kill_component(Component::KubeApiserver).unwrap();
    manager.until_logged("cannot watch the Secret ensemble-certificates; retrying").await;
    env.cluster.start_component(Component::KubeApiserver).unwrap();
    env.cluster.ready(PATIENCE).await.unwrap();
    manager.until_logged("recovered: can watch the Secret ensemble-certificates again").await;
    env.until_trusted().await;
    assert_eq!(env.certificates().await, before);
    let log = manager.stop().await;
    let reported = log.lines().filter(|line| line.contains("cannot watch the Secret")).count();
    assert!(reported <= 3, "one for each kind of failure:\n{log}");
}

#[tokio::test]
async fn rotation_fails_no_review_and_restart_keeps_certificates() {
    let env = TestEnv::complete().await;
    let port = reserve_port();
    env.register_tenant_webhook(port).await;
    let manager = env.start_with_certificates(port, LIFE).await;
    let first = env.certificates().await;
    env.review_until_replaced(&first).await;
    manager.stop().await;

    let before = env.certificates().await;
    let manager = env.start_with_certificates(port, LIFE).await;
    env.review().await;
    let after = env.certificates().await;
    assert!(
        after["ca.crt"] == before["ca.crt"] || after["tls.crt"] == before["tls.crt"],
        "a restart replaces nothing; at most one of the two was due for rotation"
    );
    env.review_until_replaced(&after).await;
    let log = manager.stop().await;
    assert!(!log.contains("PRIVATE KEY"), "{log}");
    for change in ["created a new certificate authority: two thirds", "the new certificate authority signs"] {
        assert!(log.contains(change), "{change}: {log}");
    }
    env.assert_no_forbidden_requests();
}

impl TestEnv {
    /// Starts the deployed manager with a webhook server, and waits until the API server trusts it.
    async fn start_with_certificates(&self, port: u16, life: &str) -> Manager {
        let args = [
            "--controllers=tenant".to_owned(),
            format!("--webhook-bind-address=127.0.0.1:{port}"),
            "--webhook-host=127.0.0.1".to_owned(),
            format!("--certificate-authority-validity={life}"),
            format!("--certificate-validity={life}"),
        ];
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let manager = self.start_with_probes("manager", &self.account, &args);
        manager.until_readyz(200, "ok").await;
        self.until_trusted().await;
        manager
    }

    async fn until_trusted(&self) {
        let trusted = async || Ok(self.try_review().await.map_err(|error| format!("{error:#}")));
        eventually("the API server to trust the manager", PATIENCE, trusted).await.unwrap();
    }

    /// Registers a webhook for new Tenants with failure policy Fail.
    async fn register_tenant_webhook(&self, port: u16) {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "ensemble-tenant" },
            "webhooks": [{
                "name": "tenants.tenant.ensemble",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": { "url": format!("https://127.0.0.1:{port}/tenant/tenants") },
                "rules": [{
                    "apiGroups": ["capsule.clastix.io"],
                    "apiVersions": ["v1beta2"],
                    "operations": ["CREATE"],
                    "resources": ["tenants"],
                }],
            }],
        });
        self.cluster.apply_yaml(&configuration.to_string()).await.unwrap();
    }

    /// Sends one Tenant to admission.
    async fn try_review(&self) -> anyhow::Result<()> {
        self.kubectl(&["create", "--dry-run=server", "-f", &sample("tenant")]).await.map(drop)
    }

    async fn review(&self) {
        self.try_review().await.unwrap_or_else(|error| panic!("an admission failed: {error:#}"));
    }

    /// Sends Tenants to admission until another authority has signed another certificate. Asserts
    /// that no call fails.
    async fn review_until_replaced(&self, before: &Value) {
        eventually("another authority and certificate", ROTATION, async || {
            self.review().await;
            let now = self.certificates().await;
            let known = before["ca.crt"].as_str().unwrap();
            Ok(now["tls.crt"] != before["tls.crt"] && !now["ca.crt"].as_str().unwrap().starts_with(known))
        })
        .await
        .unwrap();
    }

    /// Returns the data of the Secret.
    async fn certificates(&self) -> Value {
        let secret = ["get", "secret", "ensemble-certificates", "--namespace=ensemble-system"];
        self.read(&secret).await["data"].clone()
    }
}
