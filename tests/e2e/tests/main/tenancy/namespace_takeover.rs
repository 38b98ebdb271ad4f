//! Attempts to move namespaces between Tenants or into a Tenant, by every kind of user except
//! administrators, with every kind of write, and endpoint every resource that can change a
//! namespace.

use std::fmt;

use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Subject, TENANT_LABEL, shared_env};
use crate::support::TestEnv;

/// Kind of write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Write {
    Put,
    Merge,
    Strategic,
    Json,
    Apply,
}

pub(super) const WRITES: [Write; 5] = [Write::Put, Write::Merge, Write::Strategic, Write::Json, Write::Apply];

/// Resource that the write is sent to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Endpoint {
    Itself,
    Status,
    Finalize,
}

/// Change of the metadata: labels and annotations that are set (or removed, if null), and all owner
/// references.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) labels: Vec<(&'static str, Value)>,
    pub(super) annotations: Vec<(&'static str, Value)>,
    pub(super) references: Option<Vec<Value>>,
}

impl Change {
    pub(super) fn label(value: impl Into<Value>) -> Self {
        Self { labels: vec![(TENANT_LABEL, value.into())], ..Self::default() }
    }

    pub(super) fn references<const N: usize>(references: [&Value; N]) -> Self {
        Self { references: Some(references.into_iter().cloned().collect()), ..Self::default() }
    }

    fn and(self, other: Self) -> Self {
        Self {
            labels: [self.labels, other.labels].concat(),
            annotations: [self.annotations, other.annotations].concat(),
            references: other.references.or(self.references),
        }
    }

    fn entries(&self) -> [(&'static str, &Vec<(&'static str, Value)>); 2] {
        [("labels", &self.labels), ("annotations", &self.annotations)]
    }

    /// Returns the change as a merge patch. `replaced` encodes the list of owner references.
    fn merge_patch(&self, replaced: impl Fn(&[Value]) -> Value) -> Value {
        let mut metadata = json!({});
        for (field, entries) in self.entries() {
            for (key, value) in entries {
                metadata[field][*key] = value.clone();
            }
        }
        if let Some(references) = &self.references {
            metadata["ownerReferences"] = replaced(references);
        }
        json!({ "metadata": metadata })
    }

    fn json_patch(&self) -> Value {
        let mut operations = Vec::new();
        for (field, entries) in self.entries() {
            if field == "annotations" && !entries.is_empty() {
                operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
            }
            for (key, value) in entries {
                let path = format!("/metadata/{field}/{}", key.replace('/', "~1"));
                operations.push(match value {
                    Value::Null => json!({ "op": "remove", "path": path }),
                    value => json!({ "op": "add", "path": path, "value": value }),
                });
            }
        }
        if let Some(references) = &self.references {
            operations.push(json!({ "op": "add", "path": "/metadata/ownerReferences", "value": references }));
        }
        operations.into()
    }

    /// Returns the namespace after the change.
    fn apply_to(&self, mut namespace: Value) -> Value {
        for (field, entries) in self.entries() {
            for (key, value) in entries {
                if value.is_null() {
                    namespace["metadata"][field].as_object_mut().unwrap().remove(*key);
                } else {
                    namespace["metadata"][field][*key] = value.clone();
                }
            }
        }
        if let Some(references) = &self.references {
            namespace["metadata"]["ownerReferences"] = references.clone().into();
        }
        namespace
    }

    /// Returns whether server-side apply can make the change. It removes only what the same field
    /// manager applied before.
    fn can_be_applied(&self) -> bool {
        let is_set = |(_, value): &(&str, Value)| !value.is_null();
        self.labels.iter().all(is_set)
            && self.references.as_ref().is_none_or(|references| !references.is_empty())
    }
}

/// An attempt to change a namespace.
pub(super) struct Attempt<'s> {
    pub(super) subject: &'s Subject,
    /// API of namespaces with the subject's client.
    pub(super) api: &'s Api<Namespace>,
    pub(super) namespace: &'s str,
    pub(super) change: &'s Change,
    pub(super) write: Write,
    pub(super) endpoint: Endpoint,
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, namespace, change, write, endpoint, .. } = self;
        write!(f, "{} writes {namespace} by {write:?} endpoint {endpoint:?}: {change:?}", subject.name)
    }
}

