//! A failover that another replica of the manager begins.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use postgres_processes::{Database, Member};
use serde_json::json;

use crate::controller::{Controller, Standby, control_plane};

/// Duration of the Lease.
const LEASE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn new_leader_does_not_wait_for_a_lease_that_has_expired() {
    let (cluster, mut kubelet) = control_plane().await.unwrap();
    kubelet.lease_seconds = LEASE.as_secs();
    let leader = Controller::start(cluster).await.unwrap();
    let standby = Standby::start(cluster).await.unwrap();
    let mut database = Database::on(kubelet, json!({"size": 3})).await.unwrap();
    database.until_complete().await.unwrap();
    leader.kill();
    database.kubelet.members[0].api.cut();
    let leases = database.kubelet.api::<Lease>();
    let (mut last, mut changed) = (None, Instant::now());
    let has_expired = async |_: &[Member]| {
        let version = leases.get("db").await?.resource_version();
        if version != last {
            (last, changed) = (version, Instant::now());
        }
        Ok(if changed.elapsed() >= LEASE { Ok(()) } else { Err(changed.elapsed()) })
    };
    database.kubelet.until("the Lease to expire", has_expired).await.unwrap();
    database.look().await.unwrap();
    assert_eq!(database.status.primary.epoch, 1);

    let _leader = standby.lead().unwrap();
    let leads = Instant::now();
    database.until_epoch(2).await.unwrap();
    let took = leads.elapsed();
    assert!(took < LEASE, "the failover took {took:?}");
    assert_ne!(database.status.primary.current, "db-1");
}
