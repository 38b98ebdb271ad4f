//! Determines which requests and frames get a fault. Pure.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use super::{
    frames::FrameInfo,
    request_info::{Key, RequestInfo},
};
use crate::token::Token;

/// A fault for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The manager crashes before the request is forwarded.
    CrashBefore,
    /// The request is executed, and the manager crashes before the response.
    CrashAfter,
    /// The request is executed, and the connection is closed before the response.
    Lost,
    /// A third party updates the object first.
    Conflict,
    /// The request is not forwarded; the proxy responds.
    Answer {
        /// The status code.
        code: u16,
        /// Value of the Retry-After header, in seconds.
        retry_after: Option<u32>,
    },
    /// The request is delayed.
    Delay(Duration),
}

/// The requests that get a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The n-th write of this key, counted from 1.
    Nth(Key, usize),
    /// All writes of this verb and resource, until the rule is removed.
    Writes {
        /// As in [`RequestInfo`].
        verb: String,
        /// As in [`RequestInfo`].
        resource: String,
    },
    /// All requests, until the rule is removed.
    Everything,
}

/// A fault for requests of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRule {
    /// The run.
    pub token: Token,
    /// The requests.
    pub which: Which,
    /// The fault.
    pub fault: Fault,
}

/// A fault for a watch frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// This frame and all later ones of the run are hidden. After this time, the watch expires.
    Hide(Duration),
    /// It is sent twice.
    Duplicate,
    /// It and later frames of the run are delayed by this time.
    Late(Duration),
    /// The manager crashes.
    Crash,
    /// The previous frame of the object is sent again after it. After this time, the frame itself
    /// is sent again.
    Again(Duration),
}

/// A fault for frames of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRule {
    /// The run.
    pub token: Token,
    /// The watched resource, or any.
    pub resource: Option<String>,
    /// The event type, or any.
    pub event: Option<String>,
    /// The n-th matching frame, counted from 1, or all.
    pub nth: Option<usize>,
    /// The fault.
    pub fault: FrameFault,
}

/// An outdated state that lists and watches return for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stale {
    /// The run.
    pub token: Token,
    /// The objects, by resource.
    pub objects: HashMap<String, Vec<Value>>,
}

/// A recorded write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The run.
    pub token: Token,
    /// The write.
    pub key: Key,
    /// The status code of the response.
    pub code: u16,
    /// Whether the write changed the object.
    pub changed: bool,
    /// Whether it is a delete without a UID precondition.
    pub lacks_uid: bool,
}

/// Run, resource, and event type of a forwarded frame.
pub type FrameRecord = (Token, String, String);

/// All pending faults, and all recorded requests and frames.
#[derive(Debug, Default)]
pub struct Rules {
    requests: Vec<RequestRule>,
    frames: Vec<FrameRule>,
    written: HashMap<(Token, Key), usize>,
    /// Number of writes of each run that have no response yet.
    pending: HashMap<Token, usize>,
    frame_counts: HashMap<FrameRecord, usize>,
    /// The last known resource version of each object.
    versions: HashMap<(String, String, String), String>,
    /// The writes of all runs, in the order of their responses.
    pub records: Vec<Record>,
    /// Outdated states to return.
    pub stale: Option<Stale>,
    /// Resources whose next watch expires.
    pub expired: Vec<String>,
    /// Whether lists are paginated, with an expired continue token.
    pub paged: bool,
}

impl Rules {
    /// Adds a fault for requests.
    pub fn add_request_fault(&mut self, rule: RequestRule) {
        self.requests.push(rule);
    }

    /// Adds a fault for frames.
    pub fn add_frame_fault(&mut self, rule: FrameRule) {
        self.frames.push(rule);
    }

    /// Removes all faults of a run. Returns whether a one-time fault was still pending.
    pub fn clear_faults(&mut self, token: Token) -> bool {
        let waits = |rule: &RequestRule| matches!(rule.which, Which::Nth(..));
        let waiting = self.requests.iter().any(|rule| rule.token == token && waits(rule))
            || self.frames.iter().any(|rule| rule.token == token && rule.nth.is_some());
        self.requests.retain(|rule| rule.token != token);
        self.frames.retain(|rule| rule.token != token);
        waiting
    }

