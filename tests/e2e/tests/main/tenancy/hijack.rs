//! Attempts to move namespaces from one Tenant to another, or into one, by everybody who is not an administrator, with
//! every kind of write and through every resource by which a namespace can be written.

use std::fmt;

use futures::{StreamExt, future::join_all, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Person, TENANT_LABEL, town};
use crate::support::Stage;

/// A way to write a namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Put,
    Merge,
    Strategic,
    Json,
    Apply,
}

pub(super) const WAYS: [Way; 5] = [Way::Put, Way::Merge, Way::Strategic, Way::Json, Way::Apply];

/// What a namespace is written through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Through {
    Itself,
    Status,
    Finalize,
}

/// What is to become of the metadata: labels and annotations that are set (or taken off, if null), and all owner
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

    /// The change as a merge patch; of owner references, `replaced` says how the list is written.
    fn merged(&self, replaced: impl Fn(&[Value]) -> Value) -> Value {
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

    fn operations(&self) -> Value {
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

    /// What the namespace is to be.
    fn made(&self, mut namespace: Value) -> Value {
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

    /// Whether an apply, which takes away only what the same person applied before, can make it.
    fn can_be_applied(&self) -> bool {
        let is_set = |(_, value): &(&str, Value)| !value.is_null();
        self.labels.iter().all(is_set)
            && self.references.as_ref().is_none_or(|references| !references.is_empty())
    }
}

/// One attempt.
pub(super) struct Attempt<'s> {
    pub(super) who: &'s Person,
    /// Namespaces, as they see them.
    pub(super) api: &'s Api<Namespace>,
    pub(super) namespace: &'s str,
    pub(super) change: &'s Change,
    pub(super) way: Way,
    pub(super) through: Through,
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, namespace, change, way, through, .. } = self;
        write!(f, "{} writes {namespace} by {way:?} through {through:?}: {change:?}", who.name)
    }
}

impl Attempt<'_> {
    /// Whether the API server has such a request at all, and it would change something.
    fn is_possible(&self) -> bool {
        let by_patch = self.way != Way::Put;
        (self.through != Through::Finalize || !by_patch)
            && (self.way != Way::Apply || self.change.can_be_applied())
    }

    /// What came of it.
    pub(super) async fn make(&self) -> Result<(), String> {
        loop {
            let ended = if self.way == Way::Put { self.put().await } else { self.patch().await };
            let is_conflict =
                |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 409);
            // Another attempt has been stored in between.
            if !ended.as_ref().is_err_and(is_conflict) {
                break ended.map_err(|error| error.to_string());
            }
        }
    }

    async fn put(&self) -> kube::Result<()> {
        let (api, params, name) = (self.api, PostParams::default(), self.namespace);
        let wanted = self.change.made(serde_json::to_value(api.get(name).await?).unwrap());
        let wanted: Namespace = serde_json::from_value(wanted).unwrap();
        match self.through {
            Through::Itself => api.replace(name, &params, &wanted).await.map(drop),
            Through::Status => api.replace_status(name, &params, &wanted).await.map(drop),
            Through::Finalize => api.replace_subresource("finalize", name, &params, &wanted).await.map(drop),
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
        let (patch, params): (Patch<Value>, _) = match self.way {
            Way::Merge | Way::Put => (Patch::Merge(self.change.merged(as_list)), plain),
            Way::Strategic => (Patch::Strategic(self.change.merged(instead)), plain),
            Way::Json => {
                let operations = serde_json::from_value(self.change.operations()).unwrap();
                (Patch::Json::<Value>(operations), plain)
            }
            Way::Apply => {
                let mut applied = self.change.merged(as_list);
                applied["apiVersion"] = "v1".into();
                applied["kind"] = "Namespace".into();
                (Patch::Apply(applied), forced)
            }
        };
        match self.through {
            Through::Status => api.patch_status(self.namespace, &params, &patch).await.map(drop),
            _ => api.patch(self.namespace, &params, &patch).await.map(drop),
        }
    }
}

/// What is to come of attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    /// Admission refuses them.
    Refused,
    /// They are stored without what they were about. Through `status` and `finalize` they are refused.
    Undone,
}

/// Makes all attempts at these changes by these people, several at once, and holds each to being refused by admission.
/// Returns how many there were.
pub(super) async fn assert_refused(
    stage: &Stage,
    people: &[Person],
    namespaces: &[&str],
    changes: &[Change],
    through: &[Through],
) -> usize {
    assert_ended(stage, people, namespaces, changes, through, End::Refused).await
}

/// Makes all attempts at these changes by these people, several at once, and holds them to this end, and to leaving the
/// namespaces as they were. Returns how many there were.
pub(super) async fn assert_ended(
    stage: &Stage,
    people: &[Person],
    namespaces: &[&str],
    changes: &[Change],
    through: &[Through],
    end: End,
) -> usize {
    let mut attempts = Vec::new();
    let apis = join_all(people.iter().map(|who| who.namespaces(stage))).await;
    for (who, api) in people.iter().zip(&apis) {
        for &namespace in namespaces {
            for change in changes {
                for way in WAYS {
                    let of = |&through| Attempt { who, api, namespace, change, way, through };
                    attempts.extend(through.iter().map(of).filter(Attempt::is_possible));
                }
            }
        }
    }
    let before = metadata(stage, namespaces).await;
    let count = attempts.len();
    let ended = stream::iter(attempts).map(async |attempt| (attempt.make().await, attempt));
    let ended: Vec<_> = ended.buffer_unordered(8).collect().await;
    for (ended, attempt) in ended {
        if end == End::Undone && attempt.through == Through::Itself {
            ended.unwrap_or_else(|refused| panic!("{attempt:?}: {refused}"));
            continue;
        }
        let refused = ended.expect_err(&format!("{attempt:?}"));
        let is_ours = refused.contains("admission webhook \"namespaces.tenant.ensemble\" denied the request")
            || refused.contains("ValidatingAdmissionPolicy 'ensemble-tenant-system-namespaces'");
        assert!(is_ours, "{attempt:?}: {refused}");
    }
    assert_eq!(metadata(stage, namespaces).await, before);
    count
}