impl Attempt<'_> {
    /// Returns whether the API server supports such a request and it would have an effect.
    fn is_possible(&self) -> bool {
        let by_patch = self.write != Write::Put;
        (self.endpoint != Endpoint::Finalize || !by_patch)
            && (self.write != Write::Apply || self.change.can_be_applied())
    }

    /// Sends the request and returns its result.
    pub(super) async fn send(&self) -> Result<(), String> {
        loop {
            let ended = if self.write == Write::Put { self.put().await } else { self.patch().await };
            let is_conflict =
                |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 409);
            // Another attempt was stored in between: retry.
            if !ended.as_ref().is_err_and(is_conflict) {
                break ended.map_err(|error| error.to_string());
            }
        }
    }

    async fn put(&self) -> kube::Result<()> {
        let (api, params, name) = (self.api, PostParams::default(), self.namespace);
        let wanted = self.change.apply_to(serde_json::to_value(api.get(name).await?).unwrap());
        let wanted: Namespace = serde_json::from_value(wanted).unwrap();
        match self.endpoint {
            Endpoint::Itself => api.replace(name, &params, &wanted).await.map(drop),
            Endpoint::Status => api.replace_status(name, &params, &wanted).await.map(drop),
            Endpoint::Finalize => api.replace_subresource("finalize", name, &params, &wanted).await.map(drop),
        }
    }

    async fn patch(&self) -> kube::Result<()> {
        let api = self.api;
        let as_list = |references: &[Value]| Value::from(references.to_vec());
        let instead = |references: &[Value]| {
            let replace = json!({ "$patch": "replace" });
            Value::from([&[replace], references].concat())
        };
        let (plain, forced) = (PatchParams::default(), PatchParams::apply("hijacker").force());
        let (patch, params): (Patch<Value>, _) = match self.write {
            Write::Merge | Write::Put => (Patch::Merge(self.change.merge_patch(as_list)), plain),
            Write::Strategic => (Patch::Strategic(self.change.merge_patch(instead)), plain),
            Write::Json => {
                let operations = serde_json::from_value(self.change.json_patch()).unwrap();
                (Patch::Json::<Value>(operations), plain)
            }
            Write::Apply => {
                let mut applied = self.change.merge_patch(as_list);
                applied["apiVersion"] = "v1".into();
                applied["kind"] = "Namespace".into();
                (Patch::Apply(applied), forced)
            }
        };
        match self.endpoint {
            Endpoint::Status => api.patch_status(self.namespace, &params, &patch).await.map(drop),
            _ => api.patch(self.namespace, &params, &patch).await.map(drop),
        }
    }
}

/// Expected result of attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// Admission rejects the request.
    Refused,
    /// Admission reverts the change. Endpoint `status` and `finalize` the request is rejected.
    Reverted,
}

/// Makes all combinations of changes and subjects concurrently, and asserts that admission rejects
/// them. Returns the number of attempts.
pub(super) async fn assert_refused(
    env: &TestEnv,
    subjects: &[Subject],
    namespaces: &[&str],
    changes: &[Change],
    endpoint: &[Endpoint],
) -> usize {
    assert_result(env, subjects, namespaces, changes, endpoint, Expected::Refused).await
}

/// Makes all combinations of changes and subjects concurrently. Asserts the result, and that the
/// namespaces are unchanged. Returns the number of attempts.
pub(super) async fn assert_result(
    env: &TestEnv,
    subjects: &[Subject],
    namespaces: &[&str],
    changes: &[Change],
    endpoint: &[Endpoint],
    expected: Expected,
) -> usize {
    let mut attempts = Vec::new();
    let apis = join_all(subjects.iter().map(|subject| subject.namespaces(env))).await;
    for (subject, api) in subjects.iter().zip(&apis) {
        for &namespace in namespaces {
            for change in changes {
                for write in WRITES {
                    let of = |&endpoint| Attempt { subject, api, namespace, change, write, endpoint };
                    attempts.extend(endpoint.iter().map(of).filter(Attempt::is_possible));
                }
            }
        }
    }
    let before = metadata(env, namespaces).await;
    let count = attempts.len();
    let ended = stream::iter(attempts).map(async |attempt| (attempt.send().await, attempt));
    let ended: Vec<_> = ended.buffer_unordered(8).collect().await;
    for (ended, attempt) in ended {
        if expected == Expected::Reverted && attempt.endpoint == Endpoint::Itself {
            ended.unwrap_or_else(|refused| panic!("{attempt:?}: {refused}"));
            continue;
        }
        let refused = ended.expect_err(&format!("{attempt:?}"));
        let is_ours = refused.contains("admission webhook \"namespaces.tenant.ensemble\" denied the request")
            || refused.contains("ValidatingAdmissionPolicy 'ensemble-tenant-system-namespaces'");
        assert!(is_ours, "{attempt:?}: {refused}");
    }
    assert_eq!(metadata(env, namespaces).await, before);
    count
}

/// Returns the parts of the namespaces' metadata that assign them to a Tenant.
async fn metadata(env: &TestEnv, namespaces: &[&str]) -> Vec<Value> {
    let all = env.read(&["get", "namespaces"]).await;
    let all = all["items"].as_array().unwrap().iter().map(|one| &one["metadata"]);
    let ours = all.filter(|one| namespaces.contains(&one["name"].as_str().unwrap()));
    ours.map(|one| json!([one["name"], one["labels"], one["ownerReferences"], one["annotations"]])).collect()
}

