//! Managers that serve webhooks.

use cluster::wait::eventually;
use harness::hostile_reviews::WebhookServer;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Manager, PATIENCE, TestEnv, path, reserve_port};

/// Address of a webhook server on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Webhooks {
    port: u16,
}

impl Webhooks {
    pub(crate) fn new() -> Self {
        Self { port: reserve_port() }
    }

    /// Returns the listen address.
    pub(crate) fn address(self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the configurations and policies of `deploy/webhooks` with URLs in place of Services:
    /// a Service has no Pod to connect to here.
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

/// Returns the shared cluster with a manager and its webhooks. Each test has its own Tenants and users.
pub(crate) async fn webhooks_env() -> &'static TestEnv {
    static SHARED_ENV: OnceCell<(TestEnv, Manager)> = OnceCell::const_new();
    &SHARED_ENV.get_or_init(TestEnv::with_webhooks).await.0
}

impl TestEnv {
    /// Starts a cluster with a manager, and waits until the API server calls its webhooks.
    pub(crate) async fn with_webhooks() -> (Self, Manager) {
        let (env, webhooks) = (Self::complete().await, Webhooks::new());
        let manager = env.start_with_webhooks("manager", webhooks, &[]);
        manager.until_readyz(200, "ok").await;
        env.configure(webhooks).await;
        env.until_tenants_reviewed().await;
        (env, manager)
    }

    /// Starts the deployed manager with its webhooks.
    pub(crate) fn start_with_webhooks(&self, name: &str, webhooks: Webhooks, args: &[&str]) -> Manager {
        let address = format!("--webhook-bind-address={}", webhooks.address());
        let args = [&[address.as_str(), "--webhook-host=127.0.0.1"], args].concat();
        self.start_with_probes(name, &self.account, &args)
    }

    /// Returns the objects in `deploy/webhooks` as JSON.
    pub(crate) async fn deployed_configurations(&self) -> Vec<Value> {
        let folder = path("deploy/webhooks");
        let read = self.read(&["apply", "--dry-run=client", "-f", &folder]).await;
        let items = read["items"].as_array().cloned().unwrap_or_else(|| vec![read]);
        items.into_iter().filter(|item| item["kind"] != "Service").collect()
    }

    /// Applies the webhook configurations and waits until they have a CA bundle.
    pub(crate) async fn configure(&self, webhooks: Webhooks) {
        self.convert(webhooks).await;
        let configurations = webhooks.configurations(&self.deployed_configurations().await);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": configurations });
        self.cluster.apply_yaml(&list.to_string()).await.unwrap();
        self.until_ca_bundles(configurations.iter().filter(|one| one.get("webhooks").is_some())).await;
    }

    /// Waits until these webhook configurations have a CA bundle.
    pub(crate) async fn until_ca_bundles(&self, configurations: impl Iterator<Item = &Value>) {
        let name = |configuration: &Value| {
            let kind = configuration["kind"].as_str().unwrap();
            format!("{kind}/{}", configuration["metadata"]["name"].as_str().unwrap())
        };
        let names: Vec<_> = configurations.map(name).collect();
        let get = [&["get"][..], &names.iter().map(String::as_str).collect::<Vec<_>>()].concat();
        eventually("the manager to write the CA bundles", PATIENCE, async || {
            let there = self.read(&get).await;
            let all = there["items"].as_array().cloned().unwrap_or_else(|| vec![there]);
            let mut webhooks = all.iter().flat_map(|one| one["webhooks"].as_array().unwrap());
            Ok(webhooks.all(|webhook| webhook["clientConfig"]["caBundle"].is_string()))
        })
        .await
        .unwrap();
    }

    /// Replaces the Service of conversion webhooks by a URL.
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
            eventually("the manager to write the CA bundle of the conversion", PATIENCE, async || {
                let there = self.read(&["get", "customresourcedefinition", name]).await;
                Ok(conversion(&there)["caBundle"].is_string())
            })
            .await
            .unwrap();
        }
    }

    /// Creates a Tenant as a dry run and returns the API server's response.
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

    /// Waits until the API server calls the manager's webhook for Tenants.
    pub(crate) async fn until_tenants_reviewed(&self) {
        eventually("the API server to call the webhook for Tenants", PATIENCE, async || {
            let quoted = json!({ "storageClasses": { "allowedRegex": "\\Qa\\E" } });
            Ok(match self.try_tenant("probe", quoted).await {
                Err(refused) if refused.contains("denied the request") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    /// Returns the address and certificate authority of the manager's webhook server.
    pub(crate) async fn target(&self, webhooks: Webhooks) -> WebhookServer {
        let address = ([127, 0, 0, 1], webhooks.port).into();
        let authority = eventually("the manager to create certificates", PATIENCE, async || {
            let arguments = ["get", "secret", "ensemble-certificates", "--namespace=ensemble-system"];
            let bundle = "--output=go-template={{index .data \"ca.crt\" | base64decode}}";
            Ok(self.kubectl(&[&arguments[..], &[bundle]].concat()).await.ok().filter(|pem| !pem.is_empty()))
        });
        WebhookServer::local(address, authority.await.unwrap().into_bytes())
    }
}
