//! Counts the live Pods of a namespace.

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

/// Watches the Pods of a namespace.
pub(crate) struct LivePods {
    observed: Arc<Mutex<Observed>>,
    task: JoinHandle<()>,
}

/// Pods by UID.
#[derive(Clone, Debug, Default)]
struct Observed {
    ever: BTreeSet<String>,
    live: BTreeSet<String>,
    /// Maximum number of Pods that were alive at the same time.
    most: usize,
}

impl LivePods {
    pub(crate) fn follow(api: Api<Pod>) -> Self {
        let observed = Arc::<Mutex<Observed>>::default();
        let shared = observed.clone();
        let task = tokio::spawn(async move {
            let events = watcher(api, Config::default()).default_backoff();
            pin_mut!(events);
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => shared.lock().unwrap().update(&pod),
                    Ok(Event::Delete(pod)) => shared.lock().unwrap().remove(&pod),
                    Ok(Event::Init | Event::InitDone) | Err(_) => {}
                }
            }
        });
        Self { observed, task }
    }

    /// Waits until `live` Pods are alive. Asserts that at most `bound` were alive at any time, and
    /// that `ever` Pods have existed.
    pub(crate) async fn assert_settled(&self, live: usize, bound: usize, ever: usize) {
        let observed = self.until_live(live).await;
        assert!(
            observed.most <= bound,
            "{} Pods were alive at the same time; at most {bound} are allowed",
            observed.most
        );
        assert_eq!(observed.ever.len(), ever, "number of Pods that have existed");
    }

    /// Waits until `live` Pods are alive. Returns the maximum number that were alive at the same
    /// time.
    pub(crate) async fn assert_live(&self, live: usize) -> usize {
        self.until_live(live).await.most
    }

    async fn until_live(&self, live: usize) -> Observed {
        let what = format!("{live} Pods to be alive");
        let settled = eventually(&what, Duration::from_secs(30), async || {
            let observed = self.observed.lock().unwrap().clone();
            Ok(if observed.live.len() == live { Ok(observed) } else { Err(observed) })
        });
        settled.await.unwrap()
    }
}

impl Drop for LivePods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Observed {
    fn update(&mut self, pod: &Pod) {
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

    fn remove(&mut self, pod: &Pod) {
        self.live.remove(&pod.uid().unwrap());
    }
}
