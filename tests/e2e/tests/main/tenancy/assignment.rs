//! Assignment of namespaces to Tenants.

use cluster::wait::eventually;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    Subject, TENANT_LABEL, namespace,
    namespace_takeover::{Change, Endpoint, Expected, assert_refused, assert_result},
    shared_env,
};
use crate::support::{PATIENCE, TENANT, TestEnv};

const LEVEL: &str = "pod-security.kubernetes.io/enforce";
const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

#[tokio::test]
async fn namespace_is_assigned_to_only_tenant_with_metadata() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-only");
    let spec = json!({
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "namespaceOptions": { "quota": 3, "additionalMetadata": { "labels": { "team": "only" } } },
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
    });
    env.tenant("only", &[&alice], spec).await;
    // With kubectl.
    let create = ["create", "namespace", "anything", "--as=alice-of-only", "--as-group=projectcapsule.dev"];
    env.kubectl(&create).await.unwrap();
    let metadata = env.read(&["get", "namespace", "anything"]).await["metadata"].clone();
    assert_eq!(metadata["labels"]["team"], "only");
    assert_eq!(
        metadata["annotations"]["scheduler.alpha.kubernetes.io/node-selector"],
        "kubernetes.io/os=linux"
    );
    assert_eq!(env.tenant_of("anything").await, "only");
    assert_eq!(metadata["ownerReferences"][0]["controller"], json!(null));
    env.until_tenant_ready("only", 1).await;
    env.until_count(&["limitranges", "--namespace=anything"], 1).await;
    alice.delete(env, "anything").await.unwrap();
    env.until_no_namespace("anything").await;
}

#[tokio::test]
async fn label_selects_tenant_before_longest_prefix() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-several");
    for tenant in ["several", "several-north", "other"] {
        env.tenant(tenant, &[&alice], json!({})).await;
    }
    let labelled = json!({ "labels": { TENANT_LABEL: "other" } });
    alice.create_with(env, "several-labelled", labelled).await.unwrap();
    assert_eq!(env.tenant_of("several-labelled").await, "other");
    for (name, tenant) in [("several-dev", "several"), ("several-north-dev", "several-north")] {
        alice.create(env, name).await.unwrap();
        assert_eq!(env.tenant_of(name).await, tenant);
    }
    let refused = alice.create(env, "unprefixed").await.unwrap_err();
    assert!(refused.contains("you own several Tenants (other, several, several-north)"), "{refused}");
    let generated = json!({ "metadata": { "generateName": "several-north-" } });
    let generated = alice
        .namespaces(env)
        .await
        .create(&PostParams::default(), &serde_json::from_value(generated).unwrap())
        .await
        .unwrap();
    assert_eq!(env.tenant_of(&generated.metadata.name.unwrap()).await, "several-north");
}

#[tokio::test]
async fn user_without_tenant_creates_no_tenant_namespace() {
    let env = shared_env().await;
    let (gina, outsider) = (Subject::user("gina"), Subject::user("outsider"));
    env.tenant("ginas", &[&gina], json!({})).await;
    assert!(outsider.create(env, "ginas-dev").await.unwrap_err().contains("you own no Tenant"));
    let labelled = json!({ "labels": { TENANT_LABEL: "ginas" } });
    let refused = outsider.create_with(env, "ginas-dev", labelled.clone()).await.unwrap_err();
    assert!(refused.contains("in the label capsule.clastix.io/tenant is not owned by outsider"), "{refused}");
    // Users outside the Tenants' groups need no Tenant and get none.
    let robot = Subject::account("robots", "builder");
    robot.create(env, "workshop").await.unwrap();
    let refused = robot.create_with(env, "ginas-dev", labelled).await.unwrap_err();
    assert!(refused.contains("system:serviceaccount:robots:builder is neither"), "{refused}");
    let missing = json!({ "labels": { TENANT_LABEL: "missing" } });
    assert!(gina.create_with(env, "x", missing).await.unwrap_err().contains("does not exist"));
}

