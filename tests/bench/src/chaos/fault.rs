//! The faults.

use std::{fmt, time::Duration};

use anyhow::Result;
use clap::ValueEnum;
use cluster::real_nodes::NodeProgram;
use fastrand::Rng;
use manager::NAMESPACE;
use tokio::time::sleep;

use super::shop::Shop;

/// A fault, which is repaired after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Fault {
    DeletedPrimary,
    DeletedStandby,
    KilledPostgres,
    ExhaustedMemory,
    Partition,
    PowerLoss,
    KilledKubelet,
    KilledContainerd,
    Drain,
    Switchover,
    ReplacedManager,
    Hibernation,
}

/// How long a fault lasts, in seconds. The default Lease lasts 15 s.
const LASTS: std::ops::RangeInclusive<u64> = 5..=40;

/// Kills all processes of PostgreSQL, and not the instance manager.
const KILL: &str = "for process in /proc/[0-9]*; do [ \"$(cat $process/comm)\" = postgres ] && kill -9 ${process#/proc/}; done; true";

impl Fault {
    /// Chooses one of these faults, or any fault if there are none.
    pub(super) fn choose(among: &[Self], rng: &mut Rng) -> Self {
        let among = if among.is_empty() { Self::value_variants() } else { among };
        // There is at least one fault.
        rng.choice(among).copied().unwrap_or(Self::DeletedPrimary)
    }

    /// Injects the fault, and repairs it after a while. Returns what it was about.
    pub(super) async fn strike(self, shop: &Shop, rng: &mut Rng) -> Result<String> {
        let lasts = Duration::from_secs(rng.u64(LASTS));
        let (primary, member) = (shop.primary().await?, shop.member(rng.usize(..)).await?);
        match self {
            Self::DeletedPrimary => shop.run(&["delete", "pod", &primary]).await?,
            Self::DeletedStandby => {
                let standby = shop.standby().await?;
                shop.run(&["delete", "pod", &standby]).await?;
                return Ok(standby);
            }
            Self::KilledPostgres => match shop.run(&["exec", &primary, "--", "bash", "-c", KILL]).await {
                // The instance manager kills all processes once PostgreSQL has ended, also this command.
                Err(error) if format!("{error:#}").contains("exit code 137") => primary.clone(),
                result => result?,
            },
            Self::ExhaustedMemory => {
                // The kernel kills this command, or the container with it. Both end it with an error.
                let _ = shop.run(&["exec", &primary, "--", "tail", "/dev/zero"]).await;
                primary.clone()
            }
            Self::Partition => {
                let node = shop.node(&primary).await?;
                shop.cluster.cut_node(&node)?;
                sleep(lasts).await;
                shop.cluster.heal_node(&node)?;
                return Ok(for_a_while(&node, &primary, lasts));
            }
            Self::PowerLoss => {
                let node = shop.node(&member).await?;
                shop.cluster.power_off_node(&node)?;
                sleep(lasts).await;
                shop.cluster.power_on_node(&node)?;
                return Ok(for_a_while(&node, &member, lasts));
            }
            Self::KilledKubelet | Self::KilledContainerd => {
                let is_kubelet = matches!(self, Self::KilledKubelet);
                let program = if is_kubelet { NodeProgram::Kubelet } else { NodeProgram::Containerd };
                let node = shop.node(&primary).await?;
                shop.cluster.kill_on_node(&node, program)?;
                sleep(lasts).await;
                shop.cluster.start_on_node(&node, program)?;
                return Ok(for_a_while(&node, &primary, lasts));
            }
            Self::Drain => {
                let node = shop.node(&member).await?;
                let members = "--pod-selector=lukeb0nd.com/cluster=shop";
                shop.run(&["drain", &node, "--delete-emptydir-data", "--timeout=180s", members]).await?;
                shop.run(&["uncordon", &node]).await?;
                return Ok(format!("{node} with {member}"));
            }
            Self::Switchover => {
                shop.run(&["annotate", "pgc", "shop", "lukeb0nd.com/switchover=any"]).await?;
                shop.until_other_primary(&primary).await?
            }
            Self::ReplacedManager => {
                let manager = ["--namespace", NAMESPACE, "rollout"];
                let deployment = "deployment/ensemble-manager";
                shop.cluster.kubectl(&[&manager[..], &["restart", deployment]].concat()).await?;
                shop.cluster
                    .kubectl(&[&manager[..], &["status", deployment, "--timeout=180s"]].concat())
                    .await?
            }
            Self::Hibernation => {
                shop.patch(r#"{"spec": {"hibernated": true}}"#).await?;
                let phase = "--for=jsonpath={.status.phase}=Hibernated";
                shop.run(&["wait", phase, "pgc/shop", "--timeout=180s"]).await?;
                sleep(lasts).await;
                shop.patch(r#"{"spec": {"hibernated": false}}"#).await?;
                return Ok(format!("all members for {} s", lasts.as_secs()));
            }
        };
        Ok(primary)
    }
}

fn for_a_while(node: &str, member: &str, lasts: Duration) -> String {
    format!("{node} with {member} for {} s", lasts.as_secs())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeletedPrimary => "deletion of the primary's Pod",
            Self::DeletedStandby => "deletion of a standby's Pod",
            Self::KilledPostgres => "SIGKILL to PostgreSQL",
            Self::ExhaustedMemory => "exhaustion of the memory",
            Self::Partition => "partition of the primary's node",
            Self::PowerLoss => "power loss",
            Self::KilledKubelet => "SIGKILL to the kubelet",
            Self::KilledContainerd => "SIGKILL to containerd",
            Self::Drain => "drain",
            Self::Switchover => "switchover",
            Self::ReplacedManager => "replacement of the manager",
            Self::Hibernation => "hibernation",
        })
    }
}
