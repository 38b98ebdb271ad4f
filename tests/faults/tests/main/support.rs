//! Test environment and helpers.

use std::{
    path::PathBuf,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cluster::{TestNamespace, program::build_manager};
use faults::{proxy::Proxy, token::Token};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

/// Timeout for a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A client that connects through a proxy, and one that does not.
pub(crate) struct ProxyFixture {
    pub(crate) proxy: Proxy,
    pub(crate) namespace: TestNamespace,
    pub(crate) through: Api<ConfigMap>,
    pub(crate) beside: Api<ConfigMap>,
    pub(crate) token: Token,
}

impl ProxyFixture {
    pub(crate) async fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(900_000);
        let cluster = cluster::shared().await.unwrap();
        let namespace = cluster.namespace("faults").await.unwrap();
        let token = Token::nth(NEXT.fetch_add(1, Ordering::Relaxed));
        let proxy = Proxy::start(cluster.kubeconfig()).await.unwrap();
        let folder = std::env::temp_dir().join(format!("{}-{token}", namespace.name()));
        proxy.lead(cluster.kubeconfig(), &folder).unwrap();
        let kubeconfig = Kubeconfig::read_from(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        // The proxy requires no client certificate; it forwards the token.
        config.auth_info = kube::config::AuthInfo::default();
        config.auth_info.token = Some(token_of_default(&namespace).await.into());
        let through = Api::namespaced(Client::try_from(config).unwrap(), &namespace);
        let beside = Api::namespaced(cluster.client().await.unwrap(), &namespace);
        Self { proxy, namespace, through, beside, token }
    }

    /// Returns an object of the run.
    pub(crate) fn object(&self, end: &str, data: &str) -> ConfigMap {
        let metadata = json!({ "name": format!("{}-{end}", self.token) });
        serde_json::from_value(json!({ "metadata": metadata, "data": { "is": data } })).unwrap()
    }
}

/// Returns a token of a ServiceAccount with all permissions for ConfigMaps in its namespace.
async fn token_of_default(namespace: &str) -> String {
    let cluster = cluster::shared().await.unwrap();
    let of = format!("--namespace={namespace}");
    let account = format!("--serviceaccount={namespace}:default");
    cluster.kubectl(&["create", "rolebinding", "all", "--clusterrole=admin", &account, &of]).await.unwrap();
    cluster.kubectl(&["create", "token", "default", &of]).await.unwrap().trim().to_owned()
}

/// Returns the path of the manager. The first caller builds it.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_manager(!cfg!(debug_assertions)).unwrap());
    PROGRAM.clone()
}
