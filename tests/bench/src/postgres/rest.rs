//! What a PostgresCluster at rest costs.

use std::time::{Duration, Instant};

use anyhow::Result;
use cluster::{
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

/// Prints the memory and the CPU time of the members, and all requests about a cluster.
pub(crate) async fn measure(env: &TestEnv, kubelet: &Kubelet, seconds: u64) -> Result<()> {
    wait_until_idle(env.cluster, IDLE).await?;
    let spent = |member: &Member| -> Result<Duration> { cpu(processes::instance_pid(member.folder())?) };
    let before = kubelet.members.iter().map(spent).collect::<Result<Vec<_>>>()?;
    let (mark, began) = (env.cluster.audit_mark()?, Instant::now());
    sleep(Duration::from_secs(seconds)).await;
    let took = began.elapsed();
    for (member, before) in kubelet.members.iter().zip(before) {
        let label = format!("instance manager of {} at rest", member.name);
        figures::print(
            &format!("{label}, memory"),
            resident(processes::instance_pid(member.folder())?)?,
            "MiB",
        );
        print_cpu(&label, spent(member)?.saturating_sub(before), took);
    }
    let namespace = kubelet.namespace.name();
    let accounts = format!("system:serviceaccount:{namespace}:");
    let members = env.cluster.audit_since(mark)?.filter(|entry| entry.user.starts_with(&accounts));
    print_requests("members", &members, took);
    let manager = manager_requests(env.cluster, mark)?;
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
