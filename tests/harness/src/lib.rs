//! Runs a controller in a test on a real control plane, with the controller's own RBAC.
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

pub mod hostile_reviews;
mod rbac;
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

/// A controller, and its cluster.
pub struct Harness {
    /// The shared cluster.
    pub cluster: &'static Cluster,
    /// User name of the controller's ServiceAccount.
    pub user: String,
    /// Settings of the controller.
    settings: Settings,
    /// Position in the audit log when the controller started. Reading from here skips older entries
    /// of a shared cluster.
    began: Mark,
    /// `None`: another process runs the controller.
    _instance: Option<Instance>,
}

type Shared = Arc<OnceCell<Arc<Harness>>>;

static RUNNING: LazyLock<Mutex<HashMap<&'static str, Shared>>> = LazyLock::new(Mutex::default);

/// Returns the instance of a controller that all tests of this process share. The first caller
/// starts it.
///
/// The controller runs on its own thread because it outlives the runtimes of the tests. It stops
/// with the process.
pub async fn controller<T: Controller>() -> Result<Arc<Harness>> {
    controller_with::<T>(Settings::default()).await
}

/// Returns the shared instance, started with `settings`. All tests of a process must use the same
/// settings.
pub async fn controller_with<T: Controller>(settings: Settings) -> Result<Arc<Harness>> {
    let shared = RUNNING.lock().await.entry(type_name::<T>()).or_default().clone();
    shared.get_or_try_init(|| start::<T>(settings)).await.cloned()
}

async fn start<T: Controller>(settings: Settings) -> Result<Arc<Harness>> {
    let cluster = cluster::shared().await?;
    cluster.install_crds(&T::crds()).await?;
    let registration = register::<T>();
    let began = cluster.audit_mark()?;
    let account = rbac::grant(cluster, &registration).await?;
    let instance =
        Instance::start(cluster, &registration, settings.clone(), &account, Scope::Cluster).await?;
    Ok(Arc::new(Harness { cluster, user: account.user(), settings, began, _instance: Some(instance) }))
}

impl Harness {
    /// Returns the harness of a controller that another process runs as this user.
    pub fn external(cluster: &'static Cluster, user: String) -> Result<Self> {
        let began = cluster.audit_mark()?;
        Ok(Self { cluster, user, settings: Settings::default(), began, _instance: None })
    }

    /// Returns the requests that the controller has sent.
    pub fn requests(&self) -> Result<AuditLog> {
        Ok(self.cluster.audit_since(self.began)?.by_user(&self.user))
    }

    /// Returns the requests for objects in `namespace`.
    pub fn requests_in(&self, namespace: &str) -> Result<AuditLog> {
        Ok(self.requests()?.in_namespace(namespace))
    }
}

/// A running instance of a controller. Dropping it stops the controller, as SIGTERM does.
pub struct Instance {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Instance {
    /// Starts another instance with the rights and settings of `harness`, for tests of restarts and
    /// of several replicas.
    ///
    /// The instance watches only `namespace`, the test's namespace. Otherwise it would act on the
    /// objects of other tests and report duplicate Events.
    pub async fn of<T: Controller>(harness: &Harness, namespace: &str) -> Result<Self> {
        let registration = register::<T>();
        let account = rbac::Account::of(&registration);
        let scope = Scope::Namespaces([namespace.to_owned()].into());
        Self::start(harness.cluster, &registration, harness.settings.clone(), &account, scope).await
    }

    async fn start(
        cluster: &Cluster,
        registration: &Registration,
        settings: Settings,
        account: &rbac::Account,
        scope: Scope,
    ) -> Result<Self> {
        let kubeconfig = cluster.service_account_kubeconfig(&account.namespace, &account.name).await?;
        let config =
            kube::config::Kubeconfig::read_from(&kubeconfig).context("read the controller's kubeconfig")?;
        let config =
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
        let runtime = Runtime::new().context("create a runtime for the controller")?;
        let mut environment = {
            // A client works only on the runtime that creates it.
            let _guard = runtime.enter();
            Environment::with_scope(Client::try_from(config)?, Arc::new(NoMetrics), scope)
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
