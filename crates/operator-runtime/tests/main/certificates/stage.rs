//! A namespace with the rights that keeping the certificates needs, and no others.

use std::time::Duration;

use cluster::{Cluster, TestNamespace, audit::Mark, wait::eventually};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use operator_core::rbac::Grant;
use operator_runtime::certificates::{
    CaBundleTarget, Config, Lifetimes, SECRET, Source, cluster_rules, rules,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::json;

use super::replica::Replica;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const ACCOUNT: &str = "keeper";

pub(super) struct Stage {
    pub(super) cluster: &'static Cluster,
    pub(super) namespace: TestNamespace,
    pub(super) client: Client,
    pub(super) secrets: Api<Secret>,
    pub(super) targets: Vec<CaBundleTarget>,
    began: Mark,
}

impl Stage {
    /// With the rights on these objects, which do not exist yet.
    pub(super) async fn new(targets: impl Fn(&str) -> Vec<CaBundleTarget>) -> Self {
        let cluster = cluster::shared().await.unwrap();
        let began = cluster.audit_mark().unwrap();
        let namespace = cluster.namespace("certificates").await.unwrap();
        let client = cluster.client().await.unwrap();
        let secrets = Api::namespaced(client.clone(), &namespace);
        let targets = targets(&namespace);
        let stage = Self { cluster, namespace, client, secrets, targets, began };
        stage.permit().await;
        stage
    }

    async fn permit(&self) {
        let namespace = self.namespace.name();
        let create = PostParams::default();
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some(ACCOUNT.to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        Api::namespaced(self.client.clone(), namespace).create(&create, &account).await.unwrap();
        let own = Grant::new(namespace, rules());
        let (role, binding) =
            (own.role(Some(namespace)), own.role_binding(Some(namespace), namespace, ACCOUNT));
        Api::namespaced(self.client.clone(), namespace).create(&create, &role).await.unwrap();
        Api::namespaced(self.client.clone(), namespace).create(&create, &binding).await.unwrap();
        let wide = Grant::new(namespace, cluster_rules(&self.targets));
        let (role, binding) = (wide.cluster_role(), wide.cluster_role_binding(namespace, ACCOUNT));
        Api::all(self.client.clone()).create(&create, &role).await.unwrap();
        Api::all(self.client.clone()).create(&create, &binding).await.unwrap();
    }

    /// A replica that has a server, under these rights.
    pub(super) async fn replica(&self, source: Source) -> Replica {
        let client = self.cluster.client_for_service_account(&self.namespace, ACCOUNT).await.unwrap();
        let config = Config {
            source,
            namespace: self.namespace.to_string(),
            hosts: vec!["127.0.0.1".parse().unwrap()],
            targets: self.targets.clone(),
        };
        Replica::start(client, config).await
    }

    pub(super) async fn managed(&self) -> Replica {
        self.replica(Source::Managed(Lifetimes::default())).await
    }

    /// The Secret's data, when it satisfies this.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&Held) -> bool) -> Held {
        let seen = eventually(what, PATIENCE, async || {
            let held = Held::of(self.secrets.get_opt(SECRET).await?);
            Ok(if is_so(&held) { Ok(held) } else { Err(held.authorities.len()) })
        });
        seen.await.unwrap()
    }

    pub(super) async fn delete_secret(&self) {
        self.secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    }

    /// Puts these bytes into the Secret, as somebody with a shell would.
    pub(super) async fn fill(&self, data: &[(&str, Vec<u8>)]) {
        let data: serde_json::Map<_, _> =
            data.iter().map(|(key, bytes)| ((*key).to_owned(), json!(ByteString(bytes.clone())))).collect();
        let patch = Patch::Merge(json!({ "data": data }));
        self.secrets.patch(SECRET, &PatchParams::default(), &patch).await.unwrap();
    }

    /// A Secret that was there before.
    pub(super) async fn create_secret(&self, data: &[(&str, Vec<u8>)]) {
        let data = data.iter().map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.clone()))).collect();
        let secret = Secret {
            metadata: ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        self.secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// What the replicas have asked for: verb, resource and status of the answer.
    pub(super) fn requests(&self) -> Vec<(String, String, u16)> {
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace.name());
        let log = self.cluster.audit_since(self.began).unwrap().by_user(&user);
        log.entries.into_iter().map(|entry| (entry.verb, entry.resource, entry.code)).collect()
    }

    /// How many writes of these resources were carried out.
    pub(super) fn writes(&self, resource: &str) -> usize {
        let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
        let requests = self.requests();
        requests.iter().filter(|(verb, what, code)| is_write(verb) && what == resource && *code < 300).count()
    }
}

/// What a Secret holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held {
    pub(super) bundle: Vec<u8>,
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) serving: Option<CertificateDer<'static>>,
    pub(super) has_key: bool,
}

impl Held {
    pub(super) fn of(secret: Option<Secret>) -> Self {
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let bytes = |key| data.get(key).map(|ByteString(bytes)| bytes.clone()).unwrap_or_default();
        let certificates =
            |key| CertificateDer::pem_slice_iter(&bytes(key)).filter_map(Result::ok).collect::<Vec<_>>();
        Self {
            bundle: bytes("ca.crt"),
            authorities: certificates("ca.crt"),
            serving: certificates("tls.crt").into_iter().next(),
            has_key: bytes("ca.key").starts_with(b"-----BEGIN PRIVATE KEY-----"),
        }
    }
}