/// Returns owners of a Tenant of each kind (the last one in none of the configured groups), an
/// owner of another Tenant, and an unrelated ServiceAccount.
pub(super) async fn subjects_of(env: &TestEnv, tenant: &str) -> [Subject; 6] {
    let user = Subject::user(&format!("user-of-{tenant}"));
    let member = Subject::member(&format!("member-of-{tenant}"), &format!("team-{tenant}"));
    let account = Subject::account(&format!("robots-of-{tenant}"), "owner").tenant_user();
    let groupless = Subject::account(&format!("robots-of-{tenant}"), "groupless");
    let rival = Subject::user(&format!("rival-of-{tenant}"));
    env.tenant(tenant, &[&user, &member, &account, &groupless], json!({})).await;
    env.tenant(&format!("{tenant}-rival"), &[&rival], json!({})).await;
    let unrelated = Subject::account(&format!("visitors-of-{tenant}"), "visitor");
    [user, member, account, groupless, rival, unrelated]
}

#[tokio::test]
async fn rejects_removal_from_and_move_to_another_tenant() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "held").await;
    subjects[0].create(env, "held-dev").await.unwrap();
    let (own, rival) = (env.reference("held").await, env.reference("held-rival").await);
    let mut forged = own.clone();
    forged["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let mut older = own.clone();
    older["apiVersion"] = "capsule.clastix.io/v1beta1".into();
    let mut controls = own.clone();
    controls["controller"] = true.into();
    let elsewhere = [
        Change::label("held-rival"),
        Change::references([&rival]),
        Change::references([&own, &rival]),
        Change::references([&own, &forged]),
        Change::references([&forged]),
        Change::label("held-rival").and(Change::references([&rival])),
    ];
    let taken_off = [
        Change::label(""),
        Change::label(Value::Null),
        Change::references([]),
        Change::references([&older]),
        Change::references([&controls]),
        Change::label(Value::Null).and(Change::references([])),
    ];
    let endpoint = [Endpoint::Itself, Endpoint::Status, Endpoint::Finalize];
    let all = [elsewhere.as_slice(), &taken_off].concat();
    let mut count = assert_refused(env, &subjects[4..], &["held-dev"], &all, &endpoint).await;
    count += assert_refused(env, &subjects[..4], &["held-dev"], &elsewhere, &endpoint).await;
    // Requests of owners may be mistakes, so the change is reverted instead of rejected.
    count +=
        assert_result(env, &subjects[..4], &["held-dev"], &taken_off, &endpoint, Expected::Reverted).await;
    assert!(count > 500, "{count}");
}

#[tokio::test]
async fn rejects_takeover_of_foreign_unassigned_and_system_namespaces() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "taker").await;
    subjects[4].create(env, "taker-rival-dev").await.unwrap();
    env.kubectl(&["create", "namespace", "taker-unassigned"]).await.unwrap();
    let own = env.reference("taker").await;
    let mut forged = own.clone();
    forged["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let changes = [
        Change::label("taker"),
        Change::references([&own]),
        Change::references([&forged]),
        Change::label("taker").and(Change::references([&own])),
    ];
    let namespaces = ["taker-rival-dev", "taker-unassigned", "kube-system", "default", "ensemble-system"];
    let endpoint = [Endpoint::Itself, Endpoint::Status, Endpoint::Finalize];
    let count = assert_refused(env, &subjects, &namespaces, &changes, &endpoint).await;
    assert!(count > 1000, "{count}");
}

#[tokio::test]
async fn rejects_creation_in_tenant_of_others() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "claimed").await;
    let (own, rival) = (env.reference("claimed").await, env.reference("claimed-rival").await);
    let mut forged = own.clone();
    forged["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let claims = [
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [rival] }),
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [own, rival] }),
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [forged] }),
        json!({ "labels": { TENANT_LABEL: "unclaimed" }, "ownerReferences": [own] }),
        json!({ "ownerReferences": [forged] }),
    ];
    for subject in &subjects {
        for (at, claim) in claims.iter().enumerate() {
            let ended = subject.create_with(env, &format!("claimed-{at}"), claim.clone()).await;
            assert!(ended.unwrap_err().contains("denied the request"), "{} {claim}", subject.name);
        }
    }
    let theirs = json!({ "labels": { TENANT_LABEL: "claimed-rival" } });
    for subject in [&subjects[0], &subjects[1], &subjects[2], &subjects[3], &subjects[5]] {
        assert!(
            subject.create_with(env, "claimed-theirs", theirs.clone()).await.is_err(),
            "{}",
            subject.name
        );
    }
}

#[tokio::test]
async fn rejects_deletion_in_tenant_of_others() {
    let env = shared_env().await;
    let subjects = subjects_of(env, "lasting").await;
    subjects[0].create(env, "lasting-dev").await.unwrap();
    let refused = subjects[4].delete(env, "lasting-dev").await.unwrap_err();
    assert!(
        refused.contains("it belongs to Tenant lasting, which rival-of-lasting does not own"),
        "{refused}"
    );
    for (at, subject) in subjects[..4].iter().enumerate() {
        let name = format!("lasting-{at}");
        subject.create(env, &name).await.unwrap();
        subject.delete(env, &name).await.unwrap();
    }
}
