//! Calls to other systems when something happens to the namespace.
//!
//! A call is made at least once: it is told in the status only after it was taken, and a manager that dies in between
//! makes it again, under the same `Idempotency-Key`. Only the leader calls, and one call is never under way twice.
//!
//! ```text
//! plan     pure: which calls are due, how often they are tried, what is said of them
//! request  pure: what is sent, and to whom
//! client   sends it
//! ```

mod client;
mod plan;
mod request;

use std::collections::HashMap;

use futures::future::join_all;
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use kube::{Api, Client, ResourceExt};
use operator_core::{ObjectKey, Setting, Wiring, fence::Fence};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub(crate) use self::plan::{Happened, has_failed_now, is_settled, verdict, wait};
use self::{
    client::HttpClient,
    plan::{Call, calls},
    request::{CannotCall, Headers, request},
};
use crate::api::{Hook, HookStatus, NamespacePlus};

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

/// Makes the calls, and remembers what came of them until the status says it.
pub(crate) struct Hooks {
    http: HttpClient,
    secrets: Client,
    http_hosts: Vec<String>,
    fence: Fence,
    room: Semaphore,
    /// What the status does not say yet. A write of it may have to wait, and the call must not be made again for that.
    journal: Mutex<HashMap<ObjectKey, Vec<HookStatus>>>,
}

impl Hooks {
    pub(crate) fn wire(wiring: &Wiring<'_, NamespacePlus>) -> Self {
        let hosts = wiring.setting(&HTTP_HOSTS);
        let http_hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self {
            http: HttpClient::new(),
            secrets: wiring.client(),
            http_hosts: http_hosts.filter(|host| !host.is_empty()).collect(),
            fence: wiring.fence(),
            room: Semaphore::new(AT_ONCE),
            journal: Mutex::default(),
        }
    }

    /// What is known of the calls of a NamespacePlus to which this has happened. Calls that were never tried are
    /// pending.
    pub(crate) fn known(&self, object: &NamespacePlus, happened: &[Happened]) -> Vec<HookStatus> {
        let journal = self.journal.lock();
        let noted = journal.get(&ObjectKey::of(object)).map(Vec::as_slice).unwrap_or_default();
        plan::known(object, &calls(object, happened), noted)
    }

    /// Makes the calls that are due, all at once, and returns what is known then; nothing, if none was due.
    pub(crate) async fn call(
        &self,
        object: &NamespacePlus,
        happened: &[Happened],
        known: &[HookStatus],
    ) -> Option<Vec<HookStatus>> {
        let now = Timestamp::now();
        let calls = calls(object, happened);
        let due =
            calls.iter().filter(|call| known.iter().any(|one| one.id == call.id && plan::is_due(one, now)));
        let made = join_all(due.map(async |call| Some((call, self.make(object, call).await?)))).await;
        let made: Vec<_> = made.into_iter().flatten().collect();
        if made.is_empty() {
            return None;
        }
        let now = Timestamp::now();
        let mut after = known.to_vec();
        for (call, result) in made {
            if let Some(one) = after.iter_mut().find(|one| one.id == call.id) {
                plan::note(one, result.map_err(|error| error.to_string()), now);
            }
        }
        self.journal.lock().insert(ObjectKey::of(object), after.clone());
        Some(after)
    }

    /// Forgets a NamespacePlus that is done with.
    pub(crate) fn forget(&self, object: &NamespacePlus) {
        self.journal.lock().remove(&ObjectKey::of(object));
    }

    /// Forgets what the status says by now.
    pub(crate) fn written(&self, object: &NamespacePlus) {
        let says = object.status.as_ref().map(|status| status.hooks.as_slice()).unwrap_or_default();
        let key = ObjectKey::of(object);
        let mut journal = self.journal.lock();
        if journal.get(&key).is_some_and(|noted| noted == says) {
            journal.remove(&key);
        }
    }

    /// Makes one call. Nothing, if there is no room for it or another replica may lead: then it is still due.
    async fn make(&self, object: &NamespacePlus, call: &Call<'_>) -> Option<Result<u16, CannotCall>> {
        let _room = self.room.try_acquire().ok()?;
        let sent = async {
            let headers = self.headers(object, call.hook).await?;
            let request = request(object, call, headers, &self.http_hosts)?;
            // Looked at in the moment of sending, as with any write.
            match self.fence.check() {
                Ok(()) => self.http.send(request, call.hook.timeout_seconds).await.map(Some),
                Err(_) => Ok(None),
            }
        };
        sent.await.transpose()
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
