//! Test environment: a namespace with exactly the permissions that the certificates need.

use std::time::Duration;

use cluster::{
    Cluster, TestNamespace,
    audit::{AuditLog, Mark},
    wait::eventually,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, ServiceAccount},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use operator_core::manifests::Grant;
use operator_runtime::certificates::{
    CaBundleTarget, Config, Lifetimes, SECRET, Source, cluster_rules, rules,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::json;

use super::replica::Replica;

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const ACCOUNT: &str = "certificates";

pub(super) struct TestEnv {
    pub(super) cluster: &'static Cluster,
    pub(super) namespace: TestNamespace,
    pub(super) client: Client,
    pub(super) secrets: Api<Secret>,
    pub(super) targets: Vec<CaBundleTarget>,
    started: Mark,
}

impl TestEnv {
    /// Creates a namespace with permissions for `targets`, which do not exist yet.
    pub(super) async fn new(targets: impl Fn(&str) -> Vec<CaBundleTarget>) -> Self {
        let cluster = cluster::shared().await.unwrap();
        let started = cluster.audit_mark().unwrap();
        let namespace = cluster.namespace("certificates").await.unwrap();
        let client = cluster.client().await.unwrap();
        let secrets = Api::namespaced(client.clone(), &namespace);
        let targets = targets(&namespace);
        let env = Self { cluster, namespace, client, secrets, targets, started };
        env.create_rbac().await;
        env
    }

    async fn create_rbac(&self) {
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

    /// Starts a replica with the permissions of the ServiceAccount.
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

    pub(super) async fn managed_replica(&self) -> Replica {
        self.replica(Source::Managed(Lifetimes::default())).await
    }

    /// Waits until the contents of the Secret satisfy a condition.
    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&SecretContents) -> bool) -> SecretContents {
        let seen = eventually(what, TIMEOUT, async || {
            let contents = SecretContents::of(self.secrets.get_opt(SECRET).await?);
            Ok(if is_so(&contents) { Ok(contents) } else { Err(contents.authorities.len()) })
        });
        seen.await.unwrap()
    }

    pub(super) async fn delete_secret(&self) {
        self.secrets.delete(SECRET, &DeleteParams::default()).await.unwrap();
    }

    /// Replaces keys of the Secret.
    pub(super) async fn patch_secret(&self, data: &[(&str, Vec<u8>)]) {
        let data: serde_json::Map<_, _> =
            data.iter().map(|(key, bytes)| ((*key).to_owned(), json!(ByteString(bytes.clone())))).collect();
        let patch = Patch::Merge(json!({ "data": data }));
        self.secrets.patch(SECRET, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates the Secret before a replica does.
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

    /// Returns verb, resource, and status code of the requests of the replicas.
    pub(super) fn requests(&self) -> Vec<(String, String, u16)> {
        let requests = self.audit().entries.into_iter();
        requests.map(|entry| (entry.verb, entry.resource, entry.code)).collect()
    }

    fn audit(&self) -> AuditLog {
        let user = format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace.name());
        self.cluster.audit_since(self.started).unwrap().by_user(&user)
    }

    /// Returns the number of successful writes of a resource.
    pub(super) fn writes(&self, resource: &str) -> usize {
        self.writes_since(Timestamp::MIN, resource)
    }

    /// Returns the number of successful writes of a resource that the API server received after this time.
    pub(super) fn writes_since(&self, time: Timestamp, resource: &str) -> usize {
        let writes = self.audit().writes();
        writes
            .filter(|entry| entry.time > time && entry.resource == resource && entry.code < 300)
            .entries
            .len()
    }
}

/// Contents of the Secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SecretContents {
    pub(super) bundle: Vec<u8>,
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) serving: Option<CertificateDer<'static>>,
    pub(super) has_key: bool,
}

impl SecretContents {
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
