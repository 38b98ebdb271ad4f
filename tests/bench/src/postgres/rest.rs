//! What a PostgresCluster at rest costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use cluster::{
    Cluster,
    audit::AuditLog,
    usage::{cpu, resident},
};
use postgres_processes::{Kubelet, Member};
use tokio::time::sleep;

use super::{environment::TestEnv, processes};
use crate::{
    figures,
    requests::{count_requests, manager_requests, wait_until_idle},
};

/// Time without a request of the manager after which a cluster is at rest.
const IDLE: Duration = Duration::from_secs(5);

/// A process whose memory and CPU time are printed.
pub(crate) struct Process {
    /// What it is.
    pub(crate) label: String,
    /// Process ID on this machine.
    pub(crate) pid: u32,
}

/// Prints the memory and the CPU time of the members, and all requests about a cluster.
pub(crate) async fn measure(env: &TestEnv, kubelet: &Kubelet, seconds: u64) -> Result<()> {
    let process = |member: &Member| -> Result<Process> {
        let label = format!("instance manager of {} at rest", member.name);
        Ok(Process { label, pid: processes::instance_pid(member.folder())? })
    };
    let processes = kubelet.members.iter().map(process).collect::<Result<Vec<_>>>()?;
    measure_processes(env.cluster, &processes, kubelet.namespace.name(), seconds).await
}

/// Waits until the manager is idle. Then prints the memory and the CPU time of processes, and the requests
/// about a namespace: those of its ServiceAccounts, and those of the manager.
pub(crate) async fn measure_processes(
    cluster: &Cluster,
    processes: &[Process],
    namespace: &str,
    seconds: u64,
) -> Result<()> {
    wait_until_idle(cluster, IDLE).await?;
    let before = processes.iter().map(|process| cpu(process.pid)).collect::<Result<Vec<_>>>()?;
    let (mark, began) = (cluster.audit_mark()?, Instant::now());
    sleep(Duration::from_secs(seconds)).await;
    let took = began.elapsed();
    for (Process { label, pid }, before) in processes.iter().zip(before) {
        figures::print(&format!("{label}, memory"), resident(*pid)?, "MiB");
        print_cpu(label, cpu(*pid)?.saturating_sub(before), took);
    }
    let accounts = format!("system:serviceaccount:{namespace}:");
    let members = cluster.audit_since(mark)?.filter(|entry| entry.user.starts_with(&accounts));
    print_requests("members", &members, took);
    let manager = manager_requests(cluster, mark)?;
    print_requests("manager about this cluster", &manager.in_namespace(namespace), took);
    Ok(())
}

/// Prints the CPU time of a process in relation to the time that has passed.
pub(crate) fn print_cpu(label: &str, spent: Duration, took: Duration) {
    let millicores = spent.as_secs_f64() / took.as_secs_f64() * 1000.0;
    figures::print(&format!("{label}, CPU"), millicores, "millicores");
}

fn print_requests(label: &str, log: &AuditLog, took: Duration) {
    let minutes = took.as_secs_f64() / 60.0;
    let (all, writes) = (log.entries.len(), log.entries.iter().filter(|entry| entry.is_write()).count());
    figures::print(&format!("requests of the {label}"), figures::count(all) / minutes, "a minute");
    figures::print("  of which writes", figures::count(writes) / minutes, "a minute");
    println!("  all in {:.0} s: {:?}", took.as_secs_f64(), count_requests(log));
}
