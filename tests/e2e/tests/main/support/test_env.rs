//! Clusters for tests and their setup.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use cluster::{Cluster, Options, Snapshot, audit::AuditLog};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{Manager, program, reserve_port};

/// Namespace of the manager.
pub(crate) const NAMESPACE: &str = "ensemble-system";
/// ServiceAccount of the manager.
const ACCOUNT: &str = "ensemble-manager";

/// A cluster that contains at least the manager's namespace and ServiceAccount.
pub(crate) struct TestEnv {
    pub(crate) cluster: Cluster,
    /// ServiceAccount from `deploy/rbac`.
    pub(crate) account: Account,
}

/// A ServiceAccount for a manager.
pub(crate) struct Account {
    name: String,
    kubeconfig: PathBuf,
}

impl Account {
    /// Returns the path of the account's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns this account with another kubeconfig.
    pub(crate) fn with(&self, kubeconfig: PathBuf) -> Self {
        Self { name: self.name.clone(), kubeconfig }
    }

    /// Returns the user name of the account.
    pub(crate) fn user(&self) -> String {
        format!("system:serviceaccount:{NAMESPACE}:{}", self.name)
    }
}

/// Returns the path of a file in the repository.
pub(crate) fn path(relative: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative).display().to_string()
}

/// Returns the first block of YAML of a page that contains this text.
pub(crate) fn example(page: &str, text: &str) -> String {
    let page = fs::read_to_string(path(page)).unwrap();
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.into_iter().find(|block| block.contains(text)).unwrap().to_owned()
}

/// Returns the folder of the samples.
pub(crate) fn samples() -> String {
    path("samples")
}

/// Returns the path of a sample.
pub(crate) fn sample(name: &str) -> String {
    path(&format!("samples/{name}.yaml"))
}

impl TestEnv {
    /// Starts a cluster without CRDs and RBAC.
    pub(crate) async fn bare() -> Self {
        Self::bare_on(cluster::isolated().await.unwrap()).await
    }

    /// Sets up a cluster with its own options, without CRDs and RBAC.
    pub(crate) async fn bare_on(cluster: Cluster) -> Self {
        let account = create_account(&cluster).await;
        Self { cluster, account }
    }

    /// Recreates the manager's namespace and ServiceAccount after a test has deleted them.
    pub(crate) async fn create_account(&mut self) {
        self.account = create_account(&self.cluster).await;
    }

    /// Starts a cluster with CRDs and RBAC. They are installed once for all tests.
    pub(crate) async fn complete() -> Self {
        static INSTALLED: OnceCell<Snapshot> = OnceCell::const_new();
        let take = async || Snapshot::take(install).await.unwrap();
        let snapshot = Some(INSTALLED.get_or_init(take).await.clone());
        Self::bare_on(Cluster::start(Options { snapshot, ..Options::default() }).await.unwrap()).await
    }

    /// Installs the CRDs.
    pub(crate) async fn install_crds(&self) {
        install_crds(&self.cluster).await.unwrap();
    }

    /// Installs a foreign CRD that accepts any object.
    pub(crate) async fn install_foreign_crd(&self, group: &str, version: &str, kind: &str, plural: &str) {
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

    /// Applies the deployed RBAC of the manager.
    pub(crate) async fn grant_rights(&self) {
        grant_rights(&self.cluster).await.unwrap();
    }

    /// Applies the RBAC for installing CRDs.
    pub(crate) async fn grant_crd_rights(&self) {
        let file = path("deploy/rbac/optional/install-crds.yaml");
        self.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    }

    /// Creates a ServiceAccount without rights. With separate accounts, the audit log distinguishes
    /// managers.
    pub(crate) async fn account(&self, name: &str) -> Account {
        self.kubectl(&["create", "serviceaccount", name, "--namespace", NAMESPACE]).await.unwrap();
        let kubeconfig = self.cluster.service_account_kubeconfig(NAMESPACE, name).await.unwrap();
        Account { name: name.to_owned(), kubeconfig }
    }

    /// Grants an account the rights of a controller.
    pub(crate) async fn grant_controller_rights(&self, account: &Account, controller: &str) {
        let name = format!("{}-{controller}", account.name);
        let role = format!("--clusterrole=ensemble-{controller}");
        let subject = format!("--serviceaccount={NAMESPACE}:{}", account.name);
        self.kubectl(&["create", "clusterrolebinding", &name, &role, &subject]).await.unwrap();
    }

    /// Returns the kubeconfig of the deployed ServiceAccount.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.account.kubeconfig
    }

