//! Admission while the replicas of the manager are replaced.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use ::manager::NAMESPACE as MANAGER;
use cluster::{Cluster, wait::eventually};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::json;

use crate::{
    manager::install,
    support::{Exclusive, Kubectl, PATIENCE, exclusive},
};

/// Concurrent senders of each kind of request. They use more connections than one.
const SENDERS: usize = 3;
/// Reviews before and after the rollout, so that connections are open when it begins.
const WARM_UP: usize = 200;
const ROLLOUTS: usize = 2;

/// Requests that the API server sends to webhooks.
struct Traffic {
    client: Client,
    tenant: String,
    owner: Client,
    sent: Cell<usize>,
    slowest: Cell<Duration>,
    failures: RefCell<Vec<String>>,
    stopped: Cell<bool>,
}

impl Traffic {
    async fn new(cluster: &Cluster, tenant: &str) -> Self {
        let mut config = cluster.config().await.unwrap();
        // A retry would hide a failure.
        config.default_retry = false;
        let client = Client::try_from(config.clone()).unwrap();
        config.auth_info.impersonate = Some("alice".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["projectcapsule.dev".to_owned()]);
        let owner = Client::try_from(config).unwrap();
        Self {
            client,
            tenant: tenant.to_owned(),
            owner,
            sent: Cell::default(),
            slowest: Cell::default(),
            failures: RefCell::default(),
            stopped: Cell::default(),
        }
    }

    /// Sends requests until [`Traffic::stop`].
    async fn run(&self) {
        let kinds = (0..SENDERS).map(|number| async move {
            tokio::join!(
                self.repeat(|| self.create_tenant(number)),
                self.repeat(|| self.patch_tenant()),
                self.repeat(|| self.create_namespace(number)),
                self.repeat(|| self.create_pod()),
            )
        });
        join_all(kinds).await;
    }

    async fn repeat<F: Future<Output = kube::Result<()>>>(&self, send: impl Fn() -> F) {
        while !self.stopped.get() {
            let began = Instant::now();
            if let Err(error) = send().await {
                self.failures.borrow_mut().push(format!("after {:?}: {error}", began.elapsed()));
            }
            self.slowest.set(self.slowest.get().max(began.elapsed()));
            self.sent.set(self.sent.get() + 1);
        }
    }

    fn tenants(&self) -> Api<DynamicObject> {
        let kind = kube::core::GroupVersionKind::gvk("capsule.clastix.io", "v1beta2", "Tenant");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    async fn create_tenant(&self, number: usize) -> kube::Result<()> {
        let tenant = json!({
            "apiVersion": "capsule.clastix.io/v1beta2",
            "kind": "Tenant",
            "metadata": { "name": format!("{}-{number}", self.tenant) },
            "spec": { "owners": [{ "kind": "User", "name": "alice" }] },
        });
        let tenant = serde_json::from_value(tenant).map_err(kube::Error::SerdeError)?;
        self.tenants().create(&dry_run(), &tenant).await.map(drop)
    }

    async fn patch_tenant(&self) -> kube::Result<()> {
        let patch = json!({ "metadata": { "labels": { "sent": self.sent.get().to_string() } } });
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        self.tenants().patch(&self.tenant, &params, &Patch::Merge(patch)).await.map(drop)
    }

    /// Creates a namespace as the owner, which needs an answer of the webhooks.
    async fn create_namespace(&self, number: usize) -> kube::Result<()> {
        let namespace = json!({ "metadata": {
            "name": format!("{}-more-{number}", self.tenant),
            "labels": { "capsule.clastix.io/tenant": self.tenant },
        } });
        let namespace = serde_json::from_value(namespace).map_err(kube::Error::SerdeError)?;
        Api::<Namespace>::all(self.owner.clone()).create(&dry_run(), &namespace).await.map(drop)
    }

    async fn create_pod(&self) -> kube::Result<()> {
        let pod = json!({
            "metadata": { "generateName": "pod-" },
            "spec": { "containers": [{ "name": "pod", "image": "busybox:1.36" }] },
        });
        let pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
        let pods = Api::<Pod>::namespaced(self.owner.clone(), &format!("{}-dev", self.tenant));
        pods.create(&dry_run(), &pod).await.map(drop)
    }

    /// Waits until more requests have been answered.
    async fn answer(&self, count: usize) {
        let wanted = self.sent.get() + count;
        let answered = async || Ok(self.sent.get() >= wanted);
        eventually("more requests to be answered", PATIENCE, answered).await.unwrap();
    }
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

impl Exclusive {
    /// Creates a Tenant with one namespace.
    async fn tenant(&self, name: &str) {
        let manifest = format!(
            "
apiVersion: capsule.clastix.io/v1beta2
kind: Tenant
metadata: {{name: {name}}}
spec: {{owners: [{{kind: User, name: alice}}]}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: {name}-dev, labels: {{capsule.clastix.io/tenant: {name}}}}}
"
        );
        // The webhooks reject the namespace until their caches contain the Tenant.
        let apply =
            async || Ok(self.cluster.apply_yaml(&manifest).await.map_err(|error| format!("{error:#}")));
        eventually("the Tenant to have a namespace", PATIENCE, apply).await.unwrap();
        let bound = async || {
            let may = ["auth", "can-i", "create", "pods", "--as=alice", "--as-group=projectcapsule.dev"];
            let within = format!("--namespace={name}-dev");
            Ok(self.cluster.kubectl(&[&may[..], &[&within]].concat()).await.is_ok())
        };
        eventually("the owner to be allowed to create Pods", PATIENCE, bound).await.unwrap();
    }
}

/// Neither the end of a replica nor the start of another may fail a request: with the policy Fail, the
/// API server would reject what the webhooks do not answer.
#[tokio::test]
async fn rollout_fails_no_request() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "rollout").await;
    let tenant = kubectl.namespace.name();
    exclusive.tenant(tenant).await;
    let traffic = Traffic::new(exclusive.cluster, tenant).await;
    let rollouts = async {
        traffic.answer(WARM_UP).await;
        for _ in 0..ROLLOUTS {
            replace_pods(&kubectl).await;
        }
        traffic.answer(WARM_UP).await;
        traffic.stopped.set(true);
    };
    let began = Instant::now();
    tokio::join!(traffic.run(), rollouts);
    let (sent, slowest) = (traffic.sent.get(), traffic.slowest.get());
    println!("{sent} requests in {:?} during the rollouts, the slowest took {slowest:?}", began.elapsed());
    let failures = traffic.failures.take();
    assert!(failures.is_empty(), "{} of {sent} requests failed: {failures:#?}", failures.len());
    exclusive.cluster.kubectl(&["delete", "tenant", tenant]).await.unwrap();
    exclusive.repaired().await;
}

/// Restarts the Deployment, and waits until the old Pods are gone.
pub(crate) async fn replace_pods(kubectl: &Kubectl) {
    kubectl.run(&format!("rollout restart deployment/ensemble-manager -n {MANAGER}")).await.unwrap();
    kubectl
        .run(&format!("rollout status deployment/ensemble-manager -n {MANAGER} --timeout=120s"))
        .await
        .unwrap();
    let managers = "app.kubernetes.io/component=manager";
    let pods = format!("get pods -n {MANAGER} -l {managers} -o name");
    kubectl.until(&pods, |pods| pods.lines().count() == 2).await;
}
