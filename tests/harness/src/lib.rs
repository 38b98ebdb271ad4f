//! Runs a controller within a test, on the real control plane and under its own rights.
//!
//! ```no_run
//! # use operator_core::Controller;
//! # async fn example<T: Controller>() -> anyhow::Result<()> {
//! let harness = harness::controller::<T>().await?;
//! let namespace = harness.cluster.namespace("example").await?;
//! harness.cluster.kubectl(&["--namespace", namespace.name(), "get", "pods"]).await?;
//! # Ok(())
//! # }
//! ```

pub mod hostile;
mod rights;
pub mod status;

use std::{
    any::type_name,
    collections::HashMap,
    sync::{Arc, LazyLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use cluster::{
    Cluster,
    audit::{AuditLog, Mark},
};
use kube::Client;
use operator_core::{
    Controller, Environment, Registration, environment::Settings, informer::Scope, metrics::NoMetrics,
    register,
};
use tokio::{
    runtime::Runtime,
    sync::{Mutex, OnceCell},
};
use tokio_util::sync::CancellationToken;

/// A controller that runs in this process, and the cluster that it runs on.
pub struct Harness {
    /// The shared cluster.
    pub cluster: &'static Cluster,
    /// The ServiceAccount's user name, as the audit log has it.
    pub user: String,
    /// What the controller was started with.
    settings: Settings,
    /// Where the audit log was when the controller started: the log of a shared cluster grows long.
    began: Mark,
    _instance: Instance,
}

type Shared = Arc<OnceCell<Arc<Harness>>>;

static RUNNING: LazyLock<Mutex<HashMap<&'static str, Shared>>> = LazyLock::new(Mutex::default);

/// The instance of a controller that all tests of this process share; the first caller starts it.
///
/// It runs on a thread of its own, for it outlives the runtimes of the tests, and ends with the process.
pub async fn controller<T: Controller>() -> Result<Arc<Harness>> {
    controller_with::<T>(Settings::default()).await
}

/// As [`controller`], with these settings, which must be the same in all tests of a process.
pub async fn controller_with<T: Controller>(settings: Settings) -> Result<Arc<Harness>> {
    let shared = RUNNING.lock().await.entry(type_name::<T>()).or_default().clone();
    shared.get_or_try_init(|| start::<T>(settings)).await.cloned()
}

async fn start<T: Controller>(settings: Settings) -> Result<Arc<Harness>> {
    let cluster = cluster::shared().await?;
    cluster.install_crds(&T::crds()).await?;
    let registration = register::<T>();
    let began = cluster.audit_mark()?;
    let account = rights::grant(cluster, &registration).await?;
    let instance =
        Instance::start(cluster, &registration, settings.clone(), &account, Scope::Cluster).await?;
    Ok(Arc::new(Harness { cluster, user: account.user(), settings, began, _instance: instance }))
}

impl Harness {
    /// What the controller itself has asked of the API server.
    pub fn requests(&self) -> Result<AuditLog> {
        Ok(self.cluster.audit_since(self.began)?.by_user(&self.user))
    }

    /// What it has asked about objects in `namespace`.
    pub fn requests_in(&self, namespace: &str) -> Result<AuditLog> {
        Ok(self.requests()?.in_namespace(namespace))
    }
}

/// One running instance of a controller. Stops when dropped, as a process does on SIGTERM.
pub struct Instance {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Instance {
    /// Starts another instance with the rights and settings of the first, for tests of restarts and of several
    /// replicas.
    ///
    /// It looks into `namespace` only, which is the test's own: it would otherwise act on the objects of the
    /// other tests too, and tell Events about them for a second time.
    pub async fn of<T: Controller>(harness: &Harness, namespace: &str) -> Result<Self> {
        let registration = register::<T>();
        let account = rights::Account::of(&registration);
        let scope = Scope::Namespaces([namespace.to_owned()].into());
        Self::start(harness.cluster, &registration, harness.settings.clone(), &account, scope).await
    }

    async fn start(
        cluster: &Cluster,
        registration: &Registration,
        settings: Settings,
        account: &rights::Account,
        scope: Scope,
    ) -> Result<Self> {
        let kubeconfig = cluster.service_account_kubeconfig(&account.namespace, &account.name).await?;
        let config =
            kube::config::Kubeconfig::read_from(&kubeconfig).context("read the kubeconfig just written")?;
        let config =
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
        let runtime = Runtime::new().context("make a runtime for the controller")?;
        let mut environment = {
            // A client belongs to the runtime that it is made on.
            let _entered = runtime.enter();
            Environment::within(Client::try_from(config)?, Arc::new(NoMetrics), scope)
        };
        environment.settings = Arc::new(settings);
        let (registration, stop) = (*registration, environment.stop.clone());
        let thread = thread::Builder::new().name(registration.name.to_owned()).spawn(move || {
            runtime.block_on(async move { registration.run(&environment).await });
            runtime.shutdown_timeout(Duration::from_secs(1));
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
