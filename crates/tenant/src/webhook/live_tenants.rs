//! Tenants from the API server, read at a limited rate.
//!
//! Every client that reaches the webhook port can cause reviews, so live reads are limited. Single
//! Tenants are read while tokens are left. After that, and for all Tenants, concurrent reviews
//! share one list. The list starts after the reviews that use it, so no review gets an older result
//! than from a read of its own. A flood of reviews causes one list at a time, with pauses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use capsule::{api::v1beta2::Tenant, syntax::is_subdomain};
use kube::{Api, Client, ResourceExt};
use operator_core::{
    admission::{BoxError, Denial},
    fence,
    informer::list_pages,
    rate_limit::{Rate, TokenBucket},
};
use parking_lot::Mutex;
use tokio::time::sleep_until;

/// Rate limit for reads of single Tenants.
const READS: Rate = Rate { burst: 100, interval: Duration::from_millis(20) };
/// Minimum and maximum pause between two lists. Within these limits, the pause is as long as the
/// last list took. A review has 4.5 s, and may wait for two lists.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));

/// Error of a live read.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    /// The stored object does not have the schema of a Tenant.
    #[error(
        "cannot read Tenant {0}: it does not match the schema; ask an administrator to correct it with kubectl edit"
    )]
    Unreadable(String),
    /// The request failed.
    #[error("cannot get Tenants from the API server")]
    Api(#[from] kube::Error),
}

impl LiveError {
    /// Returns a denial if a retry cannot succeed, otherwise the error.
    pub(super) fn into_denial(self) -> Result<Denial, BoxError> {
        match self {
            error @ Self::Unreadable(_) => Ok(Denial::forbidden(error.to_string())),
            error @ Self::Api(_) => Err(error.into()),
        }
    }
}

/// Reads Tenants from the API server: uncached reads, as with controller-runtime's `APIReader`.
pub(super) struct LiveTenants {
    reader: Client,
    reads: Mutex<TokenBucket>,
    lists: SharedRead<Snapshot>,
}

/// A list of all Tenants.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The Tenants by name.
    pub(super) tenants: BTreeMap<String, Arc<Tenant>>,
    unreadable: BTreeSet<String>,
}

impl LiveTenants {
    pub(super) fn new(reader: Client) -> Self {
        Self { reader, reads: Mutex::default(), lists: SharedRead::default() }
    }

    /// Returns a Tenant by name, or `None` if it does not exist.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Arc<Tenant>>, LiveError> {
        // The name comes from a label or an owner reference, and becomes part of a request path.
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

    /// Returns all Tenants. Tenants that cannot be read are omitted, because their owners are
    /// unknown.
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

/// A read whose result is shared by all callers that called before the read started.
struct SharedRead<T> {
    last: tokio::sync::Mutex<Option<LastRead<T>>>,
    callers: AtomicUsize,
}

struct LastRead<T> {
    began: Instant,
    ended: Instant,
    /// The result, while callers wait for it.
    value: Option<Arc<T>>,
}

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self { last: tokio::sync::Mutex::default(), callers: AtomicUsize::new(0) }
    }
}

/// A waiting caller. Dropping the last one releases the result.
struct CallerGuard<'s, T>(&'s SharedRead<T>);

impl<T> Drop for CallerGuard<'_, T> {
    fn drop(&mut self) {
        let is_last = self.0.callers.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last
            && let Ok(mut last) = self.0.last.try_lock()
            && let Some(last) = last.as_mut()
        {
            last.value = None;
        }
    }
}

impl<T> SharedRead<T> {
    /// Returns the result of a `read` that started after this call.
    async fn get<E>(&self, read: impl AsyncFnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let called = Instant::now();
        self.callers.fetch_add(1, Ordering::AcqRel);
        let _caller = CallerGuard(self);
        let mut last = self.last.lock().await;
        if let Some(found) = last.as_ref().filter(|last| last.began >= called)
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
        *last = Some(LastRead { began, ended: Instant::now(), value });
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
    fn accepts_only_valid_names() {
        for name in ["oil", "oil-2", "0.oil"] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "..", ".", "Oil", "oil/../gas", "oil?x=y", "oil%2f", "o\u{ef}l"] {
            assert!(!is_subdomain(name), "{name}");
        }
    }

    #[tokio::test]
    async fn concurrent_callers_share_reads_that_start_after_each_call() {
        let (shared, reads) = (SharedRead::<Instant>::default(), AtomicUsize::new(0));
        let read = async || {
            reads.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(began)
        };
        let call = async || {
            let called = Instant::now();
            let Ok(began) = shared.get(read).await;
            assert!(*began >= called, "the read started before the call");
        };
        join_all((0..500).map(|_| call())).await;
        assert!(reads.load(Ordering::Relaxed) <= 2, "{reads:?}");
        assert!(shared.last.lock().await.as_ref().unwrap().value.is_none(), "the result is released");
        call().await;
        assert!(reads.load(Ordering::Relaxed) <= 3, "{reads:?}");
    }

    #[tokio::test]
    async fn canceled_and_failed_reads_do_not_block_other_callers() {
        let shared = SharedRead::<()>::default();
        let never = async || std::future::pending::<Result<(), &str>>().await;
        let canceled = tokio::time::timeout(Duration::from_millis(1), shared.get(never)).await;
        assert!(canceled.is_err());
        assert_eq!(shared.get(async || Err("no answer")).await, Err("no answer"));
        assert_eq!(shared.get(async || Ok::<_, &str>(())).await, Ok(Arc::new(())));
        assert_eq!(shared.callers.load(Ordering::Relaxed), 0);
    }
}
