//! A run under way: what the fault wants done, and what comes of it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    blow::{Blow, Expiry, Trigger},
    kinds::OBSERVED,
    lane::Lane,
    learn::Reference,
    observe::{Change, State},
    oracle::{
        counts::{counts, lost, most_deletions, surplus},
        log::complaints,
        normal::{difference, end_state},
        safety::violations,
    },
    plan::Planned,
    proxy::{
        Control,
        rules::{Fault, FrameRule, RequestRule, Stale, Twist, Which},
    },
    run::{POLL, QUIET},
    stage::Stage,
    token::Token,
    workload::{Step, Workload, tells_of_present},
};

/// How long a view from the past is shown.
const PAST: Duration = Duration::from_millis(1500);
/// Longer than a watch that is never heard of again is waited for.
const SILENCE: Duration = Duration::from_secs(75);
/// How long Kubernetes' own controllers may take until they work again after the API server was away.
const COMEBACK: Duration = Duration::from_mins(2);

impl Planned {
    /// Does what is to be done.
    pub(crate) async fn act(&self, lane: &Lane, workload: &Workload, token: Token) -> Result<()> {
        let (stage, name) = (&lane.stage, token.to_string());
        let patience = self.patience(stage);
        stage.take(token, (workload.act)(&name), patience).await?;
        if let Blow::Disturb(steps) = &self.blow {
            stage.until(token, &(workload.goals)(&name), patience).await?;
            stage.take(token, steps(&name), patience).await?;
        }
        Ok(())
    }

    /// How long each step of it may take, and how long it may be until all is as it should be after the last one.
    pub(crate) fn patience(&self, stage: &Stage) -> Duration {
        let longer = match self.blow {
            Blow::Silence(_) => SILENCE,
            Blow::Outage(_) => COMEBACK,
            _ => Duration::ZERO,
        };
        stage.patience + longer
    }

    /// How much more often than without it an object may be made and deleted: what somebody has deleted is made again;
    /// what a spec of the past asks for may be made again, and goes again; and who sees the past may choose others to go than
    /// those that have gone.
    fn allowed(&self, token: Token, reference: &Reference) -> usize {
        match self.blow {
            Blow::Disturb(steps) => {
                let deletions = |step: &&Step| matches!(step, Step::Delete(_));
                steps(&token.to_string()).iter().filter(deletions).count()
            }
            Blow::Travel(_) => most_deletions(&reference.counts).max(1),
            _ => 0,
        }
    }
}

/// A run under way.
pub(crate) struct Trial<'t> {
    lane: &'t Lane,
    token: Token,
    reference: &'t Reference,
    pub(crate) planned: &'t Planned,
    pub(crate) began: Instant,
    /// How many changes there had been before.
    mark: usize,
    /// Since when the manager sees the past.
    travels: Option<Instant>,
    struck: bool,
}

impl<'t> Trial<'t> {
    pub(crate) fn new(lane: &'t Lane, token: Token, reference: &'t Reference, planned: &'t Planned) -> Self {
        let mark = lane.stage.observer.count(token);
        Self { lane, token, reference, planned, began: Instant::now(), mark, travels: None, struck: true }
    }

    pub(crate) fn arm(&mut self) {
        let (token, proxy) = (self.token, &self.lane.proxy);
        let strike = |which: &Which, fault: &Fault| {
            proxy.rules().strike(RequestRule { token, which: which.clone(), fault: fault.clone() });
        };
        let twist = |resource: Option<&String>, event: Option<&String>, nth, twist| {
            let (resource, event) = (resource.cloned(), event.cloned());
            proxy.rules().twist(FrameRule { token, resource, event, nth, twist });
        };
        match &self.planned.blow {
            Blow::Requests { which, fault, .. } => strike(which, fault),
            Blow::Frames(frames) => {
                for told in frames {
                    twist(told.resource.as_ref(), told.event.as_ref(), told.nth, told.twist);
                }
            }
            Blow::Travel(Trigger::Write(key, nth)) => {
                strike(&Which::Nth(key.clone(), *nth), &Fault::CrashAfter);
            }
            Blow::Travel(Trigger::Gone(resource)) => {
                twist(Some(resource), Some(&"DELETED".to_owned()), Some(1), Twist::Crash);
            }
            Blow::Expire(resource, Expiry::InStream) => proxy.tell(Control::Expire(Some(resource.clone()))),
            Blow::Expire(resource, Expiry::AtConnect) => {
                proxy.rules().expired.push(resource.clone());
                proxy.tell(Control::End(resource.clone()));
            }
            Blow::Expire(resource, Expiry::Continue) => {
                proxy.rules().paged = true;
                proxy.tell(Control::Expire(Some(resource.clone())));
            }
            Blow::Silence(resource) => proxy.tell(Control::Silence(Some(resource.clone()))),
            Blow::Outage(_) | Blow::Disturb(_) => {}
        }
    }

