//! Reads the API server's audit log.
//!
//! The API server writes an entry after it has sent the response. A test must therefore poll the
//! log, see [`crate::wait::eventually`]. Requests of the control plane itself are not logged.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::Cluster;

/// A completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Time at which the API server received the request.
    pub time: Timestamp,
    /// Time at which the API server completed the response.
    pub answered: Timestamp,
    /// User of the request. If the request impersonates a user: the impersonated user.
    pub user: String,
    /// User that authenticated, if the request impersonates another user.
    pub impersonator: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, or `deletecollection`.
    pub verb: String,
    /// API group. Empty for the core group and for non-resource requests.
    pub group: String,
    /// Plural of the resource. Empty for non-resource requests.
    pub resource: String,
    /// `status`, `finalizers`, and so on. Empty if the request has no subresource.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and for generated names.
    pub name: String,
    /// HTTP status code of the response.
    pub code: u16,
    /// Value of the `User-Agent` header.
    pub user_agent: String,
    /// Path and query of the request.
    pub request_uri: String,
}

impl Entry {
    /// Returns whether the request can change an object. Reviews are created, and stored nowhere.
    pub fn is_write(&self) -> bool {
        let is_review = matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io");
        !is_review && !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// Audit entries in the order in which the requests completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLog {
    /// All entries.
    pub entries: Vec<Entry>,
}

impl AuditLog {
    /// Keeps the entries for which `keep` returns true.
    #[must_use]
    pub fn filter(mut self, keep: impl FnMut(&Entry) -> bool) -> Self {
        self.entries.retain(keep);
        self
    }

    /// Keeps the entries of one user.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.filter(|entry| entry.user == user)
    }

    /// Keeps the entries whose user agent starts with `prefix`.
    #[must_use]
    pub fn by_user_agent(self, prefix: &str) -> Self {
        self.filter(|entry| entry.user_agent.starts_with(prefix))
    }

    /// Keeps the entries of one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.filter(|entry| entry.namespace == namespace)
    }

    /// Keeps the entries of writes.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(Entry::is_write)
    }
}

/// Position in the log, see [`Cluster::audit_since`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u64);

impl Cluster {
    /// Returns all entries of the log.
    pub fn audit(&self) -> Result<AuditLog> {
        self.audit_since(Mark::default())
    }

    /// Returns the current end of the log.
    pub fn audit_mark(&self) -> Result<Mark> {
        let path = &self.record().audit_log;
        let length = std::fs::metadata(path)
            .with_context(|| format!("read the size of the audit log {}", path.display()))?
            .len();
        Ok(Mark(length))
    }

    /// Returns the entries that were written after `mark`.
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

/// Parses complete lines. Skips the last line if the API server is still writing it, and the first
/// line if a mark cut it in two.
fn parse(text: &[u8]) -> Result<AuditLog> {
    let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text.get(..complete).unwrap_or_default().split(|byte| *byte == b'\n');
    let entries = lines
        .filter(|line| line.starts_with(b"{"))
        .map(|line| {
            let event: Event = serde_json::from_slice(line)
                .with_context(|| format!("parse the audit event {}", String::from_utf8_lossy(line)))?;
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
    fn parses_fields_of_an_event() {
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
    fn parses_non_resource_requests() {
        let log = parse(format!("{DISCOVERY}\n").as_bytes()).unwrap();
        assert_eq!(log.entries[0].resource, "");
        assert!(!log.entries[0].is_write());
    }

    #[test]
    fn review_is_no_write() {
        let review = CREATE
            .replace(r#""verb":"patch""#, r#""verb":"create""#)
            .replace(r#""apiGroup":"apps""#, r#""apiGroup":"authentication.k8s.io""#);
        let log = parse(format!("{review}\n").as_bytes()).unwrap();
        assert_eq!(log.entries[0].verb, "create");
        assert!(!log.entries[0].is_write());
    }

    #[test]
    fn skips_incomplete_last_line() {
        let text = format!("{CREATE}\n{}", &DISCOVERY[..40]);
        assert_eq!(parse(text.as_bytes()).unwrap().entries.len(), 1);
    }

    #[test]
    fn filters_entries_by_user_and_user_agent() {
        let log = parse(format!("{CREATE}\n{DISCOVERY}\n").as_bytes()).unwrap();
        assert_eq!(log.clone().by_user("jane").entries.len(), 1);
        assert_eq!(log.clone().by_user_agent("ensemble/").writes().entries.len(), 1);
        assert_eq!(log.in_namespace("other").entries.len(), 0);
    }
}
