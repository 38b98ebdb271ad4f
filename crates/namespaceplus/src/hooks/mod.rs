//! Hooks: HTTP calls to other systems on events of the namespace.
//!
//! A call is made at least once, and never concurrently: see [`delivery`]. All attempts have the
//! same `Idempotency-Key`.
//!
//! ```text
//! plan      pure: which calls are due, the backoff, and the condition
//! delivery  the status before and after calls
//! request   pure: URL, headers, and body of a call
//! trust     the trusted certificate authorities
//! client    the HTTP client
//! ```

mod client;
mod delivery;
mod plan;
mod request;
mod trust;

use std::{iter, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use operator_core::{
    ControllerBuilder, Outcome, Setting, Values,
    fence::{self, Fence},
};
use tokio::{sync::Semaphore, time::timeout};

pub use self::trust::CA_BUNDLE;
use self::{
    client::HttpClient,
    plan::{Call, STATUS_WRITE_SECONDS, calls},
    request::{CallError, Headers, request},
    trust::Trust,
};
pub(crate) use self::{
    delivery::{Delivery, Responses},
    plan::{Occurrence, current_statuses, hooks_delivered, newly_failed, next_attempt_in, none_pending},
};
use crate::api::{Hook, NamespacePlus};

/// Hosts that hooks may call without TLS.
pub const HTTP_HOSTS: Setting = Setting {
    flag: "namespaceplus-http-hosts",
    env: "NAMESPACEPLUS_HTTP_HOSTS",
    default: "",
    values: Values::Any,
    help: "Hosts that hooks of a NamespacePlus may call by http:// instead of https://, as host or host:port, \
           separated by commas",
};

/// Maximum number of concurrent calls. It is below the number of workers, so that slow receivers do
/// not block other reconciles.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Makes the calls.
pub(crate) struct Hooks {
    http: HttpClient,
    secrets: Client,
    http_hosts: Vec<String>,
    fence: Fence,
    permits: Semaphore,
}

impl Hooks {
    pub(crate) fn build(builder: &ControllerBuilder<'_, NamespacePlus>) -> Self {
        let hosts = builder.setting(&HTTP_HOSTS);
        let http_hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self {
            http: HttpClient::new(Trust::new(&builder.setting(&CA_BUNDLE))),
            secrets: builder.client(),
            http_hosts: http_hosts.filter(|host| !host.is_empty()).collect(),
            fence: builder.fence(),
            permits: Semaphore::new(MAX_CONCURRENT_CALLS),
        }
    }

    /// Creates a delivery with permits for the calls that are due. Calls without a permit stay due.
    pub(crate) fn delivery<'h>(
        &'h self,
        object: &'h NamespacePlus,
        occurrences: &[Occurrence],
    ) -> Delivery<'h> {
        let mut delivery = Delivery::new(calls(object, occurrences));
        delivery.permits =
            iter::from_fn(|| self.permits.try_acquire().ok()).take(delivery.due(object)).collect();
        delivery
    }

    /// Makes all calls that the status marks as started, concurrently.
    ///
    /// Returns `None` if there are none, or if the status is not written yet.
    pub(crate) async fn call_after_update<E>(
        &self,
        object: &NamespacePlus,
        delivery: &Delivery<'_>,
        written: &Result<Outcome, E>,
    ) -> Option<Responses> {
        let calls = if matches!(written, Ok(Outcome::Done)) { delivery.started() } else { Vec::new() };
        let made = join_all(calls.iter().map(async |call| {
            let answer = self.call(object, call, delivery.started_at).await.transpose()?;
            Some((call.id.clone(), answer.map_err(|error| error.to_string())))
        }));
        let responses: Vec<_> = made.await.into_iter().flatten().collect();
        if responses.is_empty() { None } else { Some(Responses(responses)) }
    }

    /// Makes one call. Returns `None` if it must not be sent, because another replica may lead or
    /// the deadline is over.
    async fn call(
        &self,
        object: &NamespacePlus,
        call: &Call<'_>,
        started_at: Duration,
    ) -> Result<Option<u16>, CallError> {
        let seconds = u64::try_from(call.hook.timeout_seconds).unwrap_or_default().max(1);
        let allowed = Duration::from_secs(seconds);
        let end = started_at + allowed + Duration::from_secs(STATUS_WRITE_SECONDS.unsigned_abs().into());
        let Some(left) = end.checked_sub(fence::now()) else { return Ok(None) };
        let sent = async {
            let headers = self.headers(object, call.hook).await?;
            let request = request(object, call, headers, &self.http_hosts)?;
            self.http.send(request, || self.fence.check().is_ok() && fence::now() < end).await
        };
        timeout(left.min(allowed), sent).await.unwrap_or(Err(CallError::NoAnswer { seconds }))
    }

    /// Reads the headers from the hook's Secret.
    async fn headers(&self, object: &NamespacePlus, hook: &Hook) -> Result<Headers, CallError> {
        let Some(reference) = &hook.headers_secret_ref else { return Ok(Headers::default()) };
        let namespace = object.namespace().unwrap_or_default();
        let secrets = Api::<Secret>::namespaced(self.secrets.clone(), &namespace);
        match secrets.get(&reference.name).await {
            Ok(secret) => Ok(secret.data.unwrap_or_default()),
            Err(error) => Err(CallError::secret(&namespace, &reference.name, &error)),
        }
    }
}
