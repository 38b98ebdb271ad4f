//! Calls to other systems when something happens to the namespace.
//!
//! A call is made at least once, and never twice at once: see [`round`]. It always has the same `Idempotency-Key`.
//!
//! ```text
//! plan     pure: which calls are due, how often they are tried, what is said of them
//! round    what the status says before and after calls
//! request  pure: what is sent, and to whom
//! trust    whose certificates are believed
//! client   sends it
//! ```

mod client;
mod plan;
mod request;
mod round;
mod trust;

use std::{iter, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use operator_core::{
    Outcome, Setting, Wiring,
    fence::{self, Fence},
};
use tokio::{sync::Semaphore, time::timeout};

pub use self::trust::CA_BUNDLE;
use self::{
    client::HttpClient,
    plan::{Call, WRITE, calls},
    request::{CannotCall, Headers, request},
    trust::Trust,
};
pub(crate) use self::{
    plan::{Happened, has_failed_now, is_settled, known, verdict, wait},
    round::{Answers, Round},
};
use crate::api::{Hook, NamespacePlus};

/// Where hooks may go without TLS.
pub const HTTP_HOSTS: Setting = Setting {
    flag: "namespaceplus-http-hosts",
    env: "NAMESPACEPLUS_HTTP_HOSTS",
    default: "",
    values: &[],
    help: "Hosts that hooks of a NamespacePlus may call by http:// instead of https://, as host or host:port, \
           separated by commas",
};

/// How many calls are under way at once. Fewer than there are reconciles, so that systems that do not answer hold up
/// nobody who calls none.
const AT_ONCE: usize = 8;

/// Makes the calls.
pub(crate) struct Hooks {
    http: HttpClient,
    secrets: Client,
    http_hosts: Vec<String>,
    fence: Fence,
    room: Semaphore,
}

impl Hooks {
    pub(crate) fn wire(wiring: &Wiring<'_, NamespacePlus>) -> Self {
        let hosts = wiring.setting(&HTTP_HOSTS);
        let http_hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self {
            http: HttpClient::new(Trust::new(&wiring.setting(&CA_BUNDLE))),
            secrets: wiring.client(),
            http_hosts: http_hosts.filter(|host| !host.is_empty()).collect(),
            fence: wiring.fence(),
            room: Semaphore::new(AT_ONCE),
        }
    }

    /// The calls for what has happened, with room for those that are due. Those that find none are still due.
    pub(crate) fn round<'h>(&'h self, object: &'h NamespacePlus, happened: &[Happened]) -> Round<'h> {
        let mut round = Round::new(calls(object, happened));
        round.room = iter::from_fn(|| self.room.try_acquire().ok()).take(round.due(object)).collect();
        round
    }

    /// Makes the calls that the status says to be under way, all at once. Nothing, if there are none, or if it could
    /// not be told yet.
    pub(crate) async fn make_once_told<E>(
        &self,
        object: &NamespacePlus,
        round: &Round<'_>,
        told: &Result<Outcome, E>,
    ) -> Option<Answers> {
        let calls = if matches!(told, Ok(Outcome::Done)) { round.begun() } else { Vec::new() };
        let made = join_all(calls.iter().map(async |call| {
            let answer = self.call(object, call, round.began).await.transpose()?;
            Some((call.id.clone(), answer.map_err(|error| error.to_string())))
        }));
        let answers: Vec<_> = made.await.into_iter().flatten().collect();
        if answers.is_empty() { None } else { Some(Answers(answers)) }
    }

    /// Makes one call. Nothing, if it must not be sent any more: another replica may lead, or the time is over.
    async fn call(
        &self,
        object: &NamespacePlus,
        call: &Call<'_>,
        began: Duration,
    ) -> Result<Option<u16>, CannotCall> {
        let seconds = u64::try_from(call.hook.timeout_seconds).unwrap_or_default().max(1);
        let allowed = Duration::from_secs(seconds);
        let end = began + allowed + Duration::from_secs(WRITE.unsigned_abs().into());
        let Some(left) = end.checked_sub(fence::now()) else { return Ok(None) };
        let sent = async {
            let headers = self.headers(object, call.hook).await?;
            let request = request(object, call, headers, &self.http_hosts)?;
            self.http.send(request, || self.fence.check().is_ok() && fence::now() < end).await
        };
        timeout(left.min(allowed), sent).await.unwrap_or(Err(CannotCall::NoAnswer { seconds }))
    }

    /// The headers that the hook's Secret gives.
    async fn headers(&self, object: &NamespacePlus, hook: &Hook) -> Result<Headers, CannotCall> {
        let Some(reference) = &hook.headers_secret_ref else { return Ok(Headers::default()) };
        let namespace = object.namespace().unwrap_or_default();
        let secrets = Api::<Secret>::namespaced(self.secrets.clone(), &namespace);
        match secrets.get(&reference.name).await {
            Ok(secret) => Ok(secret.data.unwrap_or_default()),
            Err(error) => Err(CannotCall::secret(&namespace, &reference.name, &error)),
        }
    }
}
