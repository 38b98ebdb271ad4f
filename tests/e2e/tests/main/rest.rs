//! A manager whose objects are all as asked.

use std::{collections::BTreeSet, time::Duration};

use cluster::{audit::Entry, wait::eventually};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;

use crate::support::{MEMCACHED, NAMESPACE_PLUS, POD_SET, Stage, samples};

/// How long nothing may have happened before it counts as rest.
const QUIET: Duration = Duration::from_secs(10);
/// Longer than a watch lasts.
const ROUND: Duration = Duration::from_secs(90);

#[tokio::test]
async fn at_rest_it_asks_for_nothing_and_resumes_its_watches_where_they_ran_out() {
    let stage = Stage::complete().await;
    let _manager = stage.start("manager", &stage.account, &[]);
    stage.kubectl(&["apply", "-f", &samples()]).await.unwrap();
    stage.until_settled(&POD_SET, "default", "podset-sample").await;
    for name in ["memcached-sample", "memcached-tuned", "memcached-autoscaled"] {
        stage.until_settled(&MEMCACHED, "default", name).await;
    }
    for name in ["my-ns1", "team-blue"] {
        stage.until_settled(&NAMESPACE_PLUS, "default", name).await;
    }
    stage.join("oil", "oil-development").await;
    stage.until_joined("oil", 1).await;

    // The autoscaler of the sample takes its time, and wants two.
    let has_two = |cache: &DynamicObject| cache.data["status"]["readyReplicas"] == 2;
    stage.until(&MEMCACHED, "default", "memcached-autoscaled", "to be scaled", has_two).await;

    let rest = eventually("the manager to rest", ROUND, async || {
        let quiet = Timestamp::now() - QUIET;
        let since: Vec<_> = asked(&stage).into_iter().filter(|entry| entry.time > quiet).collect();
        Ok(if since.is_empty() { Ok(Timestamp::now()) } else { Err(since) })
    })
    .await
    .unwrap();
    let opened = |since: Timestamp| {
        let watches =
            stage.requests(&stage.account).filter(|entry| entry.verb == "watch" && entry.time > since);
        watches.entries
    };
    let kinds =
        |watches: Vec<Entry>| -> BTreeSet<_> { watches.into_iter().map(|watch| watch.resource).collect() };
    let watched = kinds(opened(Timestamp::UNIX_EPOCH));
    eventually("each watch to be opened anew", ROUND, async || {
        let anew = kinds(opened(rest));
        Ok(if anew == watched { Ok(()) } else { Err(anew) })
    })
    .await
    .unwrap();

    let since: Vec<_> = asked(&stage).into_iter().filter(|entry| entry.time > rest).collect();
    assert_eq!(since, []);
    let listed = opened(rest).into_iter().filter(|watch| watch.request_uri.contains("sendInitialEvents"));
    assert_eq!(listed.collect::<Vec<_>>(), []);
    stage.assert_nothing_was_forbidden();
}

/// What the manager asked for, watches excepted.
fn asked(stage: &Stage) -> Vec<Entry> {
    stage.requests(&stage.account).filter(|entry| entry.verb != "watch").entries
}
