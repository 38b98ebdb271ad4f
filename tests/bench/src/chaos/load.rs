//! Transactions a second through the Services, beside a PostgreSQL without an instance manager.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use cluster::wait::eventually;
use serde_json::json;

use super::shop::{NAMESPACE, Shop};
use crate::{
    figures,
    postgres::{
        pgbench::{RUN, rate},
        throughput::{median, print_rates},
    },
};

#[derive(Args)]
pub(crate) struct Load {
    /// Number of runs of pgbench for each database on real nodes
    #[arg(long = "chaos-pgbench-runs", value_name = "RUNS", default_value_t = 3)]
    pgbench_runs: usize,
}

/// Duration of a run in seconds.
const SECONDS: &str = "30";
/// Scale of the tables: a million rows.
const SCALE: &str = "10";
/// How long a database may take until it answers by its name.
const PATIENCE: Duration = Duration::from_mins(3);

/// A cluster of a single member, and a Pod with `pgbench` on another node. PostgreSQL alone is on the node of the
/// member.
const MANIFEST: &str = "
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: single, namespace: chaos}
spec:
  size: 1
  version: 15
  nodeSelector: {kubernetes.io/hostname: worker-1}
  storage: {size: 1Gi}
  resources: {limits: {memory: 512Mi}, requests: {cpu: 100m, memory: 256Mi}}
  networkPolicy: {clients: [{podSelector: {}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: chaos}
spec:
  nodeSelector: {kubernetes.io/hostname: worker-0}
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: pgbench
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      image: postgres:15
      command: [sleep, infinity]
      env:
        # PostgreSQL alone has no certificate.
        - {name: PGSSLMODE, value: disable}
        - {name: THREE, valueFrom: {secretKeyRef: {name: shop-app, key: uri}}}
        - {name: SINGLE, valueFrom: {secretKeyRef: {name: single-app, key: uri}}}
        - {name: ALONE, value: 'postgresql://postgres@alone/postgres'}
";

/// Creates a database as a member does, and runs PostgreSQL with the settings of one. The last value of a
/// parameter counts.
const ALONE: &str = "
initdb --username=postgres --auth=trust --data-checksums --encoding=UTF8 --locale=C.UTF-8 --pgdata=/data/database
echo 'host all all all trust' >> /data/database/pg_hba.conf
{
  cat /settings/postgresql.conf
  echo \"listen_addresses = '*'\"
  echo \"hba_file = '/data/database/pg_hba.conf'\"
  echo \"ident_file = '/data/database/pg_ident.conf'\"
  echo 'ssl = off'
} > /data/database/postgresql.conf
exec postgres -D /data/database
";

/// A database.
struct Database {
    label: &'static str,
    /// The variable of the client that has its address.
    address: &'static str,
    /// Pod of the server that commits.
    pod: String,
    rates: Vec<f64>,
}

impl Load {
    /// Prints the rates of PostgreSQL alone, of a single member, and of the cluster.
    pub(super) async fn measure(&self, shop: &Shop) -> Result<()> {
        if self.pgbench_runs == 0 {
            return Ok(());
        }
        shop.cluster.apply_yaml(MANIFEST).await?;
        shop.run(&["wait", "--for=condition=Ready", "pgc/single", "--timeout=180s"]).await?;
        let primary = "jsonpath={.status.primary.current}";
        let member = shop.run(&["get", "pgc", "single", "--output", primary]).await?;
        start_alone(shop, &member).await?;
        shop.run(&["wait", "--for=condition=Ready", "pod/client", "pod/alone", "--timeout=180s"]).await?;
        let database = |label, address, pod| Database { label, address, pod, rates: Vec::new() };
        let mut alone = database("pgbench, PostgreSQL alone", "ALONE", "alone".to_owned());
        let mut single = database("pgbench, a single member", "SINGLE", member);
        let mut three = database("pgbench, three members", "THREE", shop.primary().await?);
        let mut databases = [&mut alone, &mut single, &mut three];
        for database in &databases {
            database.initialize(shop).await?;
        }
        for _ in 0..self.pgbench_runs {
            for database in &mut databases {
                database.run(shop).await?;
            }
            // Another one is the first, so that a drift of the machine cancels out.
            databases.rotate_left(1);
        }
        for database in [&mut alone, &mut single, &mut three] {
            print_rates(database.label, &mut database.rates);
        }
        let ratio = |database: &Database| median(&database.rates) / median(&alone.rates) * 100.0;
        figures::print("  a single member relative to PostgreSQL alone", ratio(&single), "%");
        figures::print("  three members relative to PostgreSQL alone", ratio(&three), "%");
        let all = ["delete", "pgc/single", "pod/client", "pod/alone", "service/alone", "configmap/alone"];
        shop.run(&all).await.map(drop)
    }
}

impl Database {
    /// Creates the tables. The names of Services may not be known at once.
    async fn initialize(&self, shop: &Shop) -> Result<()> {
        let initialize = async || {
            let initialized = self.pgbench(shop, &["--initialize", "--quiet", "--scale", SCALE]).await;
            Ok(initialized.map_err(|error| format!("{error:#}")))
        };
        eventually("the tables of pgbench to be created", PATIENCE, initialize).await.map(drop)
    }

    /// Measures the transactions that the server commits in a second.
    async fn run(&mut self, shop: &Shop) -> Result<()> {
        let server = ["exec", &self.pod, "--container=postgres", "--"];
        let psql =
            ["psql", "--no-psqlrc", "--username=postgres", "--dbname=postgres", "--command=CHECKPOINT"];
        shop.run(&[&server[..], &psql[..]].concat()).await?;
        let output = self.pgbench(shop, &[&RUN[..], &["--time", SECONDS]].concat()).await?;
        self.rates.push(rate(&output).context(self.label)?);
        Ok(())
    }

    async fn pgbench(&self, shop: &Shop, args: &[&str]) -> Result<String> {
        let command = format!("pgbench {} \"${}\"", args.join(" "), self.address);
        shop.run(&["exec", "client", "--", "bash", "-c", &command]).await
    }
}

/// Starts PostgreSQL with the settings of a member.
async fn start_alone(shop: &Shop, member: &str) -> Result<()> {
    let settings = ["exec", member, "--container=postgres", "--", "cat", "/var/lib/ensemble/postgresql.conf"];
    let settings = shop.run(&settings).await?;
    let metadata = json!({"name": "alone", "namespace": NAMESPACE, "labels": {"app": "alone"}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "worker-1"},
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 999, "fsGroup": 999, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "postgres", "image": "postgres:15", "command": ["bash", "-ec", ALONE],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "256Mi"}},
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"}, {"name": "settings", "mountPath": "/settings"},
                ],
            }],
            "volumes": [
                {"name": "data", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "alone"}},
            ],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"selector": {"app": "alone"}, "ports": [{"port": 5432}]},
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"postgresql.conf": settings},
    });
    let all = json!({"apiVersion": "v1", "kind": "List", "items": [settings, service, pod]});
    shop.cluster.apply_yaml(&all.to_string()).await.map(drop)
}
