//! A PostgresCluster whose members run in containers, and an application that connects to it as the
//! documentation says.

use std::{collections::BTreeSet, time::Instant};

use cluster::wait::eventually;

use crate::{
    manager::install,
    rollout::replace_pods,
    support::{Kubectl, NODES, PATIENCE, exclusive, shared},
};

const MANIFEST: &str = "
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: shop, namespace: NAMESPACE}
spec:
  size: 3
  version: 15
  antiAffinity: true
  storage: {size: 256Mi}
  bootstrap: {initdb: {database: shop, owner: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: application, namespace: NAMESPACE}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: psql
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      image: postgres:15
      command: [sleep, '3600']
      env:
        - name: DATABASE_URL
          valueFrom: {secretKeyRef: {name: shop-app, key: uri}}
";

/// Writes rows one after the other, and notes the number and the time in microseconds of each that was
/// acknowledged.
const WRITE: &str = r#"
number=0
while sleep 0.05; do
  number=$((number + 1))
  PGCONNECT_TIMEOUT=2 psql "$DATABASE_URL" --no-psqlrc --quiet -c "insert into orders values ($number)" 2> /dev/null &&
    echo "$number ${EPOCHREALTIME/[^0-9]/}" >> /tmp/acknowledged
done"#;

/// A role that reads all tables, and an extension.
const ROLES: &str = r#"{"spec": {
    "roles": [{"name": "reporting", "login": true, "memberOf": ["pg_read_all_data"]}],
    "databases": [{"name": "shop", "extensions": [{"name": "pg_trgm"}]}]
}}"#;

impl Kubectl {
    async fn patch_shop(&self, patch: &str) {
        self.args(&["patch", "pgc", "shop", "--type=merge", "--patch", patch]).await.unwrap();
    }

    /// Creates a cluster of three members on three nodes, and an application that connects to it.
    async fn create_shop(&self) {
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        self.args(&["label", "namespace", self.namespace.name(), restricted]).await.unwrap();
        let created = Instant::now();
        self.apply(MANIFEST).await;
        self.until_complete().await;
        println!("three members are ready after {:.1} s", created.elapsed().as_secs_f64());
        self.ready("application").await;
        self.sql("create table orders (number integer primary key)").await.unwrap();
    }

    /// Runs a statement as the application does: through the Service of the primary, with the Secret.
    async fn sql(&self, statement: &str) -> anyhow::Result<String> {
        let script = format!(
            "PGCONNECT_TIMEOUT=10 psql \"$DATABASE_URL\" --no-psqlrc --tuples-only --no-align --quiet -c \"{statement}\""
        );
        Ok(self.exec("application", &script).await?.trim().to_owned())
    }

    /// Runs a statement until it succeeds.
    async fn eventually_sql(&self, statement: &str) -> String {
        eventually(statement, PATIENCE, async || {
            Ok(self.sql(statement).await.map_err(|error| format!("{error:#}")))
        })
        .await
        .unwrap()
    }

    /// Reads the metrics of a member as Prometheus does: at the address of its Pod.
    async fn metrics(&self, member: &str) -> String {
        let address = self.run(&format!("get pod {member} -o jsonpath={{.status.podIP}}")).await.unwrap();
        let script = format!(
            "exec 3<>/dev/tcp/{address}/9187; \
             printf 'GET /metrics HTTP/1.1\\r\\nHost: member\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
        );
        self.args(&["exec", "application", "--", "bash", "-c", &script]).await.unwrap()
    }

    /// Returns the UID and the restarts of each member.
    async fn uids_and_restarts(&self) -> String {
        let fields = "{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}";
        let output = format!("jsonpath={{range .items[*]}}{fields}{{end}}");
        let members = ["get", "pods", "--selector=lukeb0nd.com/cluster=shop", "--output", &output];
        self.args(&members).await.unwrap()
    }

    /// Waits until the writer has more rows acknowledged.
    async fn until_written(&self) {
        let count = async || -> anyhow::Result<usize> {
            let count = self.exec("application", "cat /tmp/acknowledged 2> /dev/null | wc -l").await?;
            Ok(count.trim().parse()?)
        };
        let before = count().await.unwrap();
        let written = async || Ok(count().await? > before);
        eventually("more rows to be acknowledged", PATIENCE, written).await.unwrap();
    }

    async fn primary(&self) -> String {
        self.run("get pgc shop -o jsonpath={.status.primary.current}").await.unwrap()
    }

    async fn until_complete(&self) {
        self.run("wait --for=condition=Ready pgc/shop --timeout=180s").await.unwrap();
        self.until("get pgc shop -o jsonpath={.status.readyMembers}", |ready| ready == "3").await;
        self.run("wait --for=condition=DataSafe pgc/shop --timeout=60s").await.unwrap();
    }
}

