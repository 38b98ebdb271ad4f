//! All that the controllers do, so that what they are allowed to do is used.

use std::cell::Cell;

use cluster::wait::eventually;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Map, Value, json};

use crate::support::{
    CONFIGURATION, MEMCACHED, NAMESPACE_PLUS, PATIENCE, POD_SET, Stage, TENANT, TENANT_OWNER, sample,
};

/// The label of all that the controllers keep. A child that loses it is out of their sight.
const MANAGED: &str = "app.kubernetes.io/managed-by";

/// Objects of which somebody took the label away: the controller meets them when it creates them anew, reads them live
/// and repairs them. Of those without a namespace, `namespace` is empty.
async fn hide(stage: &Stage, namespace: &str, kind: &str, name: &str) {
    let inside = format!("--namespace={namespace}");
    stage.kubectl(&["label", kind, name, &inside, &format!("{MANAGED}-")]).await.unwrap();
    let found = [&inside, kind, name];
    eventually(&format!("{kind} {name} to be labelled again"), PATIENCE, async || {
        let object = stage.read(&[&["get"], &found[..]].concat()).await;
        let labels = object["metadata"]["labels"].clone();
        Ok(if labels[MANAGED] == "ensemble" { Ok(()) } else { Err(labels) })
    })
    .await
    .unwrap();
}

/// Changes an object so often, while its controller writes to what it owns, that the controller meets a conflict and
/// reads the object live. `spec` is one of two that take turns.
async fn race(stage: &Stage, api: &Api<DynamicObject>, name: &str, controller: &str, specs: [Value; 2]) {
    let mark = stage.cluster.audit_mark().unwrap();
    let resource = api.resource_url().rsplit('/').next().unwrap().to_owned();
    let has_read = || {
        let agent = format!("({controller})");
        let log = stage.cluster.audit_since(mark).unwrap().by_user(&stage.account.user());
        let mut entries = log.entries.into_iter();
        entries.any(|entry| {
            entry.verb == "get" && entry.resource == resource && entry.user_agent.ends_with(&agent)
        })
    };
    let round = Cell::new(0_usize);
    eventually(&format!("{controller} to meet a conflict about {resource}"), PATIENCE, async || {
        for _ in 0..50 {
            round.set(round.get() + 1);
            let mut object =
                json!({ "metadata": { "annotations": { "example.com/round": round.get().to_string() } } });
            if round.get().is_multiple_of(10) {
                let turn = usize::from(round.get().is_multiple_of(20));
                merge(&mut object, specs[turn].clone());
            }
            api.patch(name, &PatchParams::default(), &Patch::Merge(object)).await?;
        }
        Ok(has_read())
    })
    .await
    .unwrap();
}

fn merge(object: &mut Value, with: Value) {
    for (field, value) in with.as_object().unwrap() {
        match object[field].as_object_mut() {
            Some(present) => present.extend(value.as_object().unwrap().clone()),
            None => object[field] = value.clone(),
        }
    }
}

/// Waits until the controller has told of the same thing once more, which changes the Event that is there.
async fn until_told_again(stage: &Stage, controller: &str) {
    let agent = format!("({controller})");
    eventually(&format!("{controller} to repeat itself"), PATIENCE, async || {
        let log = stage.requests(&stage.account).filter(|entry| entry.user_agent.ends_with(&agent));
        Ok(log.entries.iter().any(|entry| entry.resource == "events" && entry.verb == "patch"))
    })
    .await
    .unwrap();
}

