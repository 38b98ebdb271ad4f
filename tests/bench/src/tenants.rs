//! Many Tenants: cost, time until a new namespace is complete, and cost of a change of one Tenant.

use std::{
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use capsule::Tenant;
use clap::Args;
use cluster::{
    Cluster, Options,
    usage::{cpu, peak, resident},
    wait::eventually,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use local_manager::launch::start_manager_with_webhooks;
use serde_json::{Value, json};

use crate::{
    TIMEOUT, figures,
    requests::{count_requests, manager_requests, wait_until_idle, without_background},
    workload::{ObjectStatus, is_ready, status_is},
};

#[derive(Args)]
pub(crate) struct Tenants {
    /// Number of Tenants of three namespaces to create
    #[arg(long = "tenants", value_name = "TENANTS", default_value_t = 200)]
    count: usize,

    /// Number of further namespaces that the owner creates, one at a time
    #[arg(long, default_value_t = 50)]
    namespaces: usize,

    /// Number of Tenants with which the change of one Tenant is measured again
    #[arg(long = "more-tenants", value_name = "TENANTS", default_value_t = 1000)]
    more: usize,
}

/// Namespaces of each Tenant.
const NAMESPACES_PER_TENANT: usize = 3;
/// Objects of each namespace: two RoleBindings, a LimitRange, a NetworkPolicy, and a ResourceQuota.
const CHILDREN: usize = 5;
/// Minimum number of writes to a Tenant: its finalizer, its owners in the status, and its final
/// status.
const WRITES_PER_TENANT: usize = 3;
/// RoleBindings of a namespace, which are created last.
const BINDINGS: usize = 2;
/// Concurrent requests that create Tenants.
const CONCURRENCY: usize = 16;
/// Number of changes of one Tenant.
const CHANGES: usize = 20;
/// Duration of the measurement without changes.
const BASELINE: Duration = Duration::from_secs(10);

const OWNER: &str = "alice";
const GROUP: &str = "projectcapsule.dev";
const TENANT_LABEL: &str = "capsule.clastix.io/tenant";
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// Cluster with clients of its administrator and of an owner of Tenants.
struct TestEnv {
    cluster: Cluster,
    manager: u32,
    admin: Client,
    owner: Client,
}

impl Tenants {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_manager_with_webhooks(&cluster, program).await?;
        let (admin, owner) = (cluster.client().await?, cluster.client_as(OWNER, &[GROUP]).await?);
        let env = TestEnv { cluster, manager: running.pid(), admin, owner };
        env.wait_for_owner_permissions().await?;
        self.create_concurrently(&env).await?;
        self.create_sequentially(&env).await?;
        env.change_tenant(self.count).await?;
        if self.more > self.count {
            env.create_tenants(self.count..self.more, 1).await?;
            wait_until_idle(&env.cluster, Duration::from_secs(5)).await?;
            env.change_tenant(self.more).await?;
            figures::print(&format!("memory, {} Tenants", self.more), resident(env.manager)?, "MiB");
        }
        running.stop()?;
        env.cluster.stop()
    }

    /// Creates all Tenants and their namespaces concurrently.
    async fn create_concurrently(&self, env: &TestEnv) -> Result<()> {
        let (mark, began) = (env.cluster.audit_mark()?, Instant::now());
        env.create_tenants(0..self.count, NAMESPACES_PER_TENANT).await?;
        let took = began.elapsed();
        wait_until_idle(&env.cluster, Duration::from_secs(5)).await?;
        let requests = without_background(manager_requests(&env.cluster, mark)?);
        let minimum = self.count * (NAMESPACES_PER_TENANT * CHILDREN + WRITES_PER_TENANT);
        let tenants = format!("{} Tenants of {NAMESPACES_PER_TENANT} namespaces", self.count);
        figures::print(&format!("{tenants}, until all are ready"), took.as_secs_f64(), "s");
        figures::print("requests, relative to the minimum", ratio(requests.entries.len(), minimum), "times");
        println!("requests, with a minimum of {minimum}: {:?}", count_requests(&requests));
        figures::print(&format!("memory, {tenants}, peak"), peak(env.manager)?, "MiB");
        Ok(())
    }

    /// Creates namespaces as the owner, one at a time.
    async fn create_sequentially(&self, env: &TestEnv) -> Result<()> {
        let bindings = Api::<RoleBinding>::all(env.admin.clone());
        let config = watcher::Config::default().labels("projectcapsule.dev/managed-by=controller");
        let mut applied = pin!(watcher(bindings, config).applied_objects().boxed());
        let mut times = Vec::new();
        for number in 0..self.namespaces {
            let tenant = tenant_name(number % self.count.max(1));
            let name = format!("{tenant}-more-{number}");
            let began = Instant::now();
            env.create_namespace(&tenant, &name).await?;
            let mut created = 0;
            while created < BINDINGS {
                let binding = applied.try_next().await?.context("the watch has ended")?;
                created += usize::from(binding.namespace().as_deref() == Some(&name));
            }
            times.push(began.elapsed());
        }
        times.sort();
        let label = "namespace of an owner, until complete";
        figures::print(&format!("{label}, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{label}, 99th percentile"), figures::percentile(&times, 99), "ms");
        Ok(())
    }
}

impl TestEnv {
    /// Waits until the manager has granted the owners the creation of namespaces.
    async fn wait_for_owner_permissions(&self) -> Result<()> {
        let can_i = ["auth", "can-i", "create", "namespaces", "--as", OWNER, "--as-group", GROUP];
        eventually("the owner to be allowed to create namespaces", TIMEOUT, async || {
            Ok(self.cluster.kubectl(&can_i).await.is_ok_and(|output| output.trim() == "yes"))
        })
        .await
    }

    /// Creates Tenants with their namespaces, and waits until all of them are ready.
    async fn create_tenants(&self, numbers: std::ops::Range<usize>, namespaces: usize) -> Result<()> {
        let (first, count) = (numbers.start, numbers.len());
        let created = stream::iter(numbers).map(|number| self.create_tenant(tenant_name(number), namespaces));
        created.buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        let tenants = Api::<ObjectStatus>::all_with(self.admin.clone(), &ApiResource::erase::<Tenant>(&()));
        eventually("all Tenants to be ready", TIMEOUT, async || {
            let list = tenants.list(&ListParams::default()).await?;
            let ready = list
                .iter()
                .filter(|tenant| status_is(tenant, |status| status.size >= namespaces && is_ready(status)))
                .count();
            Ok(if ready == first + count { Ok(()) } else { Err(ready) })
        })
        .await
    }

    async fn create_tenant(&self, name: String, namespaces: usize) -> Result<()> {
        let tenant: Tenant = serde_json::from_value(tenant(&name))?;
        let tenants = Api::<Tenant>::all(self.admin.clone());
        tenants.create(&PostParams::default(), &tenant).await.context("cannot create a Tenant")?;
        for number in 0..namespaces {
            self.create_namespace(&name, &format!("{name}-{number}")).await?;
        }
        Ok(())
    }

    async fn create_namespace(&self, tenant: &str, name: &str) -> Result<()> {
        let metadata = json!({ "name": name, "labels": { TENANT_LABEL: tenant } });
        let namespace = serde_json::from_value(json!({ "metadata": metadata }))?;
        let namespaces = Api::<Namespace>::all(self.owner.clone());
        namespaces.create(&PostParams::default(), &namespace).await.context("cannot create a namespace")?;
        Ok(())
    }

    /// Changes one Tenant repeatedly, and prints the time until its namespace changes and the CPU
    /// time.
    async fn change_tenant(&self, tenant_count: usize) -> Result<()> {
        let config = watcher::Config::default().labels(TENANT_LABEL);
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        let mut applied = pin!(watcher(namespaces, config).applied_objects().boxed());
        let tenants = Api::<Tenant>::all(self.admin.clone());
        let baseline = self.baseline_millicores().await?;
        let (spent, began, mut times) = (cpu(self.manager)?, Instant::now(), Vec::new());
        for number in 0..CHANGES {
            let (name, value) = (tenant_name(0), format!("{tenant_count}-{number}"));
            let change = json!({ "spec": { "nodeSelector": { "pool": value } } });
            let began = Instant::now();
            tenants.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
            let (first, expected) = (format!("{name}-0"), format!("pool={value}"));
            loop {
                let namespace = applied.try_next().await?.context("the watch has ended")?;
                let selector = namespace.annotations().get(NODE_SELECTOR);
                if namespace.name_any() == first && selector == Some(&expected) {
                    break;
                }
            }
            times.push(began.elapsed());
        }
        wait_until_idle(&self.cluster, Duration::from_secs(5)).await?;
        let spent = figures::milliseconds(cpu(self.manager)?.saturating_sub(spent));
        let background = baseline * began.elapsed().as_secs_f64();
        let spent = (spent - background).max(0.0) / figures::count(CHANGES);
        times.sort();
        let label = format!("change of one of {tenant_count} Tenants");
        figures::print(&format!("{label}, to its namespace, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{label}, CPU time"), spent, "ms");
        Ok(())
    }

    /// Returns the CPU usage without changes by this benchmark, which includes those of Kubernetes'
    /// controllers.
    async fn baseline_millicores(&self) -> Result<f64> {
        let (spent, began) = (cpu(self.manager)?, Instant::now());
        tokio::time::sleep(BASELINE).await;
        let spent = figures::milliseconds(cpu(self.manager)?.saturating_sub(spent));
        Ok(spent / began.elapsed().as_secs_f64())
    }
}

fn tenant_name(number: usize) -> String {
    format!("many-{number}")
}

fn tenant(name: &str) -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "metadata": { "name": name },
        "spec": {
            "owners": [{ "kind": "User", "name": OWNER }],
            "nodeSelector": { "pool": "many" },
            "limitRanges": { "items": [{
                "limits": [{ "type": "Container", "default": { "cpu": "200m", "memory": "256Mi" } }],
            }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
            "resourceQuotas": { "scope": "Namespace", "items": [{ "hard": { "pods": "10" } }] },
        },
    })
}

fn ratio(count: usize, minimum: usize) -> f64 {
    figures::count(count) / figures::count(minimum)
}
