//! Keeping the Secret by ourselves.

use jiff::Timestamp;
use operator_core::fence;
use rustls::pki_types::ServerName;
use tracing::info;

use super::{
    contents::Contents,
    display::Display,
    keeper::{KeeperError, Settled, until},
    lifetimes::Lifetimes,
    pace::Pace,
    plan::{Situation, next_look, plan},
    presence::{Presence, Step},
    secret::{SharedSecret, Written, data},
    x509::bundle,
};

/// How often a write may be lost to others before it is put off.
const TRIES: usize = 5;

/// What this replica knows, between two looks at the Secret.
pub(super) struct Managed {
    lifetimes: Lifetimes,
    names: Vec<ServerName<'static>>,
    presence: Presence,
    pace: Pace,
}

impl Managed {
    pub(super) fn new(lifetimes: Lifetimes, names: Vec<ServerName<'static>>) -> Self {
        Self { lifetimes, names, presence: Presence::default(), pace: Pace::default() }
    }

    /// Reads the Secret and writes it until it holds what it should; shows what it holds.
    pub(super) async fn settle(
        &mut self,
        secret: &SharedSecret,
        display: &Display,
    ) -> Result<Settled, KeeperError> {
        for _ in 0..TRIES {
            let stored = secret.read().await.map_err(|error| KeeperError::read(secret, error))?;
            let (now, held) = (Timestamp::now(), data(stored.as_ref()));
            // Before anything is written: what can be served is served even if the Secret cannot be put right.
            let step = self.look(&Contents::read(held), now, display);
            let (lifetimes, shown) = (self.lifetimes, self.presence.shown());
            let plan = plan(held, Situation { now, lifetimes, names: &self.names, shown })?;
            if plan.changes.is_empty() {
                self.presence.settled(&plan.contents.authorities);
                let look = next_look(&plan.contents, now, lifetimes).map(|moment| until(now, moment));
                let wait = if let Step::Wait(wait) = step { Some(wait) } else { None };
                let look_again = look.into_iter().chain(wait).min();
                return Ok(Settled { bundle: bundle(&plan.contents.authorities), look_again });
            }
            self.pace.ask(fence::now()).map_err(|wait| KeeperError::too_often(secret, wait))?;
            let written = secret.write(stored, plan.contents.data()).await;
            if written.map_err(|error| KeeperError::write(secret, error))? == Written::Done {
                for change in plan.changes {
                    info!(secret = %secret, "{change}");
                }
            }
        }
        Err(KeeperError::contended(secret))
    }

    fn look(&mut self, contents: &Contents, now: Timestamp, display: &Display) -> Step {
        let step = self.presence.look(contents, now, fence::now(), self.lifetimes.propagation());
        if step == Step::Show
            && let Some(shown) = self.presence.shown()
        {
            display.show(&shown.serving, shown.issuer(now));
        }
        step
    }
}