    /// Counts a request and returns its fault.
    pub fn fault_for_request(&mut self, info: &RequestInfo) -> Option<Fault> {
        let token = info.token()?;
        let key = info.key();
        let mut nth = 0;
        if info.is_write() {
            let count = self.written.entry((token, key.clone())).or_default();
            *count += 1;
            nth = *count;
        }
        let meets = |rule: &RequestRule| {
            rule.token == token
                && match &rule.which {
                    Which::Nth(of, at) => info.is_write() && *of == key && *at == nth,
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

    /// Counts a frame and returns its fault.
    pub fn fault_for_frame(&mut self, resource: &str, info: &FrameInfo) -> Option<FrameFault> {
        let token = info.token()?;
        self.saw(resource, &info.namespace, &info.name, &info.version);
        let count = self.frame_counts.entry((token, resource.to_owned(), info.event.clone())).or_default();
        *count += 1;
        let nth = *count;
        let meets = |rule: &FrameRule| {
            rule.token == token
                && rule.resource.as_ref().is_none_or(|wanted| wanted == resource)
                && rule.event.as_ref().is_none_or(|wanted| *wanted == info.event)
                && rule.nth.is_none_or(|wanted| wanted == nth)
        };
        let place = self.frames.iter().position(meets)?;
        let rule = self.frames.get(place)?;
        let fault = rule.fault;
        if rule.nth.is_some() {
            self.frames.remove(place);
        }
        Some(fault)
    }

    /// Returns the number of frames of a run, by resource and event type.
    pub fn frame_counts(&self, token: Token) -> Vec<(String, String, usize)> {
        let of_run = self.frame_counts.iter().filter(|((of, ..), _)| *of == token);
        let mut frame_counts: Vec<_> =
            of_run.map(|((_, resource, event), count)| (resource.clone(), event.clone(), *count)).collect();
        frame_counts.sort();
        frame_counts
    }

    /// Records that a write began.
    pub fn begin_write(&mut self, token: Token) {
        *self.pending.entry(token).or_default() += 1;
    }

    /// Records that a write got its response, or will get none.
    pub fn end_write(&mut self, token: Token) {
        let left = self.pending(token).saturating_sub(1);
        self.pending.insert(token, left);
    }

    /// Returns the number of writes of a run that have no response yet.
    pub fn pending(&self, token: Token) -> usize {
        self.pending.get(&token).copied().unwrap_or_default()
    }

    /// Returns the last known resource version of the object of a request.
    pub fn known(&self, info: &RequestInfo) -> Option<String> {
        self.versions.get(&object(info)).cloned()
    }

    /// Records the response to a write. `before` is the known version when it was forwarded.
    pub fn answered(
        &mut self,
        info: &RequestInfo,
        before: Option<&String>,
        body: &[u8],
        code: u16,
        answer: &[u8],
    ) {
        let Some(token) = info.token().filter(|_| info.is_write()) else { return };
        let version = version(answer).unwrap_or_default();
        let (resource, namespace, name) = object(info);
        self.saw(&resource, &namespace, &name, &version);
        let always = ["create", "delete"].contains(&info.verb);
        self.records.push(Record {
            token,
            key: info.key(),
            code,
            changed: code < 300 && (always || before != Some(&version)),
            lacks_uid: info.verb.starts_with("delete") && !has_uid(body),
        });
    }

    /// Records a resource version.
    fn saw(&mut self, resource: &str, namespace: &str, name: &str, version: &str) {
        let object = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        let number = |version: &str| version.parse::<u64>().unwrap_or_default();
        if self.versions.get(&object).is_none_or(|before| number(before) < number(version)) {
            self.versions.insert(object, version.to_owned());
        }
    }

    /// Returns the writes of a run, in the order of their responses.
    pub fn writes(&self, token: Token) -> Vec<Record> {
        self.records.iter().filter(|record| record.token == token).cloned().collect()
    }

    /// Drops the records of a run.
    pub fn forget(&mut self, token: Token) {
        self.records.retain(|record| record.token != token);
        self.written.retain(|(of, _), _| *of != token);
        self.pending.retain(|_, count| *count > 0);
        self.frame_counts.retain(|(of, ..), _| *of != token);
        self.versions.retain(|(_, namespace, name), _| Token::of(namespace, name) != Some(token));
    }
}

/// Returns resource, namespace, and name of the object of a request.
fn object(info: &RequestInfo) -> (String, String, String) {
    let resource = info.resource.split('/').next().unwrap_or_default();
    (resource.to_owned(), info.namespace.clone(), info.name.clone())
}

/// Returns the resource version in a response.
fn version(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    Some(answer.pointer("/metadata/resourceVersion")?.as_str()?.to_owned())
}

/// Returns whether delete options have a UID precondition.
fn has_uid(body: &[u8]) -> bool {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    body.is_some_and(|body| body.pointer("/preconditions/uid").is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests;