    /// Starts a manager without probes.
    pub(crate) fn start(&self, name: &str, account: &Account, args: &[&str]) -> Manager {
        self.launch(name, account, args, "0", 0)
    }

    /// Starts a manager with probes.
    pub(crate) fn start_with_probes(&self, name: &str, account: &Account, args: &[&str]) -> Manager {
        let port = reserve_port();
        self.launch(name, account, args, &format!("127.0.0.1:{port}"), port)
    }

    fn launch(&self, name: &str, account: &Account, args: &[&str], probes: &str, port: u16) -> Manager {
        let probes = format!("--health-probe-bind-address={probes}");
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).chain([probes]).collect();
        let env = [
            ("KUBECONFIG".to_owned(), account.kubeconfig.display().to_string()),
            // A test that reads metrics sets a flag.
            ("ENSEMBLE_METRICS_BIND_ADDRESS".to_owned(), "0".to_owned()),
            ("ENSEMBLE_LEADER_ELECT".to_owned(), "false".to_owned()),
            ("ENSEMBLE_WEBHOOK_BIND_ADDRESS".to_owned(), "0".to_owned()),
        ];
        Manager::new(self.cluster.companion(name, program(), &args, &env).unwrap(), port)
    }

    /// Returns the requests of an account.
    pub(crate) fn requests(&self, account: &Account) -> AuditLog {
        self.cluster.audit().unwrap().by_user(&account.user())
    }

    /// Asserts that the API server rejected no request of the deployed manager as forbidden.
    pub(crate) fn assert_no_forbidden_requests(&self) {
        let forbidden = self.requests(&self.account).filter(|entry| entry.code == 403);
        assert_eq!(forbidden.entries, []);
    }
}

/// Installs CRDs and RBAC.
async fn install(cluster: &Cluster) -> Result<()> {
    install_crds(cluster).await?;
    grant_rights(cluster).await
}

async fn install_crds(cluster: &Cluster) -> Result<()> {
    let folder = path("deploy/crds");
    cluster.kubectl(&["apply", "--server-side", "-f", &folder]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "-f", &folder]).await.map(drop)
}

async fn grant_rights(cluster: &Cluster) -> Result<()> {
    cluster.kubectl(&["apply", "--server-side", "-f", &path("deploy/rbac")]).await.map(drop)
}

/// Creates the manager's namespace and ServiceAccount.
async fn create_account(cluster: &Cluster) -> Account {
    cluster.kubectl(&["apply", "--server-side", "-f", &path("deploy/rbac/00-manager.yaml")]).await.unwrap();
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT).await.unwrap();
    Account { name: ACCOUNT.to_owned(), kubeconfig }
}

/// Returns the shared cluster with a deployed manager that runs all controllers.
pub(crate) async fn tutorial() -> &'static TestEnv {
    static TUTORIAL: OnceCell<(TestEnv, Manager)> = OnceCell::const_new();
    let start = async || {
        let env = TestEnv::complete().await;
        let manager = env.start("manager", &env.account, &[]);
        (env, manager)
    };
    &TUTORIAL.get_or_init(start).await.0
}

/// Returns the shared cluster of tests that start their own manager, or none. Each test uses a
/// different controller.
pub(crate) async fn workbench() -> &'static TestEnv {
    static WORKBENCH: OnceCell<TestEnv> = OnceCell::const_new();
    WORKBENCH.get_or_init(TestEnv::complete).await
}
