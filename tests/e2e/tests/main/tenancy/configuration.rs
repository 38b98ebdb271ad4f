//! Who is who, as the configuration and TenantOwners say.

use cluster::wait::eventually;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{
    Person, TENANT_LABEL,
    hijack::{Change, Through, assert_refused},
    town,
};
use crate::support::{PATIENCE, TENANT};

#[tokio::test]
async fn administrators_ignored_groups_and_protected_names_are_those_of_the_configuration() {
    let stage = town().await;
    let (alice, carol) = (Person::user("alice-of-configured"), Person::user("carol"));
    let robot = Person::user("robot").in_group("robots");
    stage.tenant("configured", &[&alice, &robot], json!({})).await;
    let spec = json!({ "spec": {
        "administrators": [{ "kind": "User", "name": "carol" }],
        "ignoreUserWithGroups": ["robots"],
        "protectedNamespaceRegex": "^keep-out",
    } });
    let patch = format!("--patch={spec}");
    eventually("there to be a configuration", PATIENCE, async || {
        let patched =
            stage.kubectl(&["patch", "capsuleconfiguration", "default", "--type=merge", &patch]).await;
        Ok(patched.map(drop).map_err(|error| format!("{error:#}")))
    })
    .await
    .unwrap();
    for name in ["keep-out-a", "keep-out-b"] {
        eventually("both managers to know the configuration", PATIENCE, async || {
            let refused = alice.dry_create(stage, name).await;
            Ok(match refused {
                Err(refused) if refused.contains("names that match \"^keep-out\" are protected") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    // She owns nothing, and puts namespaces where they are to be.
    carol.create(stage, "configured-in").await.unwrap();
    let namespaces = carol.namespaces(stage).await;
    let label = async |value| {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { TENANT_LABEL: value } } }));
        namespaces.patch("configured-in", &PatchParams::default(), &patch).await.map(drop)
    };
    label(json!("configured")).await.unwrap();
    assert_eq!(stage.tenant_of("configured-in").await, "configured");
    label(json!(null)).await.unwrap();
    assert_eq!(stage.tenant_of("configured-in").await, "configured", "the label alone stays");
    let out =
        Patch::Merge(json!({ "metadata": { "labels": { TENANT_LABEL: null }, "ownerReferences": null } }));
    namespaces.patch("configured-in", &PatchParams::default(), &out).await.unwrap();
    namespaces.delete("configured-in", &DeleteParams::default()).await.unwrap();

    // One who is nobody's is like everybody else, and puts no namespace into a Tenant.
    let stray = Person::nobody("stray").in_group("robots");
    stray.create(stage, "robots-own").await.unwrap();
    assert!(stage.read(&["get", "namespace", "robots-own"]).await["metadata"]["ownerReferences"].is_null());
    let labelled = json!({ "labels": { TENANT_LABEL: "configured" } });
    let refused = stray.create_with(stage, "robots-other", labelled).await.unwrap_err();
    assert!(refused.contains("stray is neither"), "{refused}");
    // Whom the cluster binds to the role of owners is held to their rules, whatever the configuration ignores: the role
    // lets them patch every namespace. The same for who owns a Tenant.
    let bound = Person::user("bound").in_group("robots");
    for who in [&robot, &bound] {
        let relabelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
        let namespaces = ["kube-system", "default", "robots-own"];
        assert_refused(stage, std::slice::from_ref(who), &namespaces, &[relabelled], &[Through::Itself])
            .await;
    }
    robot.create(stage, "robots-next").await.unwrap();
    assert_eq!(stage.tenant_of("robots-next").await, "configured");
}

/// Between the moment in which somebody is taken out of the users and the one in which they are unbound.
#[tokio::test]
async fn whom_a_binding_in_the_cluster_names_is_held_to_the_rules_of_owners() {
    let stage = town().await;
    let relabelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
    let binding = ["create", "clusterrolebinding", "former", "--clusterrole=capsule-namespace-provisioner"];
    let subjects = ["--user=former-user", "--group=former-team", "--serviceaccount=former:robot"];
    stage.kubectl(&[&binding[..], &subjects].concat()).await.unwrap();
    let people = [
        Person::nobody("former-user"),
        Person::nobody("former-member").in_group("former-team"),
        Person::account("former", "robot"),
    ];
    for who in &people {
        eventually("the binding to be known", PATIENCE, async || {
            let created =
                who.dry_create(stage, "formers-b").await.and(who.dry_create(stage, "formers").await);
            Ok(match created {
                Err(refused) if refused.contains("you own no Tenant") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }
    stage.kubectl(&["create", "namespace", "formers-nobodys"]).await.unwrap();
    let namespaces = ["kube-system", "default", "formers-nobodys"];
    assert_refused(stage, &people, &namespaces, &[relabelled], &[Through::Itself]).await;
}

#[tokio::test]
async fn a_tenant_owner_owns_the_tenants_that_pick_it_and_is_one_of_the_users() {
    let stage = town().await;
    let bob = Person::nobody("bob-the-owner");
    let picks = json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "picked" } }] } });
    stage.tenant("picked", &[], picks).await;
    bob.create(stage, "bobs-own").await.unwrap();
    let owner = json!({
        "apiVersion": TENANT.api_version(), "kind": "TenantOwner",
        "metadata": { "name": "bob", "labels": { "team": "picked" } },
        "spec": { "kind": "User", "name": "bob-the-owner" },
    });
    stage.cluster.apply_yaml(&owner.to_string()).await.unwrap();
    eventually("bob to be an owner", PATIENCE, async || {
        let label = json!({ "labels": { TENANT_LABEL: "picked" } });
        Ok(bob.create_with(stage, "picked-dev", label).await)
    })
    .await
    .unwrap();
    bob.create(stage, "anything-of-bob").await.unwrap();
    for name in ["picked-dev", "anything-of-bob"] {
        assert_eq!(stage.tenant_of(name).await, "picked");
    }
    // From now on, what belongs to no Tenant is not for him.
    assert!(bob.delete(stage, "bobs-own").await.unwrap_err().contains("it belongs to no Tenant"));
}