#[tokio::test]
async fn administrator_moves_namespaces_by_label() {
    let env = shared_env().await;
    for tenant in ["from", "to"] {
        env.tenant(tenant, &[], json!({})).await;
    }
    let set = async |label: &str| env.kubectl(&["label", "--overwrite", "namespace", "moving", label]).await;
    env.kubectl(&["create", "namespace", "moving"]).await.unwrap();
    for tenant in ["from", "to"] {
        set(&format!("{TENANT_LABEL}={tenant}")).await.unwrap();
        assert_eq!(env.tenant_of("moving").await, tenant);
        env.until_tenant_ready(tenant, 1).await;
    }
    env.until_tenant_ready("from", 0).await;
    let refused = format!("{:#}", set(&format!("{TENANT_LABEL}=missing")).await.unwrap_err());
    assert!(refused.contains("Tenant missing does not exist"), "{refused}");
    // Removing only the label is a mistake, so the label is restored.
    set(&format!("{TENANT_LABEL}-")).await.unwrap();
    assert_eq!(env.tenant_of("moving").await, "to");
    let out = json!({ "metadata": { "labels": { TENANT_LABEL: null }, "ownerReferences": null } });
    let patch = format!("--patch={out}");
    env.kubectl(&["patch", "namespace", "moving", "--type=merge", &patch]).await.unwrap();
    let metadata = env.read(&["get", "namespace", "moving"]).await["metadata"].clone();
    assert_eq!(metadata["ownerReferences"], json!(null));
    assert_eq!(metadata["labels"][TENANT_LABEL], json!(null));
    env.until_tenant_ready("to", 0).await;
}

#[tokio::test]
async fn replace_keeps_metadata_of_tenant() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-replaced");
    let options = json!({ "additionalMetadata": { "labels": { LEVEL: "restricted" } } });
    let spec = json!({ "namespaceOptions": options, "nodeSelector": { "pool": "oil" } });
    env.tenant("replaced", &[&alice], spec).await;
    alice.create(env, "replaced-dev").await.unwrap();
    let before = env.read(&["get", "namespace", "replaced-dev"]).await["metadata"].clone();
    let root = Subject::member("root", "system:masters");
    for (subject, team) in [(&alice, "a"), (&root, "b")] {
        let mut labels = json!({ "team": team });
        if team == "b" {
            // Removing both the label and the owner reference removes the namespace from its
            // Tenant.
            labels[TENANT_LABEL] = "replaced".into();
        }
        let manifest = namespace("replaced-dev", json!({ "labels": labels }));
        let namespaces = subject.namespaces(env).await;
        let stored = namespaces.replace("replaced-dev", &PostParams::default(), &manifest).await.unwrap();
        let mut expected = before.clone();
        expected["labels"]["team"] = team.into();
        let stored = serde_json::to_value(stored).unwrap()["metadata"].clone();
        for field in ["labels", "annotations", "ownerReferences"] {
            assert_eq!(stored[field], expected[field], "{}", subject.name);
        }
    }
    // The warning that kubectl prints.
    let change =
        ["label", "namespace", "replaced-dev", "capsule.clastix.io/tenant-", "--as=alice-of-replaced"];
    let change = [&change[..], &["--as-group=projectcapsule.dev"]].concat();
    let warning = env.kubectl(&[&change[..], &["--warnings-as-errors"]].concat()).await.unwrap_err();
    let warning = format!("{warning:#}");
    let expected =
        "Warning: namespace replaced-dev: restored the label capsule.clastix.io/tenant of Tenant replaced";
    assert!(warning.contains(expected), "{warning}");
}

#[tokio::test]
async fn enforces_name_prefix_of_tenant() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-prefixed");
    env.tenant("prefixed", &[&alice], json!({ "forceTenantPrefix": true })).await;
    let refused = alice.create(env, "dev").await.unwrap_err();
    assert!(refused.contains("must begin with prefixed-; use the name prefixed-dev"), "{refused}");
    let longest = format!("prefixed-{}", "x".repeat(54));
    assert_eq!(longest.len(), 63);
    alice.create(env, &longest).await.unwrap();
    assert_eq!(env.tenant_of(&longest).await, "prefixed");
    let refused = alice.create(env, &"x".repeat(63)).await.unwrap_err();
    assert!(refused.contains("would be longer than 63 characters"), "{refused}");
}