#[tokio::test]
async fn rows_survive_the_deletion_of_the_primary() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "shop").await;
    kubectl.create_shop().await;

    kubectl.sql("insert into orders values (1)").await.unwrap();
    kubectl.patch_shop(ROLES).await;
    let primary = kubectl.primary().await;
    let deleted = Instant::now();
    kubectl.run(&format!("delete pod {primary} --wait=false")).await.unwrap();
    // Until the kubelet stops the old primary, writes work there, too.
    kubectl
        .until("get pgc shop -o jsonpath={.status.primary.current}", |current| {
            !current.is_empty() && current != primary
        })
        .await;
    kubectl.eventually_sql("insert into orders values (2) on conflict do nothing").await;
    println!("the new primary accepts writes {:.1} s after the deletion", deleted.elapsed().as_secs_f64());
    let rows = kubectl.eventually_sql("select string_agg(number::text, ' ') from orders").await;
    assert_eq!(rows, "1 2");
    kubectl.until_complete().await;
    println!("three members are ready again after {:.1} s", deleted.elapsed().as_secs_f64());
    let metrics = kubectl.metrics(&primary).await;
    for expected in ["_up 1.0", "_role{role=\"Standby\"} 1.0", "_replay_lag_bytes "] {
        assert!(metrics.contains(&format!("\nensemble_postgres{expected}")), "{expected}\n{metrics}");
    }

    // The standbys have the rows too.
    let read = "PGCONNECT_TIMEOUT=10 psql \"${DATABASE_URL/-rw./-ro.}\" -Atqc 'select count(*) from orders'";
    let read = ["exec", "application", "--", "bash", "-c", read];
    assert_eq!(kubectl.args(&read).await.unwrap().trim(), "2");

    // The kubelets have given the password of the new role to the members meanwhile.
    kubectl.run("wait --for=condition=DatabasesApplied pgc/shop --timeout=180s").await.unwrap();
    let uri = "get secret shop-role-reporting -o go-template={{.data.uri|base64decode}}";
    let uri = kubectl.run(uri).await.unwrap();
    let query = "select count(*) from orders where similarity('a', 'a') = 1";
    let read = format!("PGCONNECT_TIMEOUT=10 psql '{uri}' -Atqc \"{query}\"");
    assert_eq!(kubectl.exec("application", &read).await.unwrap().trim(), "2");

    kubectl.patch_shop(r#"{"spec": {"hibernated": true}}"#).await;
    kubectl.run("wait --for=jsonpath={.status.phase}=Hibernated pgc/shop --timeout=180s").await.unwrap();
    let pods = "get pods --selector=lukeb0nd.com/cluster=shop -o name";
    assert_eq!(kubectl.run(pods).await.unwrap(), "");
    let woken = Instant::now();
    kubectl.patch_shop(r#"{"spec": {"hibernated": false}}"#).await;
    let rows = kubectl.eventually_sql("select string_agg(number::text, ' ') from orders").await;
    println!("a hibernated cluster answers {:.1} s after it wakes", woken.elapsed().as_secs_f64());
    assert_eq!(rows, "1 2");
    kubectl.until_complete().await;
}

#[tokio::test]
async fn upgrade_of_the_manager_and_drain_of_every_node_lose_no_row() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "drained-shop").await;
    kubectl.create_shop().await;
    kubectl.until_evictable("shop").await;
    let mut writer =
        kubectl.command().args(["exec", "application", "--", "bash", "-c", WRITE]).spawn().unwrap();
    // The Pods of the manager are replaced, as in an upgrade. No member restarts.
    kubectl.until_written().await;
    let members = kubectl.uids_and_restarts().await;
    assert_eq!(members.lines().count(), 3, "{members}");
    replace_pods(&kubectl).await;
    kubectl.until_complete().await;
    kubectl.until_written().await;
    assert_eq!(kubectl.uids_and_restarts().await, members);
    // A drain disrupts one member at a time.
    for node in NODES {
        let members = "--pod-selector=lukeb0nd.com/cluster=shop";
        kubectl.args(&["drain", node, "--delete-emptydir-data", "--timeout=120s", members]).await.unwrap();
        // The volume of its member is on this node.
        kubectl.run(&format!("uncordon {node}")).await.unwrap();
        kubectl.until_complete().await;
    }
    writer.kill().await.unwrap();

    let acknowledged = kubectl.exec("application", "cat /tmp/acknowledged").await.unwrap();
    let acknowledged: Vec<_> = acknowledged.lines().filter_map(|line| line.split_once(' ')).collect();
    let times: Vec<u64> = acknowledged.iter().map(|(_, time)| time.parse().unwrap()).collect();
    let pause = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    println!("{} rows acknowledged, at most {} ms without writes", acknowledged.len(), pause / 1_000);
    let rows = kubectl.sql("select string_agg(number::text, ' ') from orders").await.unwrap();
    let rows: BTreeSet<_> = rows.split(' ').collect();
    let lost: Vec<_> = acknowledged.iter().filter(|(number, _)| !rows.contains(number)).collect();
    assert_eq!(lost, [] as [&(&str, &str); 0]);
    assert!(acknowledged.len() > 10, "{acknowledged:?}");
    exclusive.repaired().await;
}
