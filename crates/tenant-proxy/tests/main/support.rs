//! A proxy before the API server of the tests, with its own ServiceAccount and its own rights.

use std::{net::SocketAddr, path::PathBuf, thread, time::Duration};

use clap::Parser;
use cluster::Cluster;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
    core::ObjectMeta,
};
use operator_core::Controller as _;
use operator_core::rbac::Rule;
use serde_json::{Value, json};
use tenant_proxy::{flags::Flags, rbac, run, serving::CLIENT_CA, view::ViewKind};
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, oneshot},
};
use tokio_util::sync::CancellationToken;

/// Time for what takes moments.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Namespace and name of the proxy's ServiceAccount.
const ACCOUNT: (&str, &str) = ("ensemble-proxy", "ensemble-proxy");
/// Name of the ServiceAccount of a proxy with all optional rights.
const ACCOUNT_WITH_OPTIONS: &str = "with-options";
/// User name of the proxy's ServiceAccount.
pub(crate) const USER: &str = "system:serviceaccount:ensemble-proxy:ensemble-proxy";

/// A running proxy. Dropping it stops the proxy, as SIGTERM does.
pub(crate) struct TestProxy {
    pub(crate) cluster: &'static Cluster,
    pub(crate) address: SocketAddr,
    /// Address of the metrics.
    pub(crate) metrics: SocketAddr,
    /// Certificate authority of the proxy, in PEM.
    pub(crate) authority: String,
    /// Files of the serving certificate and its key.
    pub(crate) certificate: (PathBuf, PathBuf),
    pub(crate) stop: CancellationToken,
    /// Completes when the proxy has ended.
    pub(crate) ended: Option<oneshot::Receiver<()>>,
    _dir: tempfile::TempDir,
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
static SHARED: OnceCell<TestProxy> = OnceCell::const_new();

/// Returns the proxy that most tests share.
pub(crate) async fn shared() -> &'static TestProxy {
    SHARED.get_or_init(|| TestProxy::start(&[])).await
}

