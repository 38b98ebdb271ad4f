//! Tenants: what many of them cost, how soon a new namespace is complete, and what a change of one costs beside many.

use std::{
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options, wait::eventually};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tenant::Tenant;

use super::{
    PATIENCE, figures,
    support::{asked, besides_upkeep, counted, until_silent},
    world::{Seen, has, is_ready},
};
use crate::{
    process::{cpu, peak, resident},
    stage::start_asked_manager,
};

#[derive(Args)]
pub(super) struct Tenants {
    /// How many Tenants, of three namespaces each, are made at once
    #[arg(long = "tenants", value_name = "TENANTS", default_value_t = 200)]
    many: usize,

    /// How many more namespaces the owner creates then, one after the other
    #[arg(long, default_value_t = 50)]
    namespaces: usize,

    /// Beside how many Tenants a change of one is measured again
    #[arg(long, default_value_t = 1000)]
    beside: usize,
}

/// Namespaces of each Tenant.
const EACH: usize = 3;
/// What is made in each namespace: two RoleBindings, and one each of LimitRange, NetworkPolicy and ResourceQuota.
const CHILDREN: usize = 5;
/// What is written of each Tenant at least: its finalizer, its owners before there can be a namespace, and what it has.
const OF_TENANT: usize = 3;
/// The RoleBindings of a namespace, which come last.
const BINDINGS: usize = 2;
/// Requests in flight while the Tenants are made.
const AT_ONCE: usize = 16;
/// Changes of one Tenant.
const CHANGES: usize = 20;
/// How long it is listened to what the manager spends without them.
const AT_REST: Duration = Duration::from_secs(10);

const OWNER: &str = "alice";
const GROUP: &str = "projectcapsule.dev";
const TENANT_LABEL: &str = "capsule.clastix.io/tenant";
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// A cluster, its administrator, and an owner of Tenants.
struct World {
    cluster: Cluster,
    manager: u32,
    admin: Client,
    owner: Client,
}

impl Tenants {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_asked_manager(&cluster, program).await?;
        let (admin, owner) = (cluster.client().await?, cluster.client_as(OWNER, &[GROUP]).await?);
        let world = World { cluster, manager: running.pid(), admin, owner };
        world.until_owner_may_begin().await?;
        self.all_at_once(&world).await?;
        self.one_by_one(&world).await?;
        world.changes(self.many).await?;
        if self.beside > self.many {
            world.make(self.many..self.beside, 1).await?;
            until_silent(&world.cluster, Duration::from_secs(5)).await?;
            world.changes(self.beside).await?;
            figures::print(&format!("memory, {} Tenants", self.beside), resident(world.manager)?, "MiB");
        }
        running.stop()?;
        world.cluster.stop()
    }

    /// All Tenants and their namespaces at once.
    async fn all_at_once(&self, world: &World) -> Result<()> {
        let (mark, began) = (world.cluster.audit_mark()?, Instant::now());
        world.make(0..self.many, EACH).await?;
        let took = began.elapsed();
        until_silent(&world.cluster, Duration::from_secs(5)).await?;
        let requests = besides_upkeep(asked(&world.cluster, mark)?);
        let least = self.many * (EACH * CHILDREN + OF_TENANT);
        let what = format!("{} Tenants of {EACH} namespaces", self.many);
        figures::print(&format!("{what}, until all are ready"), took.as_secs_f64(), "s");
        figures::print("requests, of the least possible", share(requests.entries.len(), least), "times");
        println!("requests, where {least} are the least: {:?}", counted(&requests));
        figures::print(&format!("memory, {what}, peak"), peak(world.manager)?, "MiB");
        Ok(())
    }

    /// Namespaces that the owner creates, one after the other.
    async fn one_by_one(&self, world: &World) -> Result<()> {
        let bindings = Api::<RoleBinding>::all(world.admin.clone());
        let config = watcher::Config::default().labels("projectcapsule.dev/managed-by=controller");
        let mut seen = pin!(watcher(bindings, config).applied_objects().boxed());
        let mut times = Vec::new();
        for number in 0..self.namespaces {
            let tenant = tenant_name(number % self.many.max(1));
            let name = format!("{tenant}-more-{number}");
            let began = Instant::now();
            world.create_namespace(&tenant, &name).await?;
            let mut there = 0;
            while there < BINDINGS {
                let binding = seen.try_next().await?.context("the watch has ended")?;
                there += usize::from(binding.namespace().as_deref() == Some(&name));
            }
            times.push(began.elapsed());
        }
        times.sort();
        let what = "namespace created by an owner to complete";
        figures::print(&format!("{what}, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{what}, 99th percentile"), figures::percentile(&times, 99), "ms");
        Ok(())
    }
}

