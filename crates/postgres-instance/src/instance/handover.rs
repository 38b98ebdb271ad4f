//! The end of a primary whose Pod ends while the cluster goes on.
//!
//! Until all nodes route the Service to the next primary, new connections arrive at the former one. It refuses them as
//! long as its Pod has an address. Afterwards nobody answers, which a client notices only when it gives up.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::info;

use crate::cluster::{Cluster, MemberCluster};

/// How long a former primary waits for its successor.
const SUCCESSION: Duration = Duration::from_secs(5);
/// How long it stays then. `kube-proxy` follows the Service after up to one second.
const ROUTES: Duration = Duration::from_secs(2);

/// Waits until another member is the primary instead of this one, and nodes route the Service there. Returns at once
/// if none can follow, and after [`SUCCESSION`] if none does.
pub(super) async fn wait_for_successor(
    clusters: &mut watch::Receiver<Option<Cluster>>,
    uid: &str,
    member: &str,
) {
    let is_decided =
        |cluster: &Option<Cluster>| succession(cluster.as_ref(), uid, member) != Succession::Open;
    // What counts is who is the primary when the wait ends.
    _ = timeout(SUCCESSION, clusters.wait_for(is_decided)).await;
    let succession = succession(clusters.borrow().as_ref(), uid, member);
    if let Succession::Done(primary) = succession {
        info!(primary, "another member is the primary; refusing connections until the Service leads there");
        sleep(ROUTES).await;
    }
}

/// Who follows a primary that has ended.
#[derive(Debug, PartialEq, Eq)]
enum Succession {
    /// Nobody: the cluster is deleted, all of its members stop, or it has no other member.
    None,
    /// A member that is not the primary yet.
    Open,
    /// This member is the primary.
    Done(String),
}

fn succession(cluster: Option<&Cluster>, uid: &str, member: &str) -> Succession {
    let lasting = cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let Some(cluster) = lasting.and_then(|cluster| MemberCluster::new(cluster, uid, member)) else {
        return Succession::None;
    };
    match cluster.view.confirmed_primary() {
        Some(primary) if primary != member => Succession::Done(primary.clone()),
        _ if cluster.view.fencing && !cluster.view.fenced => Succession::Open,
        _ => Succession::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(change: impl FnOnce(&mut Value)) -> Cluster {
        let mut cluster = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
            "metadata": {"name": "db", "namespace": "default", "uid": "u"},
            "spec": {"size": 2},
            "status": {
                "instances": [{"name": "db-1"}, {"name": "db-2"}],
                "primary": {"current": "db-1", "target": "db-1", "epoch": 1},
            },
        });
        change(&mut cluster);
        serde_json::from_value(cluster).unwrap()
    }

    fn of(change: impl FnOnce(&mut Value)) -> Succession {
        succession(Some(&cluster(change)), "u", "db-1")
    }

    #[test]
    fn successor_is_awaited_until_it_is_the_primary() {
        assert_eq!(of(|_| {}), Succession::Open);
        assert_eq!(of(|it| it["status"]["primary"]["target"] = "db-2".into()), Succession::Open);
        let primary = json!({"current": "db-2", "target": "db-2", "epoch": 2});
        assert_eq!(of(|it| it["status"]["primary"] = primary), Succession::Done("db-2".to_owned()));
    }

    #[test]
    fn nobody_is_awaited_if_the_cluster_ends_or_has_no_other_member() {
        assert_eq!(succession(None, "u", "db-1"), Succession::None);
        assert_eq!(of(|it| it["metadata"]["uid"] = "other".into()), Succession::None);
        assert_eq!(
            of(|it| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()),
            Succession::None
        );
        assert_eq!(of(|it| it["spec"]["hibernated"] = true.into()), Succession::None);
        let alone = |it: &mut Value| {
            it["spec"]["size"] = 1.into();
            it["status"]["instances"] = json!([{"name": "db-1"}]);
        };
        assert_eq!(of(alone), Succession::None);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_without_a_successor() {
        let (_sender, mut clusters) = watch::channel(Some(cluster(|_| {})));
        let start = tokio::time::Instant::now();
        wait_for_successor(&mut clusters, "u", "db-1").await;
        assert_eq!(start.elapsed(), SUCCESSION);
    }
}