pub(super) async fn podset(stage: &Stage) {
    stage.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    stage.until_settled(&POD_SET, "default", "podset-sample").await;
    // A pod that is let go, and taken in again.
    stage.kubectl(&["label", "pod", "podset-sample-pod-1", "app=other", "--overwrite"]).await.unwrap();
    stage.until_count(&["pods", "--selector=app=podset-sample"], 3).await;
    stage
        .kubectl(&["label", "pod", "podset-sample-pod-1", "app=podset-sample", "--overwrite"])
        .await
        .unwrap();
    stage.until_count(&["pods", "--selector=app=podset-sample"], 3).await;
    stage.change(&POD_SET, "default", "podset-sample", json!({ "replicas": 1 })).await;
    stage.until_count(&["pods", "--selector=app=podset-sample"], 1).await;

    // A template that no API server takes, twice.
    let broken = |image: &str| json!({ "replicas": 1, "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } });
    stage.create(&POD_SET, "default", "broken", broken(" ")).await;
    let is_refused =
        |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("ReplicaFailure");
    stage.until(&POD_SET, "default", "broken", "to fail", is_refused).await;
    stage.change(&POD_SET, "default", "broken", broken("registry.k8s.io/pause:3.10")).await;
    stage.until_settled(&POD_SET, "default", "broken").await;
    stage.change(&POD_SET, "default", "broken", broken(" ")).await;
    stage.kubectl(&["delete", "pod", "broken-pod-1", "--wait=false"]).await.unwrap();
    until_told_again(stage, "podset").await;
    stage.delete(&POD_SET, "default", "broken").await;
}

pub(super) async fn memcached(stage: &Stage) {
    stage.kubectl(&["apply", "-f", &sample("memcached")]).await.unwrap();
    let options = json!({ "metrics": {}, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    stage.change(&MEMCACHED, "default", "memcached-sample", options).await;
    stage.until_settled(&MEMCACHED, "default", "memcached-sample").await;
    for kind in ["deployment", "service", "poddisruptionbudget", "networkpolicy"] {
        hide(stage, "default", kind, "memcached-sample").await;
    }
    let no_options = json!({ "metrics": null, "networkPolicy": null });
    stage.change(&MEMCACHED, "default", "memcached-sample", no_options).await;
    stage.until_settled(&MEMCACHED, "default", "memcached-sample").await;
    for size in [1, 2, 3] {
        stage.change(&MEMCACHED, "default", "memcached-sample", json!({ "size": size })).await;
        stage.until_settled(&MEMCACHED, "default", "memcached-sample").await;
    }
    until_told_again(stage, "memcached").await;
    let caches = stage.api(&MEMCACHED, "default").await;
    let sizes = [2, 3].map(|size| json!({ "spec": { "size": size } }));
    race(stage, &caches, "memcached-sample", "memcached", sizes).await;
    stage.delete(&MEMCACHED, "default", "memcached-sample").await;
    stage.until_gone(&MEMCACHED, "default", "memcached-sample").await;
}

pub(super) async fn namespaceplus(stage: &Stage) {
    const NAME: &str = "team-blue";
    stage.kubectl(&["apply", "-f", &sample("namespaceplus")]).await.unwrap();
    stage.kubectl(&["apply", "-f", &sample("namespaceplus-team")]).await.unwrap();
    stage.until_settled(&NAMESPACE_PLUS, "default", NAME).await;
    for kind in ["resourcequota", "limitrange", "networkpolicy", "rolebinding", "poddisruptionbudget"] {
        let managed = format!("--selector={MANAGED}=ensemble");
        let names = stage.names(&[kind, "--namespace", NAME, &managed]).await;
        hide(stage, NAME, kind, &names[0]).await;
    }
    // Handed over by an administrator, twice.
    let (owner, offer) = ("mygroup.my.domain/owner-", format!("mygroup.my.domain/adopt-by=default/{NAME}"));
    for _ in 0..2 {
        stage.kubectl(&["annotate", "namespace", NAME, owner, &offer]).await.unwrap();
        eventually("the namespace to be taken in", PATIENCE, async || {
            let annotations =
                stage.read(&["get", "namespace", NAME]).await["metadata"]["annotations"].clone();
            Ok(annotations["mygroup.my.domain/owner"].is_string())
        })
        .await
        .unwrap();
    }
    until_told_again(stage, "namespaceplus").await;

    let objects = stage.api(&NAMESPACE_PLUS, "default").await;
    let labels = ["red", "green"].map(|team| json!({ "spec": { "labels": { "team": team } } }));
    race(stage, &objects, NAME, "namespaceplus", labels).await;
    let namespaces = kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&());
    let namespaces = Api::all_with(stage.cluster.client().await.unwrap(), &namespaces);
    let labels = ["x", "y"].map(|team| json!({ "metadata": { "labels": { "team": team } } }));
    race(stage, &namespaces, NAME, "namespaceplus", labels).await;

    let limits = ["requests.cpu", "requests.memory", "limits.memory", "pods", "count/secrets"];
    let no_quota: Value =
        limits.iter().map(|limit| ((*limit).to_owned(), Value::Null)).collect::<Map<_, _>>().into();
    let nothing = json!({ "quota": no_quota, "limitRange": null, "networkPolicies": null, "roleBindings": null,
        "podDisruptionBudgets": null });
    stage.change(&NAMESPACE_PLUS, "default", NAME, nothing).await;
    for kind in ["resourcequotas", "limitranges", "networkpolicies", "rolebindings", "poddisruptionbudgets"] {
        stage.until_none(&[kind, "--namespace", NAME, &format!("--selector={MANAGED}=ensemble")]).await;
    }
    for name in [NAME, "my-ns1"] {
        stage.delete(&NAMESPACE_PLUS, "default", name).await;
        stage.until_gone(&NAMESPACE_PLUS, "default", name).await;
    }
}

pub(super) async fn tenant(stage: &Stage) {
    const MEMBER: &str = "oil-development";
    stage.kubectl(&["apply", "-f", &sample("tenant")]).await.unwrap();
    stage.until_settled(&TENANT, "", "oil").await;
    stage.join("oil", MEMBER).await;
    stage.until_joined("oil", 1).await;
    let managed = format!("--selector={MANAGED}=ensemble");
    for kind in ["limitrange", "networkpolicy", "resourcequota", "rolebinding"] {
        let first =
            async || Ok(stage.names(&[kind, "--namespace", MEMBER, &managed]).await.into_iter().next());
        let name = eventually(&format!("a {kind} of the Tenant"), PATIENCE, first).await.unwrap();
        hide(stage, MEMBER, kind, &name).await;
    }
    let tenants = stage.api(&TENANT, "").await;
    let systems = ["linux", "windows"]
        .map(|system| json!({ "spec": { "nodeSelector": { "kubernetes.io/os": system } } }));
    race(stage, &tenants, "oil", "tenant", systems).await;

    // A stranger's object under a name that the Tenant wants is taken over.
    let name = "capsule-oil-0";
    stage.change(&TENANT, "", "oil", json!({ "limitRanges": null })).await;
    stage.until_none(&["limitranges", "--namespace", MEMBER, &managed]).await;
    let stranger = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "namespace": MEMBER },
        "spec": { "limits": [] },
    });
    stage.cluster.apply_yaml(&stranger.to_string()).await.unwrap();
    let wanted =
        json!({ "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] } });
    stage.change(&TENANT, "", "oil", wanted).await;
    stage.until_count(&["limitranges", "--namespace", MEMBER, &managed], 1).await;
    // A role that does not exist, twice.
    let subjects = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol" }]);
    let binding = |role: &str| json!([{ "clusterRoleName": role, "subjects": subjects }]);
    for _ in 0..2 {
        stage.change(&TENANT, "", "oil", json!({ "additionalRoleBindings": binding("missing") })).await;
        let is_stuck = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "False")
        };
        stage.until(&TENANT, "", "oil", "to say which role there is not", is_stuck).await;
        stage.change(&TENANT, "", "oil", json!({ "additionalRoleBindings": binding("view") })).await;
        stage.until_settled(&TENANT, "", "oil").await;
    }
    until_told_again(stage, "tenant").await;
    stage
        .kubectl(&["create", "service", "clusterip", "web", "--tcp=80", "--namespace", MEMBER])
        .await
        .unwrap();
    let marks = json!({ "serviceOptions": { "additionalMetadata": { "labels": { "team": "oil" } } } });
    stage.change(&TENANT, "", "oil", marks).await;
    stage.until_count(&["services", "--namespace", MEMBER, "--selector=team=oil"], 1).await;

    let nothing = json!({ "networkPolicies": null, "resourceQuotas": null, "limitRanges": null,
        "owners": [{ "kind": "User", "name": "bob", "clusterRoles": ["view"] }] });
    stage.change(&TENANT, "", "oil", nothing).await;
    for kind in ["limitranges", "networkpolicies", "resourcequotas"] {
        stage.until_none(&[kind, "--namespace", MEMBER, &managed]).await;
    }
    stage.until_settled(&TENANT, "", "oil").await;
    stage.delete(&TENANT, "", "oil").await;
    stage.until_gone(&TENANT, "", "oil").await;
}

