//! Tenants as the API server has them now, read at a bounded rate however many reviews ask.
//!
//! Whoever reaches the port of the webhooks can have reviews answered, so live reads are limited: single Tenants are read
//! while there are tokens. Then, and where all Tenants are needed, reviews share a list, which begins after they asked. So
//! nobody gets an older answer than they would alone, and a flood costs one list after the other, with pauses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use kube::{Api, Client, ResourceExt};
use operator_core::{
    admission::{BoxError, Denial},
    fence,
    informer::list_pages,
    rate_limit::{Rate, TokenBucket},
};
use parking_lot::Mutex;
use tokio::time::sleep_until;

use crate::{api::v1beta2::Tenant, syntax::is_subdomain};

/// How many single Tenants are read.
const READS: Rate = Rate { burst: 100, interval: Duration::from_millis(20) };
/// The shortest pause between two lists, and the longest: a review has 4.5 s, and may have to wait for two lists. In between,
/// it is as long as the list before it took.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// Why a Tenant is not known.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    /// It exists and is not what a Tenant should be.
    #[error(
        "cannot read Tenant {0}: it does not have the form of a Tenant; an administrator has to correct it with kubectl edit"
    )]
    Unreadable(String),
    /// The API server did not answer.
    #[error("cannot get Tenants from the API server")]
    Api(#[from] kube::Error),
}

impl LiveError {
    /// Returns the refusal of what depends on the Tenant, or the error if trying again helps.
    pub(super) fn into_denial(self) -> Result<Denial, BoxError> {
        match self {
            error @ Self::Unreadable(_) => Ok(Denial::forbidden(error.to_string())),
            error @ Self::Api(_) => Err(error.into()),
        }
    }
}

/// Reads Tenants.
pub(super) struct LiveTenants {
    reader: Client,
    reads: Mutex<TokenBucket>,
    lists: Shared<Snapshot>,
}

/// All Tenants at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// By name.
    pub(super) tenants: BTreeMap<String, Arc<Tenant>>,
    unreadable: BTreeSet<String>,
}

impl LiveTenants {
    pub(super) fn new(reader: Client) -> Self {
        Self { reader, reads: Mutex::default(), lists: Shared::default() }
    }

    /// Returns the Tenant of a name, if there is one.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Arc<Tenant>>, LiveError> {
        // A label or an owner reference may hold anything, and the name becomes part of the path of a request.
        if !is_subdomain(name) {
            return Ok(None);
        }
        let has_token = self.reads.lock().take(READS, fence::now()).is_ok();
        if has_token {
            return match Api::<Tenant>::all(self.reader.clone()).get_opt(name).await {
                Ok(found) => Ok(found.map(Arc::new)),
                Err(kube::Error::SerdeError(_)) => Err(LiveError::Unreadable(name.to_owned())),
                Err(error) => Err(error.into()),
            };
        }
        let all = self.list().await?;
        if all.unreadable.contains(name) {
            return Err(LiveError::Unreadable(name.to_owned()));
        }
        Ok(all.tenants.get(name).cloned())
    }

    /// Returns all Tenants. Those that cannot be read are left out: they are nobody's.
    pub(super) async fn list(&self) -> Result<Arc<Snapshot>, LiveError> {
        let list = async || {
            let found = list_pages::<Tenant>(self.reader.clone(), None).await?;
            let by_name = found.objects.into_iter().map(|tenant| (tenant.name_any(), Arc::new(tenant)));
            Ok(Snapshot {
                tenants: by_name.collect(),
                unreadable: found.unreadable.iter().map(|key| key.name().to_owned()).collect(),
            })
        };
        self.lists.get(list).await
    }
}

/// Something that is read again and again, and shared by all who asked before the read began.
struct Shared<T> {
    last: tokio::sync::Mutex<Option<Last<T>>>,
    waiting: AtomicUsize,
}

struct Last<T> {
    began: Instant,
    ended: Instant,
    /// ManagedObjects while somebody waits for it.
    value: Option<Arc<T>>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { last: tokio::sync::Mutex::default(), waiting: AtomicUsize::new(0) }
    }
}

/// One who waits. The last one who leaves takes the value along.
struct Waiting<'s, T>(&'s Shared<T>);

impl<T> Drop for Waiting<'_, T> {
    fn drop(&mut self) {
        let is_last = self.0.waiting.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last
            && let Ok(mut last) = self.0.last.try_lock()
            && let Some(last) = last.as_mut()
        {
            last.value = None;
        }
    }
}

impl<T> Shared<T> {
    /// Returns what `read` gave to somebody at a time after this call.
    async fn get<E>(&self, read: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let asked = Instant::now();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(self);
        let mut last = self.last.lock().await;
        if let Some(found) = last.as_ref().filter(|last| last.began >= asked)
            && let Some(value) = &found.value
        {
            return Ok(value.clone());
        }
        if let Some(last) = last.as_ref() {
            let pause = (last.ended - last.began).clamp(PAUSES.0, PAUSES.1);
            sleep_until((last.ended + pause).into()).await;
        }
        let began = Instant::now();
        let read = read().await.map(Arc::new);
        let value = read.as_ref().ok().cloned();
        *last = Some(Last { began, ended: Instant::now(), value });
        drop(last);
        read
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::join_all;

    use super::*;

    #[test]
    fn only_what_can_be_a_name_is_asked_for() {
        for name in ["oil", "oil-2", "0.oil"] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "..", ".", "Oil", "oil/../gas", "oil?x=y", "oil%2f", "o\u{ef}l"] {
            assert!(!is_subdomain(name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_flood_shares_reads_that_begin_after_each_asked() {
        let (shared, reads) = (Shared::<Instant>::default(), AtomicUsize::new(0));
        let read = async || {
            reads.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(began)
        };
        let ask = async || {
            let asked = Instant::now();
            let Ok(began) = shared.get(read).await;
            assert!(*began >= asked, "the answer is older than the question");
        };
        join_all((0..500).map(|_| ask())).await;
        assert!(reads.load(Ordering::Relaxed) <= 2, "{reads:?}");
        assert!(shared.last.lock().await.as_ref().unwrap().value.is_none(), "nobody waits for it");
        ask().await;
        assert!(reads.load(Ordering::Relaxed) <= 3, "{reads:?}");
    }

    #[tokio::test]
    async fn who_gives_up_and_what_fails_hold_up_nobody() {
        let shared = Shared::<()>::default();
        let never = async || std::future::pending::<Result<(), &str>>().await;
        let given_up = tokio::time::timeout(Duration::from_millis(1), shared.get(never)).await;
        assert!(given_up.is_err());
        assert_eq!(shared.get(async || Err("no answer")).await, Err("no answer"));
        assert_eq!(shared.get(async || Ok::<_, &str>(())).await, Ok(Arc::new(())));
        assert_eq!(shared.waiting.load(Ordering::Relaxed), 0);
    }
}