impl TestProxy {
    /// Starts a proxy with flags before the cluster of these tests. Those of other programs give their users
    /// rights and Tenants.
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let cluster = CLUSTER.get_or_init(async || cluster::isolated().await.unwrap()).await;
        Self::start_before(cluster, flags).await
    }

    /// Starts a proxy with flags that need more rights than usual.
    pub(crate) async fn start_with_options(flags: &[&str]) -> Self {
        let cluster = CLUSTER.get_or_init(async || cluster::isolated().await.unwrap()).await;
        prepare(cluster, ACCOUNT_WITH_OPTIONS).await;
        grant_options(cluster).await;
        Self::start_as(cluster, ACCOUNT_WITH_OPTIONS, flags).await
    }

    /// Starts a proxy with flags before a cluster.
    pub(crate) async fn start_before(cluster: &'static Cluster, flags: &[&str]) -> Self {
        prepare(cluster, ACCOUNT.1).await;
        Self::start_as(cluster, ACCOUNT.1, flags).await
    }

    async fn start_as(cluster: &'static Cluster, account: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificate = (dir.path().join("tls.crt"), dir.path().join("tls.key"));
        let authority = write_certificate(&certificate);
        let kubeconfig = cluster.service_account_kubeconfig(ACCOUNT.0, account).await.unwrap();
        let config = load(&kubeconfig).await;
        let files = [&certificate.0, &certificate.1].map(|file| file.to_str().unwrap().to_owned());
        let fixed = [
            "ensemble-proxy",
            "--bind-address=127.0.0.1:0",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=127.0.0.1:0",
            "--tls-cert-file",
            &files[0],
            "--tls-private-key-file",
            &files[1],
        ];
        let flags = Flags::parse_from(fixed.iter().chain(flags));
        let (stop, (started, address), (end, ended)) =
            (CancellationToken::new(), oneshot::channel(), oneshot::channel());
        let stopping = stop.clone();
        // The proxy outlives the runtime of a test.
        thread::spawn(move || {
            Runtime::new().unwrap().block_on(async move {
                let running = run::start(&flags, config, stopping).await.unwrap();
                started.send((running.address, running.metrics_address.unwrap())).unwrap();
                running.ended().await.unwrap();
                let _ = end.send(());
            });
        });
        let (address, metrics) = address.await.unwrap();
        Self { cluster, address, metrics, authority, certificate, stop, ended: Some(ended), _dir: dir }
    }

    /// Writes a kubeconfig of a user with a token whose server is the proxy.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.kubeconfig_with(user, &self.cluster.user_token(user).unwrap())
    }

    /// Writes a kubeconfig with this token whose server is the proxy.
    pub(crate) fn kubeconfig_with(&self, user: &str, token: &str) -> PathBuf {
        let server = format!("https://{}", self.address);
        self.cluster.kubeconfig_through(user, token, &server, &self.authority).unwrap()
    }

    /// Writes a kubeconfig of a user with a client certificate whose server is the proxy.
    pub(crate) fn certificate_kubeconfig(&self, user: &str, groups: &[&str]) -> PathBuf {
        let server = format!("https://{}", self.address);
        self.cluster.certificate_kubeconfig(user, groups, &server, &self.authority).unwrap()
    }

    /// Runs kubectl through the proxy as a user.
    pub(crate) async fn kubectl(&self, user: &str, args: &[&str]) -> anyhow::Result<String> {
        self.cluster.kubectl_with(&self.kubeconfig(user), args).await
    }

    /// Runs kubectl as a user without the proxy.
    pub(crate) async fn direct(&self, user: &str, args: &[&str]) -> anyhow::Result<String> {
        self.cluster.kubectl_with(&self.cluster.user_kubeconfig(user).unwrap(), args).await
    }

    /// Returns a client through the proxy with a token.
    pub(crate) async fn client(&self, token: &str) -> Client {
        let name = format!("client-{:08x}", fastrand::u32(..));
        Client::try_from(load(&self.kubeconfig_with(&name, token)).await).unwrap()
    }

    /// Sends a GET through the proxy with a token and headers. Returns the response with its body.
    pub(crate) async fn get(&self, token: &str, path: &str, headers: &[(&str, &str)]) -> Response<Vec<u8>> {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(&self.client(token).await, request.body(kube::client::Body::empty()).unwrap()).await
    }

    /// Reads the metrics with a token.
    pub(crate) async fn scrape(&self, token: &str) -> Response<Vec<u8>> {
        let (server, name) =
            (format!("https://{}", self.metrics), format!("scraper-{:08x}", fastrand::u32(..)));
        let kubeconfig = self.cluster.kubeconfig_through(&name, token, &server, &self.authority).unwrap();
        let client = Client::try_from(load(&kubeconfig).await).unwrap();
        send(&client, Request::get("/metrics").body(kube::client::Body::empty()).unwrap()).await
    }

    /// Creates a ServiceAccount that owns Tenants with these names.
    pub(crate) async fn owner(&self, tenants: &[&str]) -> Owner<'_> {
        let namespace = self.cluster.namespace("owner").await.unwrap();
        let name = format!("system:serviceaccount:{}:builder", namespace.name());
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some("builder".to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        let client = self.cluster.client().await.unwrap();
        let accounts = Api::namespaced(client, namespace.name());
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let token = self.cluster.service_account_token(namespace.name(), "builder").await.unwrap();
        let owner = Owner { proxy: self, name, token, _namespace: namespace };
        for tenant in tenants {
            owner.give(tenant).await;
        }
        owner
    }

    /// Creates or replaces a Tenant with owners, each a kind and a name.
    pub(crate) async fn tenant(&self, name: &str, owners: &[(&str, &str)]) {
        let owners: Vec<_> = owners.iter().map(|(kind, name)| json!({"kind": kind, "name": name})).collect();
        self.tenant_with(name, json!({"owners": owners})).await;
    }

    /// Creates or replaces a Tenant with this spec.
    pub(crate) async fn tenant_with(&self, name: &str, spec: serde_json::Value) {
        self.apply(json!({
            "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
            "metadata": {"name": name}, "spec": spec,
        }))
        .await;
    }

    /// Creates a namespace of a Tenant, with more labels.
    pub(crate) async fn namespace_of(&self, tenant: &str, name: &str, labels: &[(&str, &str)]) {
        let mut all = json!({"capsule.clastix.io/tenant": tenant});
        for (key, value) in labels {
            all[key] = json!(value);
        }
        self.apply(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": all}}),
        )
        .await;
    }

    /// Applies an object as the administrator.
    pub(crate) async fn apply(&self, object: serde_json::Value) {
        self.cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
}

/// A ServiceAccount that owns Tenants.
pub(crate) struct Owner<'p> {
    proxy: &'p TestProxy,
    /// User name.
    pub(crate) name: String,
    pub(crate) token: String,
    _namespace: cluster::TestNamespace,
}

