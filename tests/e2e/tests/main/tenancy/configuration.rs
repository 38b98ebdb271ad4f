//! Users and administrators in the CapsuleConfiguration and in TenantOwners.

use cluster::wait::eventually;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{
    Subject, TENANT_LABEL,
    namespace_takeover::{Change, Endpoint, assert_refused},
    shared_env,
};
use crate::support::{PATIENCE, TENANT};

#[tokio::test]
async fn configuration_sets_administrators_ignored_groups_and_protected_names() {
    let env = shared_env().await;
    let (alice, carol) = (Subject::user("alice-of-configured"), Subject::user("carol"));
    let robot = Subject::user("robot").in_group("robots");
    env.tenant("configured", &[&alice, &robot], json!({})).await;
    let spec = json!({ "spec": {
        "administrators": [{ "kind": "User", "name": "carol" }],
        "ignoreUserWithGroups": ["robots"],
        "protectedNamespaceRegex": "^keep-out",
    } });
    let patch = format!("--patch={spec}");
    eventually("the configuration to exist", PATIENCE, async || {
        let patched =
            env.kubectl(&["patch", "capsuleconfiguration", "default", "--type=merge", &patch]).await;
        Ok(patched.map(drop).map_err(|error| format!("{error:#}")))
    })
    .await
    .unwrap();
    for name in ["keep-out-a", "keep-out-b"] {
        eventually("both managers to use the configuration", PATIENCE, async || {
            let refused = alice.dry_create(env, name).await;
            Ok(match refused {
                Err(refused) if refused.contains("names that match \"^keep-out\" are protected") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    // carol owns no Tenant and assigns namespaces.
    carol.create(env, "configured-in").await.unwrap();
    let namespaces = carol.namespaces(env).await;
    let label = async |value| {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { TENANT_LABEL: value } } }));
        namespaces.patch("configured-in", &PatchParams::default(), &patch).await.map(drop)
    };
    label(json!("configured")).await.unwrap();
    assert_eq!(env.tenant_of("configured-in").await, "configured");
    label(json!(null)).await.unwrap();
    assert_eq!(env.tenant_of("configured-in").await, "configured", "the label alone stays");
    let out =
        Patch::Merge(json!({ "metadata": { "labels": { TENANT_LABEL: null }, "ownerReferences": null } }));
    namespaces.patch("configured-in", &PatchParams::default(), &out).await.unwrap();
    namespaces.delete("configured-in", &DeleteParams::default()).await.unwrap();

    // A user in an ignored group who is no Tenant user cannot assign namespaces to a Tenant.
    let stray = Subject::without_groups("stray").in_group("robots");
    stray.create(env, "robots-own").await.unwrap();
    assert!(env.read(&["get", "namespace", "robots-own"]).await["metadata"]["ownerReferences"].is_null());
    let labelled = json!({ "labels": { TENANT_LABEL: "configured" } });
    let refused = stray.create_with(env, "robots-other", labelled).await.unwrap_err();
    assert!(refused.contains("stray is neither"), "{refused}");
    // Subjects of the owners' ClusterRole must follow the owners' rules, even in ignored groups:
    // the role allows them to patch all namespaces. The same applies to owners of a Tenant.
    let bound = Subject::user("bound").in_group("robots");
    for subject in [&robot, &bound] {
        let relabelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
        let namespaces = ["kube-system", "default", "robots-own"];
        assert_refused(env, std::slice::from_ref(subject), &namespaces, &[relabelled], &[Endpoint::Itself])
            .await;
    }
    robot.create(env, "robots-next").await.unwrap();
    assert_eq!(env.tenant_of("robots-next").await, "configured");
}

/// Tests the time between the removal of a user from the configuration and the removal of the
/// user's binding.
#[tokio::test]
async fn rules_of_owners_apply_to_subjects_of_bindings() {
    let env = shared_env().await;
    let relabelled = Change { labels: vec![("environment", json!("prod"))], ..Change::default() };
    let binding = ["create", "clusterrolebinding", "former", "--clusterrole=capsule-namespace-provisioner"];
    let subjects = ["--user=former-user", "--group=former-team", "--serviceaccount=former:robot"];
    env.kubectl(&[&binding[..], &subjects].concat()).await.unwrap();
    let subjects = [
        Subject::without_groups("former-user"),
        Subject::without_groups("former-member").in_group("former-team"),
        Subject::account("former", "robot"),
    ];
    for subject in &subjects {
        eventually("the binding to take effect", PATIENCE, async || {
            let created =
                subject.dry_create(env, "formers-b").await.and(subject.dry_create(env, "formers").await);
            Ok(match created {
                Err(refused) if refused.contains("you own no Tenant") => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }
    env.kubectl(&["create", "namespace", "formers-unassigned"]).await.unwrap();
    let namespaces = ["kube-system", "default", "formers-unassigned"];
    assert_refused(env, &subjects, &namespaces, &[relabelled], &[Endpoint::Itself]).await;
}

#[tokio::test]
async fn tenantowner_owns_selected_tenants() {
    let env = shared_env().await;
    let bob = Subject::without_groups("bob-the-owner");
    let picks = json!({ "permissions": { "matchOwners": [{ "matchLabels": { "team": "picked" } }] } });
    env.tenant("picked", &[], picks).await;
    bob.create(env, "bobs-own").await.unwrap();
    let owner = json!({
        "apiVersion": TENANT.api_version(), "kind": "TenantOwner",
        "metadata": { "name": "bob", "labels": { "team": "picked" } },
        "spec": { "kind": "User", "name": "bob-the-owner" },
    });
    env.cluster.apply_yaml(&owner.to_string()).await.unwrap();
    eventually("bob to be an owner", PATIENCE, async || {
        let label = json!({ "labels": { TENANT_LABEL: "picked" } });
        Ok(bob.create_with(env, "picked-dev", label).await)
    })
    .await
    .unwrap();
    bob.create(env, "anything-of-bob").await.unwrap();
    for name in ["picked-dev", "anything-of-bob"] {
        assert_eq!(env.tenant_of(name).await, "picked");
    }
    // bob is now a Tenant user, so namespaces without a Tenant are forbidden.
    assert!(bob.delete(env, "bobs-own").await.unwrap_err().contains("it belongs to no Tenant"));
}
