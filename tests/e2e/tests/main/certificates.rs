//! Certificates that last for seconds: the API server trusts the manager all the time, and after a restart.

use std::time::Duration;

use cluster::{Component, wait::eventually};
use serde_json::{Value, json};

use crate::support::{Manager, PATIENCE, Stage, free_port, sample};

/// Two thirds of this pass before an authority is replaced.
const LIFE: &str = "24s";
/// Enough for an authority to be replaced, on a busy machine.
const ROTATION: Duration = Duration::from_secs(90);

#[tokio::test]
async fn an_api_server_that_is_away_is_told_once_and_trusts_the_manager_when_it_is_back() {
    let stage = Stage::complete().await;
    let port = free_port();
    stage.have_tenants_reviewed_at(port).await;
    let manager = stage.start_with_certificates(port, "24h").await;
    let before = stage.certificates().await;
    stage.cluster.kill_component(Component::KubeApiserver).unwrap();
    manager.until_logged("cannot watch the Secret ensemble-certificates; retrying").await;
    stage.cluster.start_component(Component::KubeApiserver).unwrap();
    stage.cluster.ready(PATIENCE).await.unwrap();
    manager.until_logged("recovered: can watch the Secret ensemble-certificates again").await;
    stage.until_trusted().await;
    assert_eq!(stage.certificates().await, before);
    let log = manager.ask_to_end().await;
    let told = log.lines().filter(|line| line.contains("cannot watch the Secret")).count();
    assert!(told <= 3, "one for each way in which it was away:\n{log}");
}

#[tokio::test]
async fn certificates_are_replaced_while_the_api_server_asks_and_a_restart_changes_none() {
    let stage = Stage::complete().await;
    let port = free_port();
    stage.have_tenants_reviewed_at(port).await;
    let manager = stage.start_with_certificates(port, LIFE).await;
    let first = stage.certificates().await;
    stage.ask_until_replaced(&first).await;
    manager.ask_to_end().await;

    let before = stage.certificates().await;
    let manager = stage.start_with_certificates(port, LIFE).await;
    stage.ask_once().await;
    let after = stage.certificates().await;
    assert!(
        after["ca.crt"] == before["ca.crt"] || after["tls.crt"] == before["tls.crt"],
        "a restart makes nothing anew; at most one of the two was due"
    );
    stage.ask_until_replaced(&after).await;
    let log = manager.ask_to_end().await;
    assert!(!log.contains("PRIVATE KEY"), "{log}");
    for change in ["created a new certificate authority: two thirds", "the new certificate authority signs"] {
        assert!(log.contains(change), "{change}: {log}");
    }
    stage.assert_nothing_was_forbidden();
}

impl Stage {
    /// Starts the deployed manager with a server for reviews, and waits until it is trusted.
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
        let trusted = async || Ok(self.ask().await.map_err(|error| format!("{error:#}")));
        eventually("the API server to trust the manager", PATIENCE, trusted).await.unwrap();
    }

    /// Has the API server ask about each new Tenant, and refuse it if nobody answers.
    async fn have_tenants_reviewed_at(&self, port: u16) {
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

    /// Has the API server ask once.
    async fn ask(&self) -> anyhow::Result<()> {
        self.kubectl(&["create", "--dry-run=server", "-f", &sample("tenant")]).await.map(drop)
    }

    async fn ask_once(&self) {
        self.ask().await.unwrap_or_else(|error| panic!("an admission failed: {error:#}"));
    }

    /// Has the API server ask again and again, without a failure, until another authority has signed another certificate.
    async fn ask_until_replaced(&self, before: &Value) {
        eventually("another authority and certificate", ROTATION, async || {
            self.ask_once().await;
            let now = self.certificates().await;
            let known = before["ca.crt"].as_str().unwrap();
            Ok(now["tls.crt"] != before["tls.crt"] && !now["ca.crt"].as_str().unwrap().starts_with(known))
        })
        .await
        .unwrap();
    }

    /// What the Secret holds.
    async fn certificates(&self) -> Value {
        let secret = ["get", "secret", "ensemble-certificates", "--namespace=ensemble-system"];
        self.read(&secret).await["data"].clone()
    }
}
