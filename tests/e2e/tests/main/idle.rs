//! An idle manager.

use std::time::Duration;

use cluster::{audit::Entry, wait::eventually};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;

use crate::support::{DEVICES, MEMCACHED, NAMESPACE_PLUS, POD_SET, TestEnv, samples};

/// The manager counts as idle after this time without requests.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Longer than a watch waits for a bookmark. The API server sends none for a kind that has not changed since its
/// start.
const WATCH_CYCLE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn idle_manager_sends_no_requests_and_resumes_watches() {
    let env = TestEnv::complete().await;
    // Without it, the manager asks for GatewayClasses every 30 s, and before Kubernetes 1.34 for DeviceClasses.
    env.install_gateway_api().await;
    let missing = if env.serves_device_classes().await { None } else { Some(DEVICES) };
    let _manager = env.start("manager", &env.account, &[]);
    env.kubectl(&["apply", "-f", &samples()]).await.unwrap();
    env.until_ready(&POD_SET, "default", "podset-sample").await;
    for name in ["memcached-sample", "memcached-tuned", "memcached-autoscaled"] {
        env.until_ready(&MEMCACHED, "default", name).await;
    }
    for name in ["my-ns1", "team-blue"] {
        env.until_ready(&NAMESPACE_PLUS, "default", name).await;
    }
    env.join("oil", "oil-development").await;
    env.until_tenant_ready("oil", 1).await;

    // The autoscaler of the sample scales to two.
    let has_two = |cache: &DynamicObject| cache.data["status"]["readyReplicas"] == 2;
    env.until(&MEMCACHED, "default", "memcached-autoscaled", "to be scaled", has_two).await;

    let requests = |is_watch: bool, since: Timestamp| {
        let is_missing = |entry: &Entry| missing.is_some_and(|group| entry.group == group);
        let wanted = |entry: &Entry| (entry.verb == "watch") == is_watch && entry.time > since;
        env.requests(&env.account).filter(|entry| wanted(entry) && !is_missing(entry)).entries
    };
    let rest = eventually("the manager to be idle", WATCH_CYCLE, async || {
        let quiet = Timestamp::now() - IDLE_TIME;
        let since = requests(false, quiet);
        Ok(if since.is_empty() { Ok(Timestamp::now()) } else { Err(since) })
    })
    .await
    .unwrap();
    let reopened = eventually("silent watches to be opened again", WATCH_CYCLE, async || {
        let reopened = requests(true, rest);
        Ok(if reopened.is_empty() { Err("none") } else { Ok(reopened) })
    })
    .await
    .unwrap();

    assert_eq!(requests(false, rest), []);
    let listed = reopened.into_iter().filter(|watch| watch.request_uri.contains("sendInitialEvents"));
    assert_eq!(listed.collect::<Vec<_>>(), []);
    env.assert_no_forbidden_requests();
}
