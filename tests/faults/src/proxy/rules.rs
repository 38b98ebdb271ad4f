//! Which request and which frame of a watch meets a fault. Pure.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use super::{
    asked::{Asked, Key},
    frames::Told,
};
use crate::token::Token;

/// What is done to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The manager dies before the request is passed on.
    CrashBefore,
    /// The request is carried out, and the manager dies before it knows.
    CrashAfter,
    /// The request is carried out, and its connection breaks before the answer.
    Lost,
    /// Somebody else changes the object first.
    Conflict,
    /// The request is not passed on; it gets this answer.
    Answer {
        /// The status.
        code: u16,
        /// After how many seconds to try again, if the answer says so.
        retry_after: Option<u32>,
    },
    /// The request is passed on later.
    Delay(Duration),
}

/// Which requests of a run meet a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The n-th write of this key, counted from 1; once.
    Nth(Key, usize),
    /// Every write of this verb to this resource, until the rule is taken away.
    Writes {
        /// As in [`Asked`].
        verb: String,
        /// As in [`Asked`].
        resource: String,
    },
    /// Every request, until the rule is taken away.
    Everything,
}

/// A fault for requests of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRule {
    /// The run.
    pub token: Token,
    /// Which of its requests.
    pub which: Which,
    /// What is done to them.
    pub fault: Fault,
}

/// What is done to a frame of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// It and all later ones of the run are hidden, until the watch is told after this time that it has expired.
    Hide(Duration),
    /// It comes twice.
    Twice,
    /// It comes this much later, and those of the run behind it too.
    Late(Duration),
    /// The manager dies of it.
    Crash,
    /// The frame of the same object before it comes once more behind it, and it itself once more after this time.
    Again(Duration),
}

/// A fault for frames of watches that are about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRule {
    /// The run.
    pub token: Token,
    /// The resource that is watched, or any.
    pub resource: Option<String>,
    /// What the frame tells, or anything.
    pub event: Option<String>,
    /// The n-th frame of that resource that tells this, counted from 1; or each.
    pub nth: Option<usize>,
    /// What is done to it.
    pub twist: Twist,
}

/// What a watch is to show of a run instead of what there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Stale {
    /// The run.
    pub token: Token,
    /// Its objects as they were, by resource.
    pub objects: HashMap<String, Vec<Value>>,
}

/// A write, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The run.
    pub token: Token,
    /// What was written.
    pub key: Key,
    /// The status of the answer of the API server.
    pub code: u16,
    /// Whether the object is another one after it.
    pub changed: bool,
    /// Whether it deletes whatever has that name.
    pub deletes_blindly: bool,
}

/// A frame that was passed on.
pub type Notice = (Token, String, String);

/// All faults that are to come, and all that has passed.
#[derive(Debug, Default)]
pub struct Rules {
    requests: Vec<RequestRule>,
    frames: Vec<FrameRule>,
    written: HashMap<(Token, Key), usize>,
    told: HashMap<Notice, usize>,
    /// The last known resource version of each object.
    versions: HashMap<(String, String, String), String>,
    /// The writes of all runs, in the order of their answers.
    pub records: Vec<Record>,
    /// What watches are to show instead.
    pub stale: Option<Stale>,
    /// Resources of which the next watch is told that its version has expired.
    pub expired: Vec<String>,
    /// Whether lists are not streamed but come in pages, of which the first rest has expired.
    pub paged: bool,
}

impl Rules {
    /// Adds a fault for requests.
    pub fn strike(&mut self, rule: RequestRule) {
        self.requests.push(rule);
    }

    /// Adds a fault for frames.
    pub fn twist(&mut self, rule: FrameRule) {
        self.frames.push(rule);
    }

    /// Takes away all faults of a run that are left. Returns whether there were any that wait for one request or frame.
    pub fn heal(&mut self, token: Token) -> bool {
        let waits = |rule: &RequestRule| matches!(rule.which, Which::Nth(..));
        let waiting = self.requests.iter().any(|rule| rule.token == token && waits(rule))
            || self.frames.iter().any(|rule| rule.token == token && rule.nth.is_some());
        self.requests.retain(|rule| rule.token != token);
        self.frames.retain(|rule| rule.token != token);
        waiting
    }

