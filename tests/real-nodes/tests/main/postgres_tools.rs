//! What `ensemblectl postgres` reads from containers: metrics, logs, and queries.

use std::process::Output;

use cluster::program::build_ensemblectl;
use tokio::process::Command;

use crate::{
    manager::install,
    support::{Kubectl, shared},
};

const MANIFEST: &str = "
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: single, namespace: NAMESPACE}
spec:
  size: 1
  version: 15
  storage: {size: 256Mi}
";

/// Runs `ensemblectl postgres`, which finds kubectl in the PATH.
async fn ctl(kubectl: &Kubectl, args: &[&str]) -> String {
    let program =
        tokio::task::spawn_blocking(|| build_ensemblectl(!cfg!(debug_assertions))).await.unwrap().unwrap();
    let folder = kubectl.cluster.record().kubectl().parent().unwrap().to_owned();
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubectl.cluster.kubeconfig()).env("PATH", folder).kill_on_drop(true);
    command.args(["postgres", "--namespace", kubectl.namespace.name()]).args(args);
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{args:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

#[tokio::test]
async fn operator_reads_status_and_logs_and_queries_the_database() {
    let shared = shared().await;
    install(shared.cluster).await;
    let kubectl = Kubectl::new(shared.cluster, "tools").await;
    kubectl.apply(MANIFEST).await;
    kubectl.run("wait --for=condition=Available pgc/single --timeout=180s").await.unwrap();

    let status = ctl(&kubectl, &["status", "single"]).await;
    assert!(status.contains("Primary:      single-1, epoch 1"), "{status}");
    // The timeline comes from the metrics of the member.
    let member = status.lines().find(|line| line.starts_with("single-1")).unwrap();
    assert!(member.contains("primary  True   1 "), "{status}");
    assert!(!status.contains("cannot be read"), "{status}");

    let query = "select current_user || ' of ' || current_database()";
    let answer = ctl(&kubectl, &["psql", "single", "--", "-Atqc", query]).await;
    assert_eq!(answer.trim(), "postgres of app");

    let logs = ctl(&kubectl, &["logs", "single"]).await;
    assert!(logs.contains("[single-1] ") && logs.contains("ready to accept connections"), "{logs}");
}
