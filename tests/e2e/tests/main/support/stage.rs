//! Clusters, and what has been brought into them.

use std::path::{Path, PathBuf};

use cluster::{Cluster, audit::AuditLog};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{Manager, free_port, program};

/// Where the manager lives.
pub(crate) const NAMESPACE: &str = "ensemble-system";
/// As whom it is deployed.
const ACCOUNT: &str = "ensemble-manager";

/// A cluster in which there is at least the manager's namespace and ServiceAccount.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    /// The ServiceAccount of `deploy/rbac`.
    pub(crate) account: Account,
}

/// A ServiceAccount that a manager can run as.
pub(crate) struct Account {
    name: String,
    kubeconfig: PathBuf,
}

impl Account {
    /// Where its kubeconfig is.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The same with another kubeconfig.
    pub(crate) fn with(&self, kubeconfig: PathBuf) -> Self {
        Self { name: self.name.clone(), kubeconfig }
    }

    /// How the audit log calls it.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{}", self.name)
    }
}

/// A path in the repository.
pub(crate) fn path(relative: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative).display().to_string()
}

/// The folder of all samples.
pub(crate) fn samples() -> String {
    path("samples")
}

/// The path of a sample.
pub(crate) fn sample(name: &str) -> String {
    path(&format!("samples/{name}.yaml"))
}

impl Stage {
    /// Without definitions and without rights.
    pub(crate) async fn bare() -> Self {
        Self::bare_on(cluster::isolated().await.unwrap()).await
    }

    /// On a cluster that is like no other test's.
    pub(crate) async fn bare_on(cluster: Cluster) -> Self {
        let account = settle_in(&cluster).await;
        Self { cluster, account }
    }

    /// Brings the manager's namespace and ServiceAccount back after somebody has deleted them.
    pub(crate) async fn settle_in(&mut self) {
        self.account = settle_in(&self.cluster).await;
    }

    /// With all that a manager needs.
    pub(crate) async fn complete() -> Self {
        let stage = Self::bare().await;
        stage.define().await;
        stage.permit().await;
        stage
    }

    /// Installs the definitions.
    pub(crate) async fn define(&self) {
        let folder = path("deploy/crds");
        self.kubectl(&["apply", "--server-side", "-f", &folder]).await.unwrap();
        self.kubectl(&["wait", "--for=condition=Established", "-f", &folder]).await.unwrap();
    }

    /// Installs a definition of somebody else's, which takes any object.
    pub(crate) async fn define_open(&self, group: &str, version: &str, kind: &str, plural: &str) {
        let name = format!("{plural}.{group}");
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": name },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{ "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
            },
        });
        self.cluster.apply_yaml(&definition.to_string()).await.unwrap();
        let definition = format!("crd/{name}");
        self.kubectl(&["wait", "--for=condition=Established", &definition]).await.unwrap();
    }

    /// Gives the manager the rights that it has where it is deployed.
    pub(crate) async fn permit(&self) {
        self.kubectl(&["apply", "--server-side", "-f", &path("deploy/rbac")]).await.unwrap();
    }

    /// Gives the manager the right to install definitions.
    pub(crate) async fn permit_definitions(&self) {
        let file = path("deploy/rbac/optional/install-crds.yaml");
        self.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    }

    /// Another ServiceAccount, so that the audit log tells several managers apart. It may nothing yet.
    pub(crate) async fn account(&self, name: &str) -> Account {
        self.kubectl(&["create", "serviceaccount", name, "--namespace", NAMESPACE]).await.unwrap();
        let kubeconfig = self.cluster.service_account_kubeconfig(NAMESPACE, name).await.unwrap();
        Account { name: name.to_owned(), kubeconfig }
    }

    /// Gives an account the rights of a controller.
    pub(crate) async fn permit_account(&self, account: &Account, controller: &str) {
        let name = format!("{}-{controller}", account.name);
        let role = format!("--clusterrole=ensemble-{controller}");
        let subject = format!("--serviceaccount={NAMESPACE}:{}", account.name);
        self.kubectl(&["create", "clusterrolebinding", &name, &role, &subject]).await.unwrap();
    }

    /// The kubeconfig of the ServiceAccount that is deployed.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.account.kubeconfig
    }

    /// Starts a manager without probes.
    pub(crate) fn start(&self, name: &str, account: &Account, args: &[&str]) -> Manager {
        self.launch(name, account, args, "0", 0)
    }

    /// Starts a manager with probes.
    pub(crate) fn start_with_probes(&self, name: &str, account: &Account, args: &[&str]) -> Manager {
        let port = free_port();
        self.launch(name, account, args, &format!("127.0.0.1:{port}"), port)
    }

    fn launch(&self, name: &str, account: &Account, args: &[&str], probes: &str, port: u16) -> Manager {
        let probes = format!("--health-probe-bind-address={probes}");
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).chain([probes]).collect();
        let env = [
            ("KUBECONFIG".to_owned(), account.kubeconfig.display().to_string()),
            // Whoever wants it says so with a flag.
            ("ENSEMBLE_METRICS_BIND_ADDRESS".to_owned(), "0".to_owned()),
            ("ENSEMBLE_LEADER_ELECT".to_owned(), "false".to_owned()),
            ("ENSEMBLE_WEBHOOK_BIND_ADDRESS".to_owned(), "0".to_owned()),
        ];
        Manager::new(self.cluster.companion(name, program(), &args, &env).unwrap(), port)
    }

    /// What an account has asked of the API server.
    pub(crate) fn requests(&self, account: &Account) -> AuditLog {
        self.cluster.audit().unwrap().by_user(&account.user())
    }

    /// Holds the deployed manager to asking for nothing that it has no right to.
    pub(crate) fn assert_nothing_was_forbidden(&self) {
        let forbidden = self.requests(&self.account).filter(|entry| entry.code == 403);
        assert_eq!(forbidden.entries, []);
    }
}

/// Makes the manager's namespace and ServiceAccount.
async fn settle_in(cluster: &Cluster) -> Account {
    cluster.kubectl(&["apply", "--server-side", "-f", &path("deploy/rbac/00-manager.yaml")]).await.unwrap();
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT).await.unwrap();
    Account { name: ACCOUNT.to_owned(), kubeconfig }
}

/// The cluster in which a manager with all controllers runs, as it is deployed. The walk-throughs share it.
pub(crate) async fn tutorial() -> &'static Stage {
    static TUTORIAL: OnceCell<(Stage, Manager)> = OnceCell::const_new();
    let start = async || {
        let stage = Stage::complete().await;
        let manager = stage.start("manager", &stage.account, &[]);
        (stage, manager)
    };
    &TUTORIAL.get_or_init(start).await.0
}

/// The cluster of those who run a manager of their own, each for a controller that nobody else runs there.
pub(crate) async fn workbench() -> &'static Stage {
    static WORKBENCH: OnceCell<Stage> = OnceCell::const_new();
    WORKBENCH.get_or_init(Stage::complete).await
}
