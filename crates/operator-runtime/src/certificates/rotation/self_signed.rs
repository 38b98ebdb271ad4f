//! Rotation with a certificate authority of the manager's own.

use certificates::{Lifetimes, bundle};
use jiff::Timestamp;
use operator_core::fence;
use rustls::pki_types::ServerName;
use tracing::info;

use super::{
    RotationError, Synced,
    plan::{Inputs, next_check, plan},
    propagation::{Propagation, Step},
    publisher::Publisher,
    until,
    write_limiter::WriteLimiter,
};
use crate::certificates::store::{SharedSecret, Written, contents::Contents, data};

/// Maximum number of conflicting writes in one check.
const ATTEMPTS: usize = 5;

/// State of this replica between two checks of the Secret.
pub(crate) struct SelfSigned {
    lifetimes: Lifetimes,
    names: Vec<ServerName<'static>>,
    propagation: Propagation,
    limiter: WriteLimiter,
}

impl SelfSigned {
    pub(crate) fn new(lifetimes: Lifetimes, names: Vec<ServerName<'static>>) -> Self {
        Self { lifetimes, names, propagation: Propagation::default(), limiter: WriteLimiter::default() }
    }

    /// Reads and writes the Secret until it holds what it should, and serves the certificate in it.
    pub(crate) async fn sync(
        &mut self,
        secret: &SharedSecret,
        publisher: &Publisher,
    ) -> Result<Synced, RotationError> {
        for _ in 0..ATTEMPTS {
            let stored = secret.read().await.map_err(|error| RotationError::read(secret, error))?;
            let (now, held) = (Timestamp::now(), data(stored.as_ref()));
            // Serve first: a valid certificate is served even if the Secret cannot be corrected.
            let step = self.observe(&Contents::read(held), now, publisher);
            let (lifetimes, served) = (self.lifetimes, self.propagation.served());
            let plan = plan(held, Inputs { now, lifetimes, names: &self.names, served })?;
            if plan.changes.is_empty() {
                self.propagation.synced(&plan.contents.authorities);
                let due = next_check(&plan.contents, now, lifetimes).map(|moment| until(now, moment));
                let wait = if let Step::Wait(wait) = step { Some(wait) } else { None };
                let requeue_after = due.into_iter().chain(wait).min();
                return Ok(Synced { bundle: bundle(&plan.contents.authorities), requeue_after });
            }
            self.limiter.acquire(fence::now()).map_err(|wait| RotationError::rate_limited(secret, wait))?;
            let written = secret.write(stored, plan.contents.data()).await;
            if written.map_err(|error| RotationError::write(secret, error))? == Written::Done {
                for change in plan.changes {
                    info!(secret = %secret, "{change}");
                }
            }
        }
        Err(RotationError::conflict(secret))
    }

    fn observe(&mut self, contents: &Contents, now: Timestamp, publisher: &Publisher) -> Step {
        let step = self.propagation.observe(contents, now, fence::now(), self.lifetimes.propagation());
        if step == Step::Serve
            && let Some(served) = self.propagation.served()
        {
            publisher.publish(&served.serving, served.issuer(now));
        }
        step
    }
}
