//! Controllers to compare: the PodSet controller, the ReplicaSet controller, and a PodSet
//! controller in Go.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use cluster::{Cluster, Companion, program::workspace};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::ApiResource;
use local_manager::launch::{launch_with_flags, user};
use podset::PodSet;
use serde::Serialize;
use serde_json::{Value, json};

use crate::workload;

/// Namespace of the ServiceAccounts of the other controllers.
const NAMESPACE: &str = "peers";
/// Label of all Pods that a measurement creates.
pub(super) const LABEL: (&str, &str) = ("app.kubernetes.io/name", "many");

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Controller {
    /// Manager with only the PodSet controller
    Ensemble,
    /// kube-controller-manager with only the ReplicaSet controller, at 5,000 requests a second
    ReplicaSet,
    /// PodSet controller on controller-runtime, at 5,000 requests a second
    Go,
}

/// Paths of the programs.
pub(super) struct Programs {
    pub(super) ensemble: PathBuf,
    pub(super) controller_manager: PathBuf,
    pub(super) go: PathBuf,
}

impl Controller {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ensemble => "ensemble",
            Self::ReplicaSet => "replicaset",
            Self::Go => "go",
        }
    }

    /// Returns its user name at the API server.
    pub(super) fn user(self) -> String {
        match self {
            Self::Ensemble => user(),
            Self::ReplicaSet | Self::Go => format!("system:serviceaccount:{NAMESPACE}:{}", self.name()),
        }
    }

    /// Returns the resource that it reconciles.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::ReplicaSet => ApiResource::erase::<ReplicaSet>(&()),
            Self::Ensemble | Self::Go => ApiResource::erase::<PodSet>(&()),
        }
    }

    /// Returns an object with ten Pods.
    pub(super) fn object(self, number: usize) -> Result<Value> {
        let set = serde_json::to_value(workload::podset(number)?)?;
        if self != Self::ReplicaSet {
            return Ok(set);
        }
        let labels = json!({ "set": workload::podset_name(number) });
        let mut template = set.pointer("/spec/template").cloned().unwrap_or_default();
        let own = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut);
        own.context("the template has no labels")?
            .insert("set".to_owned(), json!(workload::podset_name(number)));
        Ok(json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": set.get("metadata"),
            "spec": { "replicas": workload::REPLICAS, "selector": { "matchLabels": labels }, "template": template },
        }))
    }

    pub(super) async fn start(self, cluster: &Cluster, programs: &Programs) -> Result<Companion> {
        let (program, arguments) = match self {
            Self::Ensemble => {
                let flags = ["--controllers=podset", "--health-probe-bind-address=0"].map(str::to_owned);
                return launch_with_flags(cluster, &programs.ensemble, &flags).await;
            }
            Self::ReplicaSet => (&programs.controller_manager, self.controller_manager_flags(cluster).await?),
            Self::Go => (&programs.go, Vec::new()),
        };
        let environment = ("KUBECONFIG".to_owned(), self.kubeconfig(cluster).await?.display().to_string());
        cluster.companion(self.name(), program, &arguments, &[environment])
    }

    /// Returns the flags of kube-controller-manager, which raise its default limits.
    async fn controller_manager_flags(self, cluster: &Cluster) -> Result<Vec<String>> {
        let kubeconfig = self.kubeconfig(cluster).await?;
        let mut arguments = vec![format!("--kubeconfig={}", kubeconfig.display())];
        let others = [
            "--controllers=replicaset-controller",
            "--kube-api-qps=5000",
            "--kube-api-burst=10000",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            "--secure-port=0",
        ];
        arguments.extend(others.map(str::to_owned));
        Ok(arguments)
    }

    async fn kubeconfig(self, cluster: &Cluster) -> Result<PathBuf> {
        cluster.service_account_kubeconfig(NAMESPACE, self.name()).await
    }
}

/// Creates the ServiceAccounts of the other controllers with their permissions.
pub(super) async fn create_service_accounts(cluster: &Cluster, scratch: &Path) -> Result<()> {
    let roles = [
        (Controller::ReplicaSet, "system:controller:replicaset-controller"),
        (Controller::Go, "ensemble-podset"),
    ];
    let mut items =
        vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } })];
    for (controller, role) in roles {
        let name = controller.name();
        items.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": NAMESPACE },
        }));
        items.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": format!("{NAMESPACE}-{name}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        }));
    }
    let file = scratch.join("peers.json");
    std::fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string())?;
    cluster.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]).await?;
    Ok(())
}

/// Builds the controller in Go from its pinned modules.
pub(super) fn build_go(scratch: &Path) -> Result<PathBuf> {
    let program = scratch.join("podset-go");
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&program).arg(".");
    go.current_dir(workspace().join("tests/bench/peers/podset-go"));
    go.env("CGO_ENABLED", "0").env("GOFLAGS", "").env("GOWORK", "off");
    let status = go
        .status()
        .context("cannot run `go`; install Go, or leave out the Go controller with --controllers")?;
    if !status.success() {
        bail!("cannot build tests/bench/peers/podset-go: `go build` failed");
    }
    Ok(program)
}
