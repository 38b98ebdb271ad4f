//! How a namespace finds its Tenant, and what it has from then on.

use cluster::wait::eventually;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{
    Person, TENANT_LABEL,
    hijack::{Change, End, Through, assert_ended, assert_refused},
    namespace, town,
};
use crate::support::{PATIENCE, Stage, TENANT};

const LEVEL: &str = "pod-security.kubernetes.io/enforce";
const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

#[tokio::test]
async fn a_namespace_is_its_only_tenants_and_complete_at_once() {
    let stage = town().await;
    let alice = Person::user("alice-of-only");
    let spec = json!({
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "namespaceOptions": { "quota": 3, "additionalMetadata": { "labels": { "team": "only" } } },
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
    });
    stage.tenant("only", &[&alice], spec).await;
    // As a person does it.
    let create = ["create", "namespace", "anything", "--as=alice-of-only", "--as-group=projectcapsule.dev"];
    stage.kubectl(&create).await.unwrap();
    let metadata = stage.read(&["get", "namespace", "anything"]).await["metadata"].clone();
    assert_eq!(metadata["labels"]["team"], "only");
    assert_eq!(
        metadata["annotations"]["scheduler.alpha.kubernetes.io/node-selector"],
        "kubernetes.io/os=linux"
    );
    assert_eq!(stage.tenant_of("anything").await, "only");
    assert_eq!(metadata["ownerReferences"][0]["controller"], json!(null));
    stage.until_joined("only", 1).await;
    stage.until_count(&["limitranges", "--namespace=anything"], 1).await;
    alice.delete(stage, "anything").await.unwrap();
    stage.until_no_namespace("anything").await;
}

#[tokio::test]
async fn of_several_tenants_the_label_decides_and_then_the_longest_prefix() {
    let stage = town().await;
    let alice = Person::user("alice-of-several");
    for tenant in ["several", "several-north", "other"] {
        stage.tenant(tenant, &[&alice], json!({})).await;
    }
    let labelled = json!({ "labels": { TENANT_LABEL: "other" } });
    alice.create_with(stage, "several-labelled", labelled).await.unwrap();
    assert_eq!(stage.tenant_of("several-labelled").await, "other");
    for (name, tenant) in [("several-dev", "several"), ("several-north-dev", "several-north")] {
        alice.create(stage, name).await.unwrap();
        assert_eq!(stage.tenant_of(name).await, tenant);
    }
    let refused = alice.create(stage, "unprefixed").await.unwrap_err();
    assert!(refused.contains("you own several Tenants (other, several, several-north)"), "{refused}");
    let made_up = json!({ "metadata": { "generateName": "several-north-" } });
    let made_up = alice
        .namespaces(stage)
        .await
        .create(&PostParams::default(), &serde_json::from_value(made_up).unwrap())
        .await
        .unwrap();
    assert_eq!(stage.tenant_of(&made_up.metadata.name.unwrap()).await, "several-north");
}

#[tokio::test]
async fn who_owns_nothing_creates_nothing_in_a_tenant() {
    let stage = town().await;
    let (gina, stranger) = (Person::user("gina"), Person::user("stranger"));
    stage.tenant("ginas", &[&gina], json!({})).await;
    assert!(stranger.create(stage, "ginas-dev").await.unwrap_err().contains("you own no Tenant"));
    let labelled = json!({ "labels": { TENANT_LABEL: "ginas" } });
    let refused = stranger.create_with(stage, "ginas-dev", labelled.clone()).await.unwrap_err();
    assert!(
        refused.contains("which the label capsule.clastix.io/tenant names, is not owned by stranger"),
        "{refused}"
    );
    // Nobody's users are not asked for a Tenant, and get none.
    let robot = Person::account("robots", "builder");
    robot.create(stage, "workshop").await.unwrap();
    let refused = robot.create_with(stage, "ginas-dev", labelled).await.unwrap_err();
    assert!(refused.contains("system:serviceaccount:robots:builder is neither"), "{refused}");
    let missing = json!({ "labels": { TENANT_LABEL: "missing" } });
    assert!(gina.create_with(stage, "x", missing).await.unwrap_err().contains("does not exist"));
}

