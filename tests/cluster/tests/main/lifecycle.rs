use std::time::Duration;

use cluster::{Cluster, Options};

#[tokio::test]
async fn a_cluster_is_usable_within_seconds_and_leaves_nothing() {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let record = cluster.record().clone();
    assert!(record.start_milliseconds < 60_000);
    cluster.ready(Duration::from_secs(1)).await.unwrap();
    cluster.stop().unwrap();
    assert!(!record.dir.exists());
    for (component, pid) in record.pids {
        assert!(!cluster::state::is_alive(pid), "{component}");
    }
}
