//! The API server's audit log: who did what.
//!
//! The server writes an entry after it has answered, so a test that has its answer may be ahead of the log; see [`crate::wait::eventually`].
//! The control plane's own parts are not in it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::Cluster;

/// One finished request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the request arrived.
    pub time: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
    /// Who sent it; for an impersonating request the impersonated user.
    pub user: String,
    /// Who really sent it when it was impersonating.
    pub impersonator: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`
    pub verb: String,
    /// The API group; empty for the core group and for requests of no resource.
    pub group: String,
    /// The plural of the resource; empty for requests of no resource.
    pub resource: String,
    /// `status`, `finalizers`, ... or empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and for names that the server generates.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// What the client calls itself.
    pub user_agent: String,
    /// Path and query.
    pub request_uri: String,
}

impl Entry {
    /// Whether the request was one that changes something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// Entries in the order in which they were finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLog {
    /// All of them.
    pub entries: Vec<Entry>,
}

impl AuditLog {
    /// Those that satisfy `keep`.
    #[must_use]
    pub fn filter(mut self, keep: impl FnMut(&Entry) -> bool) -> Self {
        self.entries.retain(keep);
        self
    }

    /// Those of one user.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.filter(|entry| entry.user == user)
    }

    /// Those of clients whose user agent begins so.
    #[must_use]
    pub fn by_user_agent(self, beginning: &str) -> Self {
        self.filter(|entry| entry.user_agent.starts_with(beginning))
    }

    /// Those within one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.filter(|entry| entry.namespace == namespace)
    }

    /// Those that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(Entry::is_write)
    }
}

/// A place in the log, see [`Cluster::audit_since`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

impl Cluster {
    /// The whole log.
    pub fn audit(&self) -> Result<AuditLog> {
        self.audit_since(Mark::default())
    }

    /// The place up to which the log is written now.
    pub fn audit_mark(&self) -> Result<Mark> {
        let path = &self.record().audit_log;
        let length = std::fs::metadata(path)
            .with_context(|| format!("look at the audit log {}", path.display()))?
            .len();
        Ok(Mark(length))
    }

    /// What was written after `mark`.
    pub fn audit_since(&self, mark: Mark) -> Result<AuditLog> {
        read(&self.record().audit_log, mark)
    }
}

fn read(path: &Path, mark: Mark) -> Result<AuditLog> {
    let mut text = Vec::new();
    let mut read = || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(mark.0))?;
        file.read_to_end(&mut text)
    };
    read().with_context(|| format!("read the audit log {}", path.display()))?;
    parse(&text)
}

/// The server may be in the middle of the last line; that one is left for the next look. So is the rest of one that a mark cut in two.
fn parse(text: &[u8]) -> Result<AuditLog> {
    let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text.get(..complete).unwrap_or_default().split(|byte| *byte == b'\n');
    let entries = lines
        .filter(|line| line.starts_with(b"{"))
        .map(|line| {
            let event: Event = serde_json::from_slice(line)
                .with_context(|| format!("read the audit event {}", String::from_utf8_lossy(line)))?;
            Ok(Entry::from(event))
        })
        .collect::<Result<_>>()?;
    Ok(AuditLog { entries })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Default, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        let (user, impersonator) = match event.impersonated_user {
            Some(impersonated) => (impersonated.username, Some(event.user.username)),
            None => (event.user.username, None),
        };
        let ObjectRef { resource, subresource, namespace, name, api_group } = event.object_ref;
        Self {
            time: event.request_received_timestamp,
            answered: event.stage_timestamp,
            user,
            impersonator,
            verb: event.verb,
            group: api_group,
            resource,
            subresource,
            namespace,
            name,
            code: event.response_status.code,
            user_agent: event.user_agent,
            request_uri: event.request_uri,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/apis/apps/v1/namespaces/n/deployments/d/status?x=1","verb":"patch","user":{"username":"ensemble-admin","groups":["system:masters"]},"impersonatedUser":{"username":"jane"},"sourceIPs":["127.0.0.1"],"userAgent":"ensemble/0.1 (podset)","objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps","apiVersion":"v1","subresource":"status"},"responseStatus":{"metadata":{},"code":403},"requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z","stageTimestamp":"2026-01-02T03:04:05.7Z"}"#;
    const DISCOVERY: &str = r#"{"requestURI":"/api","verb":"get","user":{"username":"system:anonymous"},"requestReceivedTimestamp":"2026-01-02T03:04:05Z","stageTimestamp":"2026-01-02T03:04:06Z"}"#;

    #[test]
    fn a_line_is_read_into_its_parts() {
        let log = parse(format!("{CREATE}\n").as_bytes()).unwrap();
        let entry = &log.entries[0];
        assert_eq!((entry.user.as_str(), entry.impersonator.as_deref()), ("jane", Some("ensemble-admin")));
        assert_eq!((entry.verb.as_str(), entry.code), ("patch", 403));
        assert_eq!(
            (entry.group.as_str(), entry.resource.as_str(), entry.subresource.as_str()),
            ("apps", "deployments", "status")
        );
        assert!(entry.is_write() && entry.answered > entry.time);
    }

    #[test]
    fn a_request_of_no_resource_is_fine() {
        let log = parse(format!("{DISCOVERY}\n").as_bytes()).unwrap();
        assert_eq!(log.entries[0].resource, "");
        assert!(!log.entries[0].is_write());
    }

    #[test]
    fn a_line_that_is_being_written_is_left_out() {
        let text = format!("{CREATE}\n{}", &DISCOVERY[..40]);
        assert_eq!(parse(text.as_bytes()).unwrap().entries.len(), 1);
    }

    #[test]
    fn entries_are_found_by_user_and_by_user_agent() {
        let log = parse(format!("{CREATE}\n{DISCOVERY}\n").as_bytes()).unwrap();
        assert_eq!(log.clone().by_user("jane").entries.len(), 1);
        assert_eq!(log.clone().by_user_agent("ensemble/").writes().entries.len(), 1);
        assert_eq!(log.in_namespace("other").entries.len(), 0);
    }
}