    /// Takes away what is left of the fault. Returns whether it came.
    pub(crate) fn disarm(&mut self) -> bool {
        let mut rules = self.lane.proxy.rules();
        let is_left = rules.heal(self.token) || rules.paged || !rules.expired.is_empty();
        if self.planned.id.class.is_exclusive() {
            (rules.paged, rules.expired) = (false, Vec::new());
        }
        self.struck && !is_left
    }

    /// Does what the fault wants done now.
    pub(crate) fn attend(&mut self) -> Result<()> {
        if self.planned.id.class.is_exclusive() && self.lane.crash().is_some() {
            self.lane.kill()?;
            if matches!(self.planned.blow, Blow::Travel(_)) {
                self.lane.proxy.rules().stale = self.past();
                self.travels = Some(Instant::now());
            }
            self.lane.revive()?;
        }
        if self.travels.is_some_and(|since| since.elapsed() >= PAST) {
            self.travels = None;
            self.lane.proxy.rules().stale = None;
            self.lane.proxy.tell(Control::Expire(None));
        }
        if let Blow::Requests { heals: Some(after), .. } = &self.planned.blow
            && self.began.elapsed() >= *after
        {
            self.lane.proxy.rules().heal(self.token);
        }
        Ok(())
    }

    /// What there was before anything was deleted. There may be nothing of it if the observer is behind: then there is no
    /// past to show.
    fn past(&mut self) -> Option<Stale> {
        let story = self.lane.stage.observer.story(self.token);
        let ends = |change: &&Change| {
            change.is_gone || change.object.pointer("/metadata/deletionTimestamp").is_some()
        };
        let first = story.changes.iter().skip(self.mark).filter(ends).map(|change| change.version).min();
        self.struck = first.is_some();
        let mut objects = HashMap::<_, Vec<_>>::new();
        for (id, object) in story.before(first?) {
            let kind = OBSERVED.into_iter().find(|kind| kind.singular == id.kind)?;
            objects.entry(kind.resource()).or_default().push((*object).clone());
        }
        Some(Stale { token: self.token, objects })
    }

    /// Waits until all is as without a fault, and stays so. Returns what differs if it does not come to that.
    pub(crate) async fn converge(&mut self) -> Result<Option<String>> {
        let observer = &self.lane.stage.observer;
        let deadline = Instant::now() + self.planned.patience(&self.lane.stage);
        let mut count = usize::MAX;
        let mut differs = None;
        let mut since = Instant::now();
        loop {
            self.attend()?;
            if observer.count(self.token) != count {
                count = observer.count(self.token);
                differs = self.differs(&observer.state(self.token));
                since = Instant::now();
            }
            if differs.is_none() && since.elapsed() >= QUIET && self.travels.is_none() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(differs.or_else(|| Some("it does not come to rest".to_owned())));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What is not as without a fault.
    fn differs(&self, state: &State) -> Option<String> {
        let outdated = state.iter().find(|(_, object)| {
            object.pointer("/status/observedGeneration").is_some() && !tells_of_present(object)
        });
        if let Some((id, _)) = outdated {
            return Some(format!("the status of {} {} is about another spec", id.kind, id.name));
        }
        difference(&self.reference.end, &end_state(self.token, state))
    }

    pub(crate) fn violations(&self, said: u64, took: Duration) -> Result<Vec<String>> {
        let story = self.lane.stage.observer.story(self.token);
        let mut broken = violations(&story);
        broken.extend(surplus(
            &self.reference.counts,
            &counts(self.token, &story),
            self.planned.allowed(self.token, self.reference),
        ));
        if !matches!(self.planned.blow, Blow::Disturb(_)) {
            broken.extend(lost(self.token, &self.reference.counts, &story));
        }
        let writes = self.lane.proxy.rules().writes(self.token);
        let blind = writes.iter().filter(|write| write.deletes_blindly);
        broken.extend(blind.map(|write| format!("{} does not say which UID it means", write.key)));
        let minutes = usize::try_from(took.as_secs() / 60).unwrap_or_default() + 1;
        broken.extend(complaints(self.token, &self.lane.words(said)?, minutes));
        Ok(broken)
    }

    /// What has happened, for whoever has to find out why: the changes, and the writes of the manager.
    pub(crate) fn story(&self) -> Vec<String> {
        let changes = self.lane.stage.observer.story(self.token).in_order();
        let writes = self.lane.proxy.rules().writes(self.token);
        let writes =
            writes.iter().map(|write| format!("answer to the manager: {} {}", write.key, write.code));
        changes.iter().map(ToString::to_string).chain(writes).collect()
    }
}
