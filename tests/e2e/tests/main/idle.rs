//! An idle manager.

use std::{collections::BTreeSet, time::Duration};

use cluster::{audit::Entry, wait::eventually};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;

use crate::support::{MEMCACHED, NAMESPACE_PLUS, POD_SET, TestEnv, samples};

/// The manager counts as idle after this time without requests.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Longer than a watch lasts.
const WATCH_CYCLE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn idle_manager_sends_no_requests_and_resumes_watches() {
    let env = TestEnv::complete().await;
    // Without it, the manager asks for GatewayClasses every 30 s.
    env.install_gateway_api().await;
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

    let rest = eventually("the manager to be idle", WATCH_CYCLE, async || {
        let quiet = Timestamp::now() - IDLE_TIME;
        let since: Vec<_> = requests(&env).into_iter().filter(|entry| entry.time > quiet).collect();
        Ok(if since.is_empty() { Ok(Timestamp::now()) } else { Err(since) })
    })
    .await
    .unwrap();
    let opened = |since: Timestamp| {
        let watches = env.requests(&env.account).filter(|entry| entry.verb == "watch" && entry.time > since);
        watches.entries
    };
    let kinds =
        |watches: Vec<Entry>| -> BTreeSet<_> { watches.into_iter().map(|watch| watch.resource).collect() };
    let watched = kinds(opened(Timestamp::UNIX_EPOCH));
    eventually("each watch to be opened again", WATCH_CYCLE, async || {
        let reopened = kinds(opened(rest));
        Ok(if reopened == watched { Ok(()) } else { Err(reopened) })
    })
    .await
    .unwrap();

    let since: Vec<_> = requests(&env).into_iter().filter(|entry| entry.time > rest).collect();
    assert_eq!(since, []);
    let listed = opened(rest).into_iter().filter(|watch| watch.request_uri.contains("sendInitialEvents"));
    assert_eq!(listed.collect::<Vec<_>>(), []);
    env.assert_no_forbidden_requests();
}

/// Returns the manager's requests, except watches.
fn requests(env: &TestEnv) -> Vec<Entry> {
    env.requests(&env.account).filter(|entry| entry.verb != "watch").entries
}