/// What the namespaces say of whose they are.
async fn metadata(stage: &Stage, namespaces: &[&str]) -> Vec<Value> {
    let all = stage.read(&["get", "namespaces"]).await;
    let all = all["items"].as_array().unwrap().iter().map(|one| &one["metadata"]);
    let ours = all.filter(|one| namespaces.contains(&one["name"].as_str().unwrap()));
    ours.map(|one| json!([one["name"], one["labels"], one["ownerReferences"], one["annotations"]])).collect()
}

/// Owners of a Tenant of each kind, the last of them in none of the groups of the configuration; an owner of another; and
/// somebody unrelated.
pub(super) async fn six(stage: &Stage, tenant: &str) -> [Person; 6] {
    let user = Person::user(&format!("user-of-{tenant}"));
    let member = Person::member(&format!("member-of-{tenant}"), &format!("team-{tenant}"));
    let account = Person::account(&format!("robots-of-{tenant}"), "owner").who_may_own();
    let groupless = Person::account(&format!("robots-of-{tenant}"), "groupless");
    let rival = Person::user(&format!("rival-of-{tenant}"));
    stage.tenant(tenant, &[&user, &member, &account, &groupless], json!({})).await;
    stage.tenant(&format!("{tenant}-rival"), &[&rival], json!({})).await;
    let unrelated = Person::account(&format!("visitors-of-{tenant}"), "somebody");
    [user, member, account, groupless, rival, unrelated]
}

#[tokio::test]
async fn nobody_takes_a_namespace_out_of_its_tenant_or_into_another() {
    let stage = town().await;
    let people = six(stage, "held").await;
    people[0].create(stage, "held-dev").await.unwrap();
    let (own, rival) = (stage.reference("held").await, stage.reference("held-rival").await);
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
    let through = [Through::Itself, Through::Status, Through::Finalize];
    let all = [elsewhere.as_slice(), &taken_off].concat();
    let mut count = assert_refused(stage, &people[4..], &["held-dev"], &all, &through).await;
    count += assert_refused(stage, &people[..4], &["held-dev"], &elsewhere, &through).await;
    // Its owners are not refused what may be a mistake: they get it back.
    count += assert_ended(stage, &people[..4], &["held-dev"], &taken_off, &through, End::Undone).await;
    assert!(count > 500, "{count}");
}

#[tokio::test]
async fn nobody_takes_namespaces_of_others_of_nobody_or_of_the_cluster() {
    let stage = town().await;
    let people = six(stage, "taker").await;
    people[4].create(stage, "taker-rival-dev").await.unwrap();
    stage.kubectl(&["create", "namespace", "taker-nobodys"]).await.unwrap();
    let own = stage.reference("taker").await;
    let mut forged = own.clone();
    forged["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let changes = [
        Change::label("taker"),
        Change::references([&own]),
        Change::references([&forged]),
        Change::label("taker").and(Change::references([&own])),
    ];
    let namespaces = ["taker-rival-dev", "taker-nobodys", "kube-system", "default", "ensemble-system"];
    let through = [Through::Itself, Through::Status, Through::Finalize];
    let count = assert_refused(stage, &people, &namespaces, &changes, &through).await;
    assert!(count > 1000, "{count}");
}

#[tokio::test]
async fn nobody_creates_a_namespace_that_claims_to_be_anothers() {
    let stage = town().await;
    let people = six(stage, "claimed").await;
    let (own, rival) = (stage.reference("claimed").await, stage.reference("claimed-rival").await);
    let mut forged = own.clone();
    forged["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let claims = [
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [rival] }),
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [own, rival] }),
        json!({ "labels": { TENANT_LABEL: "claimed" }, "ownerReferences": [forged] }),
        json!({ "labels": { TENANT_LABEL: "nobodys" }, "ownerReferences": [own] }),
        json!({ "ownerReferences": [forged] }),
    ];
    for who in &people {
        for (at, claim) in claims.iter().enumerate() {
            let ended = who.create_with(stage, &format!("claimed-{at}"), claim.clone()).await;
            assert!(ended.unwrap_err().contains("denied the request"), "{} {claim}", who.name);
        }
    }
    let theirs = json!({ "labels": { TENANT_LABEL: "claimed-rival" } });
    for who in [&people[0], &people[1], &people[2], &people[3], &people[5]] {
        assert!(who.create_with(stage, "claimed-theirs", theirs.clone()).await.is_err(), "{}", who.name);
    }
}

#[tokio::test]
async fn nobody_deletes_a_namespace_of_another_tenant() {
    let stage = town().await;
    let people = six(stage, "lasting").await;
    people[0].create(stage, "lasting-dev").await.unwrap();
    let refused = people[4].delete(stage, "lasting-dev").await.unwrap_err();
    assert!(
        refused.contains("it belongs to Tenant lasting, which rival-of-lasting does not own"),
        "{refused}"
    );
    for (at, who) in people[..4].iter().enumerate() {
        let name = format!("lasting-{at}");
        who.create(stage, &name).await.unwrap();
        who.delete(stage, &name).await.unwrap();
    }
}