pub(super) async fn configuration(stage: &Stage) {
    const NAMES: [&str; 2] = ["capsule-namespace-provisioner", "capsule-namespace-deleter"];
    stage.until_settled(&CONFIGURATION, "", "default").await;
    for (kind, name) in
        [("clusterrole", NAMES[0]), ("clusterrole", NAMES[1]), ("clusterrolebinding", NAMES[0])]
    {
        hide(stage, "", kind, name).await;
    }
    let configurations = stage.api(&CONFIGURATION, "").await;
    let users = ["anna", "bob"].map(|user| json!({ "spec": { "userNames": [user] } }));
    race(stage, &configurations, "default", "capsuleconfiguration", users).await;
    stage.create(&TENANT_OWNER, "", "race", json!({ "kind": "User", "name": "anna" })).await;
    let owners = stage.api(&TENANT_OWNER, "").await;
    let people = ["anna", "bob"].map(|name| json!({ "spec": { "name": name } }));
    race(stage, &owners, "race", "capsuleconfiguration", people).await;
    stage.delete(&TENANT_OWNER, "", "race").await;

    // Other names, for which it has to be given rights, and back. The wrong name makes it say something twice.
    let (resources, verbs) = ("--resource=clusterroles,clusterrolebindings", "--verb=update,delete");
    let (first, second) = ("--resource-name=other-provisioner", "--resource-name=other-deleter");
    stage.kubectl(&["create", "clusterrole", "other-names", resources, verbs, first, second]).await.unwrap();
    let (role, account) = ("--clusterrole=other-names", format!("--user={}", stage.account.user()));
    stage.kubectl(&["create", "clusterrolebinding", "other-names", role, &account]).await.unwrap();
    for _ in 0..2 {
        stage.change(&CONFIGURATION, "", "default", json!({ "rbac": { "deleter": "view" } })).await;
        let is_refused = |object: &DynamicObject| {
            object.data["status"]["conditions"]
                .to_string()
                .contains("ClusterRole view exists and is not ours")
        };
        stage.until(&CONFIGURATION, "", "default", "to leave a stranger's role alone", is_refused).await;
        let other = json!({ "provisioner": "other-provisioner", "deleter": "other-deleter" });
        stage.change(&CONFIGURATION, "", "default", json!({ "rbac": other })).await;
        stage.until_settled(&CONFIGURATION, "", "default").await;
        let own = json!({ "provisioner": NAMES[0], "deleter": NAMES[1] });
        stage.change(&CONFIGURATION, "", "default", json!({ "rbac": own })).await;
        stage.until_settled(&CONFIGURATION, "", "default").await;
    }
    until_told_again(stage, "capsuleconfiguration").await;
    for kind in ["clusterrolebinding", "clusterrole"] {
        stage.kubectl(&["delete", kind, "other-names"]).await.unwrap();
    }
}