    /// Counts a request, and says what it meets.
    pub fn meet(&mut self, asked: &Asked) -> Option<Fault> {
        let token = asked.token()?;
        let key = asked.key();
        let mut nth = 0;
        if asked.is_write() {
            let count = self.written.entry((token, key.clone())).or_default();
            *count += 1;
            nth = *count;
        }
        let meets = |rule: &RequestRule| {
            rule.token == token
                && match &rule.which {
                    Which::Nth(of, at) => asked.is_write() && *of == key && *at == nth,
                    Which::Writes { verb, resource } => *verb == key.verb && *resource == key.resource,
                    Which::Everything => true,
                }
        };
        let place = self.requests.iter().position(meets)?;
        let rule = self.requests.get(place)?;
        let fault = rule.fault.clone();
        if matches!(rule.which, Which::Nth(..)) {
            self.requests.remove(place);
        }
        Some(fault)
    }

    /// Counts a frame, and says what is done to it.
    pub fn tell(&mut self, resource: &str, told: &Told) -> Option<Twist> {
        let token = told.token()?;
        self.saw(resource, &told.namespace, &told.name, &told.version);
        let count = self.told.entry((token, resource.to_owned(), told.event.clone())).or_default();
        *count += 1;
        let nth = *count;
        let meets = |rule: &FrameRule| {
            rule.token == token
                && rule.resource.as_ref().is_none_or(|wanted| wanted == resource)
                && rule.event.as_ref().is_none_or(|wanted| *wanted == told.event)
                && rule.nth.is_none_or(|wanted| wanted == nth)
        };
        let place = self.frames.iter().position(meets)?;
        let rule = self.frames.get(place)?;
        let twist = rule.twist;
        if rule.nth.is_some() {
            self.frames.remove(place);
        }
        Some(twist)
    }

    /// How many frames have passed of a run, by resource and event.
    pub fn notices(&self, token: Token) -> Vec<(String, String, usize)> {
        let of_run = self.told.iter().filter(|((of, ..), _)| *of == token);
        let mut notices: Vec<_> =
            of_run.map(|((_, resource, event), count)| (resource.clone(), event.clone(), *count)).collect();
        notices.sort();
        notices
    }

    /// The last known resource version of the object that a request is about.
    pub fn known(&self, asked: &Asked) -> Option<String> {
        self.versions.get(&object(asked)).cloned()
    }

    /// Takes in the answer to a write. `before` is what was known when it was sent on.
    pub fn answered(
        &mut self,
        asked: &Asked,
        before: Option<&String>,
        body: &[u8],
        code: u16,
        answer: &[u8],
    ) {
        let Some(token) = asked.token().filter(|_| asked.is_write()) else { return };
        let version = version(answer).unwrap_or_default();
        let (resource, namespace, name) = object(asked);
        self.saw(&resource, &namespace, &name, &version);
        let always = ["create", "delete"].contains(&asked.verb);
        self.records.push(Record {
            token,
            key: asked.key(),
            code,
            changed: code < 300 && (always || before != Some(&version)),
            deletes_blindly: asked.verb.starts_with("delete") && !has_uid(body),
        });
    }

    /// Takes in a resource version of an object.
    fn saw(&mut self, resource: &str, namespace: &str, name: &str, version: &str) {
        let object = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let number = |version: &str| version.parse::<u64>().unwrap_or_default();
        if self.versions.get(&object).is_none_or(|before| number(before) < number(version)) {
            self.versions.insert(object, version.to_owned());
        }
    }

    /// The writes of a run, in the order of their answers.
    pub fn writes(&self, token: Token) -> Vec<Record> {
        self.records.iter().filter(|record| record.token == token).cloned().collect()
    }

    /// Forgets what has passed of a run.
    pub fn forget(&mut self, token: Token) {
        self.records.retain(|record| record.token != token);
        self.written.retain(|(of, _), _| *of != token);
        self.told.retain(|(of, ..), _| *of != token);
        self.versions.retain(|(_, namespace, name), _| Token::of(namespace, name) != Some(token));
    }
}

/// The resource, namespace and name of the object that a request is about.
fn object(asked: &Asked) -> (String, String, String) {
    let resource = asked.resource.split('/').next().unwrap_or_default();
    (resource.to_owned(), asked.namespace.clone(), asked.name.clone())
}

/// The resource version of the object in an answer.
fn version(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    Some(answer.pointer("/metadata/resourceVersion")?.as_str()?.to_owned())
}

/// Whether the options of a deletion name the UID of what is to be deleted.
fn has_uid(body: &[u8]) -> bool {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    body.is_some_and(|body| body.pointer("/preconditions/uid").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests;
