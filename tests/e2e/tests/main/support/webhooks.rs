//! Managers that the API server asks.

use cluster::wait::eventually;
use harness::hostile::Target;
use serde_json::{Value, json};

use super::{Manager, PATIENCE, Stage, free_port, path};

/// Where a manager serves its webhooks, on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Webhooks {
    port: u16,
}

impl Webhooks {
    pub(crate) fn new() -> Self {
        Self { port: free_port() }
    }

    /// What to listen on.
    pub(crate) fn address(self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The configurations and policies of `deploy/webhooks`, by URL instead of by Service: no pod stands behind a Service here.
    pub(crate) fn configurations(self, deployed: &[Value]) -> Vec<Value> {
        let mut configurations = deployed.to_vec();
        let webhooks = configurations.iter_mut().filter_map(|one| one.get_mut("webhooks")?.as_array_mut());
        for webhook in webhooks.flatten() {
            let served = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
            webhook["clientConfig"] = json!({ "url": format!("https://127.0.0.1:{}{served}", self.port) });
        }
        configurations
    }
}

impl Stage {
    /// Starts the deployed manager with its webhooks.
    pub(crate) fn start_with_webhooks(&self, name: &str, webhooks: Webhooks, args: &[&str]) -> Manager {
        let address = format!("--webhook-bind-address={}", webhooks.address());
        let args = [&[address.as_str(), "--webhook-host=127.0.0.1"], args].concat();
        self.start_with_probes(name, &self.account, &args)
    }

    /// What `deploy/webhooks` tells the API server, as JSON.
    pub(crate) async fn deployed_configurations(&self) -> Vec<Value> {
        let folder = path("deploy/webhooks");
        let read = self.read(&["apply", "--dry-run=client", "-f", &folder]).await;
        let items = read["items"].as_array().cloned().unwrap_or_else(|| vec![read]);
        items.into_iter().filter(|item| item["kind"] != "Service").collect()
    }

    /// Tells the API server, and waits until it has been told whom to trust.
    pub(crate) async fn configure(&self, webhooks: Webhooks) {
        self.convert(webhooks).await;
        for configuration in webhooks.configurations(&self.deployed_configurations().await) {
            self.cluster.apply_yaml(&configuration.to_string()).await.unwrap();
            if configuration.get("webhooks").is_none() {
                continue;
            }
            let kind = configuration["kind"].as_str().unwrap();
            let name = configuration["metadata"]["name"].as_str().unwrap();
            self.until_told_whom_to_trust(kind, name).await;
        }
    }

    /// Waits until a configuration of webhooks says whom to trust.
    pub(crate) async fn until_told_whom_to_trust(&self, kind: &str, name: &str) {
        eventually("the manager to say whom to trust", PATIENCE, async || {
            let there = self.read(&["get", kind, name]).await;
            let mut told = there["webhooks"].as_array().unwrap().iter();
            Ok(told.all(|webhook| webhook["clientConfig"]["caBundle"].is_string()))
        })
        .await
        .unwrap();
    }

    /// Has the API server convert versions by URL, too, where it converts them by Service.
    pub(crate) async fn convert(&self, webhooks: Webhooks) {
        let definitions = self.read(&["get", "customresourcedefinitions"]).await;
        let conversion =
            |definition: &Value| definition["spec"]["conversion"]["webhook"]["clientConfig"].clone();
        for definition in definitions["items"].as_array().unwrap() {
            let Some(served) = conversion(definition)["service"]["path"].as_str().map(str::to_owned) else {
                continue;
            };
            let name = definition["metadata"]["name"].as_str().unwrap();
            let url = format!("https://127.0.0.1:{}{served}", webhooks.port);
            let config = json!({ "service": null, "url": url });
            let patch =
                json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } }).to_string();
            self.kubectl(&["patch", "customresourcedefinition", name, "--type=merge", "-p", &patch])
                .await
                .unwrap();
            eventually("the manager to say whom to trust with versions", PATIENCE, async || {
                let there = self.read(&["get", "customresourcedefinition", name]).await;
                Ok(conversion(&there)["caBundle"].is_string())
            })
            .await
            .unwrap();
        }
    }

    /// What the API server says to a Tenant with that spec, which is then not stored.
    pub(crate) async fn try_tenant(&self, name: &str, spec: Value) -> Result<String, String> {
        let tenant = json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "metadata": { "name": name }, "spec": spec,
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), tenant.to_string()).unwrap();
        let manifest = file.path().to_str().unwrap();
        let answer = self.kubectl(&["create", "--dry-run=server", "-f", manifest]).await;
        answer.map_err(|error| format!("{error:#}"))
    }

    /// Waits until the manager is asked about Tenants and answers.
    pub(crate) async fn until_asked(&self) {
        eventually("the manager to be asked about Tenants", PATIENCE, async || {
            let quoted = json!({ "storageClasses": { "allowedRegex": "\\Qa\\E" } });
            Ok(match self.try_tenant("asked", quoted).await {
                Err(refused) if refused.contains("denied the request") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    /// Where the manager serves its webhooks, and the authority of its certificate.
    pub(crate) async fn target(&self, webhooks: Webhooks) -> Target {
        let address = ([127, 0, 0, 1], webhooks.port).into();
        let authority = eventually("the manager to make certificates", PATIENCE, async || {
            let arguments = ["get", "secret", "ensemble-certificates", "--namespace=ensemble-system"];
            let bundle = "--output=go-template={{index .data \"ca.crt\" | base64decode}}";
            Ok(self.kubectl(&[&arguments[..], &[bundle]].concat()).await.ok().filter(|pem| !pem.is_empty()))
        });
        Target { address, authority: authority.await.unwrap().into_bytes() }
    }
}