impl World {
    /// Waits until the manager has given the owners what they need to create namespaces.
    async fn until_owner_may_begin(&self) -> Result<()> {
        let ask = ["auth", "can-i", "create", "namespaces", "--as", OWNER, "--as-group", GROUP];
        eventually("owners to have the right to create namespaces", PATIENCE, async || {
            Ok(self.cluster.kubectl(&ask).await.is_ok_and(|said| said.trim() == "yes"))
        })
        .await
    }

    /// Creates Tenants with so many namespaces each, and waits until all of them are ready.
    async fn make(&self, numbers: std::ops::Range<usize>, each: usize) -> Result<()> {
        let (first, count) = (numbers.start, numbers.len());
        let created = stream::iter(numbers).map(|number| self.create_tenant(tenant_name(number), each));
        created.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let tenants = Api::<Seen>::all_with(self.admin.clone(), &ApiResource::erase::<Tenant>(&()));
        eventually("all Tenants to be ready", PATIENCE, async || {
            let list = tenants.list(&ListParams::default()).await?;
            let ready = list
                .iter()
                .filter(|tenant| has(tenant, |status| status.size >= each && is_ready(status)))
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

    /// Changes one Tenant after the other: how long until its namespace shows it, and what it costs the manager.
    async fn changes(&self, beside: usize) -> Result<()> {
        let config = watcher::Config::default().labels(TENANT_LABEL);
        let namespaces = Api::<Namespace>::all(self.admin.clone());
        let mut seen = pin!(watcher(namespaces, config).applied_objects().boxed());
        let tenants = Api::<Tenant>::all(self.admin.clone());
        let at_rest = self.millicores_at_rest().await?;
        let (spent, began, mut times) = (cpu(self.manager)?, Instant::now(), Vec::new());
        for number in 0..CHANGES {
            let (name, value) = (tenant_name(0), format!("{beside}-{number}"));
            let change = json!({ "spec": { "nodeSelector": { "pool": value } } });
            let began = Instant::now();
            tenants.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
            let (first, shown) = (format!("{name}-0"), format!("pool={value}"));
            loop {
                let namespace = seen.try_next().await?.context("the watch has ended")?;
                let says = namespace.annotations().get(NODE_SELECTOR);
                if namespace.name_any() == first && says == Some(&shown) {
                    break;
                }
            }
            times.push(began.elapsed());
        }
        until_silent(&self.cluster, Duration::from_secs(5)).await?;
        let spent = figures::milliseconds(cpu(self.manager)?.saturating_sub(spent));
        let besides = at_rest * began.elapsed().as_secs_f64();
        let spent = (spent - besides).max(0.0) / figures::count(CHANGES);
        times.sort();
        let what = format!("change of one of {beside} Tenants");
        figures::print(&format!("{what}, to its namespace, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{what}, processor time"), spent, "ms");
        Ok(())
    }

    /// What the manager spends while nobody changes anything: Kubernetes' own controllers still may.
    async fn millicores_at_rest(&self) -> Result<f64> {
        let (spent, began) = (cpu(self.manager)?, Instant::now());
        tokio::time::sleep(AT_REST).await;
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

fn share(count: usize, least: usize) -> f64 {
    figures::count(count) / figures::count(least)
}