#[tokio::test]
async fn an_administrator_moves_namespaces_by_their_label() {
    let stage = town().await;
    for tenant in ["from", "to"] {
        stage.tenant(tenant, &[], json!({})).await;
    }
    let set =
        async |label: &str| stage.kubectl(&["label", "--overwrite", "namespace", "moving", label]).await;
    stage.kubectl(&["create", "namespace", "moving"]).await.unwrap();
    for tenant in ["from", "to"] {
        set(&format!("{TENANT_LABEL}={tenant}")).await.unwrap();
        assert_eq!(stage.tenant_of("moving").await, tenant);
        stage.until_joined(tenant, 1).await;
    }
    stage.until_joined("from", 0).await;
    let refused = format!("{:#}", set(&format!("{TENANT_LABEL}=missing")).await.unwrap_err());
    assert!(refused.contains("there is no Tenant missing"), "{refused}");
    // The label alone is a mistake: it stays.
    set(&format!("{TENANT_LABEL}-")).await.unwrap();
    assert_eq!(stage.tenant_of("moving").await, "to");
    let out = json!({ "metadata": { "labels": { TENANT_LABEL: null }, "ownerReferences": null } });
    let patch = format!("--patch={out}");
    stage.kubectl(&["patch", "namespace", "moving", "--type=merge", &patch]).await.unwrap();
    let metadata = stage.read(&["get", "namespace", "moving"]).await["metadata"].clone();
    assert_eq!(metadata["ownerReferences"], json!(null));
    assert_eq!(metadata["labels"][TENANT_LABEL], json!(null));
    stage.until_joined("to", 0).await;
}

#[tokio::test]
async fn a_manifest_that_leaves_out_what_the_tenant_gives_replaces_the_rest() {
    let stage = town().await;
    let alice = Person::user("alice-of-replaced");
    let options = json!({ "additionalMetadata": { "labels": { LEVEL: "restricted" } } });
    let spec = json!({ "namespaceOptions": options, "nodeSelector": { "pool": "oil" } });
    stage.tenant("replaced", &[&alice], spec).await;
    alice.create(stage, "replaced-dev").await.unwrap();
    let before = stage.read(&["get", "namespace", "replaced-dev"]).await["metadata"].clone();
    let root = Person::member("root", "system:masters");
    for (who, team) in [(&alice, "a"), (&root, "b")] {
        let mut labels = json!({ "team": team });
        if team == "b" {
            // Who takes off both takes it out.
            labels[TENANT_LABEL] = "replaced".into();
        }
        let manifest = namespace("replaced-dev", json!({ "labels": labels }));
        let namespaces = who.namespaces(stage).await;
        let stored = namespaces.replace("replaced-dev", &PostParams::default(), &manifest).await.unwrap();
        let mut expected = before.clone();
        expected["labels"]["team"] = team.into();
        let stored = serde_json::to_value(stored).unwrap()["metadata"].clone();
        for field in ["labels", "annotations", "ownerReferences"] {
            assert_eq!(stored[field], expected[field], "{}", who.name);
        }
    }
    // As a person is told.
    let change =
        ["label", "namespace", "replaced-dev", "capsule.clastix.io/tenant-", "--as=alice-of-replaced"];
    let change = [&change[..], &["--as-group=projectcapsule.dev"]].concat();
    let told = stage.kubectl(&[&change[..], &["--warnings-as-errors"]].concat()).await.unwrap_err();
    let told = format!("{told:#}");
    let expected =
        "Warning: namespace replaced-dev: the label capsule.clastix.io/tenant of Tenant replaced stays";
    assert!(told.contains(expected), "{told}");
}

#[tokio::test]
async fn names_have_the_prefix_that_the_tenant_asks_for() {
    let stage = town().await;
    let alice = Person::user("alice-of-prefixed");
    stage.tenant("prefixed", &[&alice], json!({ "forceTenantPrefix": true })).await;
    let refused = alice.create(stage, "dev").await.unwrap_err();
    assert!(refused.contains("must begin with prefixed-; call it prefixed-dev"), "{refused}");
    let longest = format!("prefixed-{}", "x".repeat(54));
    assert_eq!(longest.len(), 63);
    alice.create(stage, &longest).await.unwrap();
    assert_eq!(stage.tenant_of(&longest).await, "prefixed");
    let refused = alice.create(stage, &"x".repeat(63)).await.unwrap_err();
    assert!(refused.contains("a name has at most 63 characters"), "{refused}");
}

