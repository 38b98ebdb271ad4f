//! What the tests share.

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

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A plain client that sees the API server through a proxy, and one that does not.
pub(crate) struct Stand {
    pub(crate) proxy: Proxy,
    pub(crate) namespace: TestNamespace,
    pub(crate) through: Api<ConfigMap>,
    pub(crate) beside: Api<ConfigMap>,
    pub(crate) token: Token,
}

impl Stand {
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
        // The proxy asks for no certificate; it hands on a token.
        config.auth_info = kube::config::AuthInfo::default();
        config.auth_info.token = Some(token_of_default(&namespace).await.into());
        let through = Api::namespaced(Client::try_from(config).unwrap(), &namespace);
        let beside = Api::namespaced(cluster.client().await.unwrap(), &namespace);
        Self { proxy, namespace, through, beside, token }
    }

    /// An object of the run.
    pub(crate) fn object(&self, end: &str, data: &str) -> ConfigMap {
        let metadata = json!({ "name": format!("{}-{end}", self.token) });
        serde_json::from_value(json!({ "metadata": metadata, "data": { "is": data } })).unwrap()
    }
}

/// The token of a ServiceAccount that may do anything with ConfigMaps in its namespace.
async fn token_of_default(namespace: &str) -> String {
    let cluster = cluster::shared().await.unwrap();
    let of = format!("--namespace={namespace}");
    let account = format!("--serviceaccount={namespace}:default");
    cluster.kubectl(&["create", "rolebinding", "all", "--clusterrole=admin", &account, &of]).await.unwrap();
    cluster.kubectl(&["create", "token", "default", &of]).await.unwrap().trim().to_owned()
}

/// Where the manager is; built by whoever asks first, together with what is built anyway.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| build_manager(!cfg!(debug_assertions)).unwrap());
    PROGRAM.clone()
}
