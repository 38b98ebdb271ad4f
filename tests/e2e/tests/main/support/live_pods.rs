//! Counting pods while they come and go.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use cluster::wait::eventually;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{Config, Event, watcher},
    },
};
use tokio::task::JoinHandle;

/// Follows the pods of a namespace from now on.
pub(crate) struct LivePods {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// By UID.
#[derive(Clone, Debug, Default)]
struct Seen {
    ever: BTreeSet<String>,
    live: BTreeSet<String>,
    /// The most that lived at a time.
    most: usize,
}

impl LivePods {
    pub(crate) fn follow(api: Api<Pod>) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let told = seen.clone();
        let task = tokio::spawn(async move {
            let events = watcher(api, Config::default()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => told.lock().unwrap().is(&pod),
                    Ok(Event::Delete(pod)) => told.lock().unwrap().went(&pod),
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                }
            }
        });
        Self { seen, task }
    }

    /// Waits until this many pods live, and holds their number to never having been above `bound`, and the number of all
    /// pods that there ever were to `ever`.
    pub(crate) async fn assert_settled(&self, live: usize, bound: usize, ever: usize) {
        let seen = self.until_live(live).await;
        assert!(seen.most <= bound, "{} pods lived at a time, {bound} were asked for", seen.most);
        assert_eq!(seen.ever.len(), ever, "all pods that there ever were");
    }

    /// Waits until this many pods live. Returns the most that ever did at a time.
    pub(crate) async fn assert_live(&self, live: usize) -> usize {
        self.until_live(live).await.most
    }

    async fn until_live(&self, live: usize) -> Seen {
        let what = format!("{live} live pods");
        let settled = eventually(&what, Duration::from_secs(30), async || {
            let seen = self.seen.lock().unwrap().clone();
            Ok(if seen.live.len() == live { Ok(seen) } else { Err(seen) })
        });
        settled.await.unwrap()
    }
}

impl Drop for LivePods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn is(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        self.ever.insert(uid.clone());
        if pod.metadata.deletion_timestamp.is_none() && matches!(phase, Some("Pending" | "Running")) {
            self.live.insert(uid);
        } else {
            self.live.remove(&uid);
        }
        self.most = self.most.max(self.live.len());
    }

    fn went(&mut self, pod: &Pod) {
        self.live.remove(&pod.uid().unwrap());
    }
}