#[tokio::test]
async fn owners_cannot_change_metadata_of_tenant() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-owned");
    env.tenant("owned", &[&alice], json!({ "nodeSelector": { "pool": "owned" } })).await;
    alice.create(env, "owned-dev").await.unwrap();
    let namespaces = alice.namespaces(env).await;
    let annotate = async |key: &str, value: serde_json::Value| {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let patched = namespaces.patch("owned-dev", &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    annotate("team", json!("a")).await.unwrap();
    for value in [json!("pool=other"), json!(null)] {
        annotate(SELECTOR, value).await.unwrap();
        let annotations =
            env.read(&["get", "namespace", "owned-dev"]).await["metadata"]["annotations"].clone();
        assert_eq!(annotations[SELECTOR], "pool=owned");
    }
    let refused = annotate("capsule.clastix.io/storage-classes", json!("mine")).await.unwrap_err();
    assert!(
        refused.contains("the annotation capsule.clastix.io/storage-classes is managed by Tenant owned"),
        "{refused}"
    );
}

/// Asserts that the API server rejects a privileged Pod in the namespace.
async fn assert_restricted(env: &TestEnv, namespace: &str) {
    let container =
        json!({ "name": "a", "image": "example.com/a", "securityContext": { "privileged": true } });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "privileged", "namespace": namespace },
        "spec": { "serviceAccountName": "robot", "containers": [container] },
    });
    let refused = env.cluster.apply_yaml(&pod.to_string()).await.map_err(|error| format!("{error:#}"));
    let refused = refused.expect_err("a privileged Pod must be rejected");
    assert!(refused.contains("violates PodSecurity \"restricted:latest\": privileged"), "{refused}");
}

#[tokio::test]
async fn pod_security_level_of_tenant_applies_at_creation() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-level");
    let options = json!({ "additionalMetadata": { "labels": { LEVEL: "restricted" } } });
    env.tenant("level", &[&alice], json!({ "namespaceOptions": options })).await;
    let generated = json!({ "metadata": { "generateName": "level-" } });
    let requested = json!({ "metadata": { "name": "level-requested-b", "labels": { LEVEL: "privileged" } } });
    let plain = json!({ "metadata": { "name": "level-dev" } });
    for new in [generated, requested, plain] {
        let new = serde_json::from_value(new).unwrap();
        let created = alice.namespaces(env).await.create(&PostParams::default(), &new).await.unwrap();
        let name = created.metadata.name.unwrap();
        // Pods need a ServiceAccount, and the default one takes a moment.
        env.kubectl(&["create", "serviceaccount", "robot", "--namespace", &name]).await.unwrap();
        assert_restricted(env, &name).await;
    }
    env.until_tenant_ready("level", 3).await;
    let older = ("pod-security.kubernetes.io/enforce-version", json!("v1.0"));
    let refused = alice.create_with(env, "level-older", json!({ "labels": { older.0: older.1 } })).await;
    assert!(refused.unwrap_err().contains("is managed by Tenant level"));

    let subjects =
        [alice, Subject::account("level-dev", "robot"), Subject::without_groups("passer-by-of-level")];
    let levels = ["privileged", "baseline"].map(|level| (LEVEL, json!(level)));
    for label in levels.into_iter().chain([(LEVEL, json!(null)), older]) {
        let change = Change { labels: vec![label], ..Change::default() };
        let endpoint = [Endpoint::Itself, Endpoint::Status, Endpoint::Finalize];
        let (namespaces, changes) = (["level-dev", "level-requested-b"], [change]);
        // The account of a namespace of a Tenant is a tenant user that owns no Tenant.
        let mut count = assert_refused(env, &subjects[1..2], &namespaces, &changes, &endpoint).await;
        for subject in [&subjects[0], &subjects[2]] {
            let subject = std::slice::from_ref(subject);
            count += assert_result(env, subject, &namespaces, &changes, &endpoint, Expected::Reverted).await;
        }
        assert!(count > 50, "{count}");
        for namespace in namespaces {
            assert_restricted(env, namespace).await;
        }
    }
}

#[tokio::test]
async fn deleted_tenant_accepts_no_namespaces() {
    let env = shared_env().await;
    let alice = Subject::user("alice-of-leaving");
    env.tenant("leaving", &[&alice], json!({})).await;
    let held = json!({ "finalizers": ["example.com/held"] });
    alice.create_with(env, "leaving-held", held).await.unwrap();
    env.until_tenant_ready("leaving", 1).await;
    env.kubectl(&["delete", "tenant", "leaving", "--wait=false"]).await.unwrap();
    let tenants = env.api(&TENANT, "").await;
    eventually("the namespace to be deleted", PATIENCE, async || {
        let found = env.read(&["get", "namespace", "leaving-held"]).await;
        Ok(found["metadata"]["deletionTimestamp"].is_string())
    })
    .await
    .unwrap();
    assert!(tenants.get("leaving").await.unwrap().metadata.deletion_timestamp.is_some());
    let refused = alice.create(env, "leaving-late").await.unwrap_err();
    assert!(refused.contains("is being deleted and accepts no new namespaces"), "{refused}");
    // Owners can still remove their finalizers.
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let namespaces: Api<_> = alice.namespaces(env).await;
    namespaces.patch("leaving-held", &PatchParams::default(), &patch).await.unwrap();
    env.until_gone(&TENANT, "", "leaving").await;
}