impl Owner<'_> {
    /// Makes the account the only owner of a Tenant.
    pub(crate) async fn give(&self, tenant: &str) {
        self.proxy.tenant(tenant, &[("ServiceAccount", &self.name)]).await;
    }

    /// Runs kubectl through the proxy.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        let name = self.name.replace(':', "-");
        let kubeconfig = self.proxy.kubeconfig_with(&name, &self.token);
        self.proxy.cluster.kubectl_with(&kubeconfig, args).await
    }

    /// Returns the names of the namespaces that the account sees.
    pub(crate) async fn namespaces(&self) -> Vec<String> {
        let names = self.kubectl(&["get", "namespaces", "--output=name"]).await.unwrap();
        names.lines().map(|name| name.trim_start_matches("namespace/").to_owned()).collect()
    }

    /// Waits until the account sees exactly these namespaces. An account that owns nothing is refused.
    pub(crate) async fn until_namespaces(&self, expected: &[&str]) {
        cluster::wait::eventually("the namespaces of the account", PATIENCE, async || {
            let response = self.get("/api/v1/namespaces", &[]).await;
            let list: serde_json::Value = serde_json::from_slice(response.body())?;
            let items = list["items"].as_array().cloned().unwrap_or_default();
            Ok(items
                .iter()
                .map(|item| item["metadata"]["name"].as_str())
                .eq(expected.iter().copied().map(Some)))
        })
        .await
        .unwrap();
    }

    /// Returns a client through the proxy.
    pub(crate) async fn client(&self) -> Client {
        self.proxy.client(&self.token).await
    }

    /// Sends a GET through the proxy.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response<Vec<u8>> {
        self.proxy.get(&self.token, path, headers).await
    }
}

pub(crate) async fn send(client: &Client, request: Request<kube::client::Body>) -> Response<Vec<u8>> {
    let (parts, body) = client.send(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes().to_vec())
}

/// Returns a value of a header, or nothing.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Writes a self-signed serving certificate and returns it, which is also its authority.
pub(crate) fn write_certificate((chain, key): &(PathBuf, PathBuf)) -> String {
    let generated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(key, generated.signing_key.serialize_pem()).unwrap();
    std::fs::write(chain, generated.cert.pem()).unwrap();
    generated.cert.pem()
}

async fn load(kubeconfig: &PathBuf) -> Config {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()
}

/// Installs the kinds of Capsule, and gives a ServiceAccount of the proxy its rights.
async fn prepare(cluster: &Cluster, account: &str) {
    cluster.install_crds(&tenant::TenantController::crds()).await.unwrap();
    cluster.install_crds(&tenant::ConfigurationController::crds()).await.unwrap();
    let rules: Vec<_> = rbac::rules(&ViewKind::ALL.into()).into_iter().map(Rule::into_policy).collect();
    // What an administrator grants for the rules of GlobalProxySettings. The right to list Secrets shows that
    // the proxy does not use it.
    let of_cluster_resources =
        json!([{"apiGroups": [""], "resources": ["nodes", "secrets"], "verbs": ["get", "list", "watch"]}]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ACCOUNT.0}});
    let account_object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": ACCOUNT.0, "name": account},
    });
    for object in [namespace, account_object]
        .into_iter()
        .chain(grant(account, account, &json!(rules)))
        .chain(grant(account, &format!("{account}-cluster-resources"), &of_cluster_resources))
    {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
}

/// Gives a ServiceAccount the rights that the optional flags need.
async fn grant_options(cluster: &Cluster) {
    let policies = |rules: Vec<Rule>| rules.into_iter().map(Rule::into_policy).collect::<Vec<_>>();
    let mut rules = rbac::impersonation_rules();
    rules.extend(policies(rbac::role_binding_rules()));
    let in_kube_system = grant(ACCOUNT_WITH_OPTIONS, "client-ca", &json!(policies(rbac::client_ca_rules())));
    let in_kube_system = in_kube_system.map(|mut object| {
        object["kind"] = json!(object["kind"].as_str().unwrap().trim_start_matches("Cluster"));
        object["metadata"]["namespace"] = json!(CLIENT_CA.0);
        if object["roleRef"].is_object() {
            object["roleRef"]["kind"] = json!("Role");
        }
        object
    });
    for object in grant(ACCOUNT_WITH_OPTIONS, "options", &json!(rules)).into_iter().chain(in_kube_system) {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
}

/// Returns a ClusterRole and its binding.
fn grant(account: &str, name: &str, rules: &Value) -> [Value; 2] {
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let role = json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
    });
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": ACCOUNT.0, "name": account}],
    });
    [role, binding]
}