#[tokio::test]
async fn owners_leave_alone_what_is_for_the_tenant_to_say() {
    let stage = town().await;
    let alice = Person::user("alice-of-said");
    stage.tenant("said", &[&alice], json!({ "nodeSelector": { "pool": "said" } })).await;
    alice.create(stage, "said-dev").await.unwrap();
    let namespaces = alice.namespaces(stage).await;
    let annotate = async |key: &str, value: serde_json::Value| {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let patched = namespaces.patch("said-dev", &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    annotate("team", json!("a")).await.unwrap();
    for value in [json!("pool=other"), json!(null)] {
        annotate(SELECTOR, value).await.unwrap();
        let annotations =
            stage.read(&["get", "namespace", "said-dev"]).await["metadata"]["annotations"].clone();
        assert_eq!(annotations[SELECTOR], "pool=said");
    }
    let refused = annotate("capsule.clastix.io/storage-classes", json!("mine")).await.unwrap_err();
    assert!(
        refused.contains("the annotation capsule.clastix.io/storage-classes is for Tenant said"),
        "{refused}"
    );
}

/// Holds the API server to refusing a privileged pod there, whoever asks.
async fn assert_restricted(stage: &Stage, namespace: &str) {
    let container =
        json!({ "name": "a", "image": "example.com/a", "securityContext": { "privileged": true } });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "privileged", "namespace": namespace },
        "spec": { "serviceAccountName": "robot", "containers": [container] },
    });
    let refused = stage.cluster.apply_yaml(&pod.to_string()).await.map_err(|error| format!("{error:#}"));
    let refused = refused.expect_err("a privileged pod is created");
    assert!(refused.contains("violates PodSecurity \"restricted:latest\": privileged"), "{refused}");
}

#[tokio::test]
async fn the_security_level_that_a_tenant_gives_holds_from_the_first_moment() {
    let stage = town().await;
    let alice = Person::user("alice-of-level");
    let options = json!({ "additionalMetadata": { "labels": { LEVEL: "restricted" } } });
    stage.tenant("level", &[&alice], json!({ "namespaceOptions": options })).await;
    let made_up = json!({ "metadata": { "generateName": "level-" } });
    let asked = json!({ "metadata": { "name": "level-asked-b", "labels": { LEVEL: "privileged" } } });
    let plain = json!({ "metadata": { "name": "level-dev" } });
    for new in [made_up, asked, plain] {
        let new = serde_json::from_value(new).unwrap();
        let created = alice.namespaces(stage).await.create(&PostParams::default(), &new).await.unwrap();
        let name = created.metadata.name.unwrap();
        // Pods need one, and the namespace's own takes a while.
        stage.kubectl(&["create", "serviceaccount", "robot", "--namespace", &name]).await.unwrap();
        assert_restricted(stage, &name).await;
    }
    stage.until_joined("level", 3).await;
    let older = ("pod-security.kubernetes.io/enforce-version", json!("v1.0"));
    let refused = alice.create_with(stage, "level-older", json!({ "labels": { older.0: older.1 } })).await;
    assert!(refused.unwrap_err().contains("is for Tenant level to say"));

    let people = [alice, Person::account("level-dev", "robot"), Person::nobody("passer-by-of-level")];
    let levels = ["privileged", "baseline"].map(|level| (LEVEL, json!(level)));
    for label in levels.into_iter().chain([(LEVEL, json!(null)), older]) {
        let change = Change { labels: vec![label], ..Change::default() };
        let through = [Through::Itself, Through::Status, Through::Finalize];
        let (namespaces, changes) = (["level-dev", "level-asked-b"], [change]);
        let mut count = assert_refused(stage, &people[1..], &namespaces, &changes, &through).await;
        count += assert_ended(stage, &people[..1], &namespaces, &changes, &through, End::Undone).await;
        assert!(count > 50, "{count}");
        for namespace in namespaces {
            assert_restricted(stage, namespace).await;
        }
    }
}

#[tokio::test]
async fn a_tenant_that_is_being_deleted_takes_no_more_namespaces() {
    let stage = town().await;
    let alice = Person::user("alice-of-leaving");
    stage.tenant("leaving", &[&alice], json!({})).await;
    let held = json!({ "finalizers": ["example.com/held"] });
    alice.create_with(stage, "leaving-held", held).await.unwrap();
    stage.until_joined("leaving", 1).await;
    stage.kubectl(&["delete", "tenant", "leaving", "--wait=false"]).await.unwrap();
    let tenants = stage.api(&TENANT, "").await;
    eventually("the namespace to be deleted", PATIENCE, async || {
        let found = stage.read(&["get", "namespace", "leaving-held"]).await;
        Ok(found["metadata"]["deletionTimestamp"].is_string())
    })
    .await
    .unwrap();
    assert!(tenants.get("leaving").await.unwrap().metadata.deletion_timestamp.is_some());
    let refused = alice.create(stage, "leaving-late").await.unwrap_err();
    assert!(refused.contains("is being deleted and takes no more namespaces"), "{refused}");
    // Its owners may still let go of what they hold.
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let namespaces: Api<_> = alice.namespaces(stage).await;
    namespaces.patch("leaving-held", &PatchParams::default(), &patch).await.unwrap();
    stage.until_gone(&TENANT, "", "leaving").await;
}
