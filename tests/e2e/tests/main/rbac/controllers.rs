//! Makes the controllers use all their rights.

use std::cell::Cell;

use cluster::wait::eventually;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Map, Value, json};

use crate::support::{
    CONFIGURATION, GLOBAL_PROXY_SETTINGS, GLOBAL_TENANT_RESOURCE, Kind, MEMCACHED, NAMESPACE_PLUS, PATIENCE,
    POD_SET, PROXY_SETTING, TENANT, TENANT_OWNER, TENANT_RESOURCE, TestEnv, sample,
};

/// Label of all managed objects. The controllers' caches contain only objects with this label.
const MANAGED: &str = "app.kubernetes.io/managed-by";

/// Removes the label from an object. Its controller then fails to create the object, reads it live,
/// and repairs it. `namespace` is empty for cluster-scoped objects.
async fn remove_label(env: &TestEnv, namespace: &str, kind: &str, name: &str) {
    let inside = format!("--namespace={namespace}");
    env.kubectl(&["label", kind, name, &inside, &format!("{MANAGED}-")]).await.unwrap();
    let found = [&inside, kind, name];
    eventually(&format!("{kind} {name} to be labelled again"), PATIENCE, async || {
        let object = env.read(&[&["get"], &found[..]].concat()).await;
        let labels = object["metadata"]["labels"].clone();
        Ok(if labels[MANAGED] == "ensemble" { Ok(()) } else { Err(labels) })
    })
    .await
    .unwrap();
}

/// Changes an object repeatedly while its controller writes it, until the controller gets a
/// conflict and reads the object live. Alternates between two specs.
async fn provoke_conflict(
    env: &TestEnv,
    api: &Api<DynamicObject>,
    name: &str,
    controller: &str,
    specs: [Value; 2],
) {
    let mark = env.cluster.audit_mark().unwrap();
    let resource = api.resource_url().rsplit('/').next().unwrap().to_owned();
    let has_read = || {
        let agent = format!("({controller})");
        let log = env.cluster.audit_since(mark).unwrap().by_user(&env.account.user());
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

/// Waits until the controller has repeated an Event, which patches the existing one.
async fn until_event_is_repeated(env: &TestEnv, controller: &str) {
    let agent = format!("({controller})");
    eventually(&format!("{controller} to repeat an Event"), PATIENCE, async || {
        let log = env.requests(&env.account).filter(|entry| entry.user_agent.ends_with(&agent));
        Ok(log.entries.iter().any(|entry| entry.resource == "events" && entry.verb == "patch"))
    })
    .await
    .unwrap();
}

pub(super) async fn podset(env: &TestEnv) {
    env.kubectl(&["apply", "-f", &sample("podset")]).await.unwrap();
    env.until_ready(&POD_SET, "default", "podset-sample").await;
    // A Pod is released and adopted again.
    env.kubectl(&["label", "pod", "podset-sample-pod-1", "app=other", "--overwrite"]).await.unwrap();
    env.until_count(&["pods", "--selector=app=podset-sample"], 3).await;
    env.kubectl(&["label", "pod", "podset-sample-pod-1", "app=podset-sample", "--overwrite"]).await.unwrap();
    env.until_count(&["pods", "--selector=app=podset-sample"], 3).await;
    env.change(&POD_SET, "default", "podset-sample", json!({ "replicas": 1 })).await;
    env.until_count(&["pods", "--selector=app=podset-sample"], 1).await;

    // A template that the API server rejects, twice.
    let broken = |image: &str| json!({ "replicas": 1, "template": { "spec": { "containers": [{ "name": "main", "image": image }] } } });
    env.create(&POD_SET, "default", "broken", broken(" ")).await;
    let is_refused =
        |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("ReplicaFailure");
    env.until(&POD_SET, "default", "broken", "to fail", is_refused).await;
    env.change(&POD_SET, "default", "broken", broken("registry.k8s.io/pause:3.10")).await;
    env.until_ready(&POD_SET, "default", "broken").await;
    env.change(&POD_SET, "default", "broken", broken(" ")).await;
    env.kubectl(&["delete", "pod", "broken-pod-1", "--wait=false"]).await.unwrap();
    until_event_is_repeated(env, "podset").await;
    env.delete(&POD_SET, "default", "broken").await;
}

pub(super) async fn memcached(env: &TestEnv) {
    env.kubectl(&["apply", "-f", &sample("memcached")]).await.unwrap();
    let options = json!({ "metrics": {}, "networkPolicy": { "from": [{ "podSelector": {} }] } });
    env.change(&MEMCACHED, "default", "memcached-sample", options).await;
    env.until_ready(&MEMCACHED, "default", "memcached-sample").await;
    for kind in ["deployment", "service", "poddisruptionbudget", "networkpolicy"] {
        remove_label(env, "default", kind, "memcached-sample").await;
    }
    let no_options = json!({ "metrics": null, "networkPolicy": null });
    env.change(&MEMCACHED, "default", "memcached-sample", no_options).await;
    env.until_ready(&MEMCACHED, "default", "memcached-sample").await;
    for size in [1, 2, 3] {
        env.change(&MEMCACHED, "default", "memcached-sample", json!({ "size": size })).await;
        env.until_ready(&MEMCACHED, "default", "memcached-sample").await;
    }
    until_event_is_repeated(env, "memcached").await;
    let caches = env.api(&MEMCACHED, "default").await;
    let sizes = [2, 3].map(|size| json!({ "spec": { "size": size } }));
    provoke_conflict(env, &caches, "memcached-sample", "memcached", sizes).await;
    env.delete(&MEMCACHED, "default", "memcached-sample").await;
    env.until_gone(&MEMCACHED, "default", "memcached-sample").await;
}

pub(super) async fn namespaceplus(env: &TestEnv) {
    const NAME: &str = "team-blue";
    env.kubectl(&["apply", "-f", &sample("namespaceplus")]).await.unwrap();
    env.kubectl(&["apply", "-f", &sample("namespaceplus-team")]).await.unwrap();
    env.until_ready(&NAMESPACE_PLUS, "default", NAME).await;
    for kind in ["resourcequota", "limitrange", "networkpolicy", "rolebinding", "poddisruptionbudget"] {
        let managed = format!("--selector={MANAGED}=ensemble");
        let names = env.names(&[kind, "--namespace", NAME, &managed]).await;
        remove_label(env, NAME, kind, &names[0]).await;
    }
    // An administrator offers the namespace for adoption, twice.
    let (owner, offer) = ("mygroup.my.domain/owner-", format!("mygroup.my.domain/adopt-by=default/{NAME}"));
    for _ in 0..2 {
        env.kubectl(&["annotate", "namespace", NAME, owner, &offer]).await.unwrap();
        eventually("the namespace to be adopted", PATIENCE, async || {
            let annotations = env.read(&["get", "namespace", NAME]).await["metadata"]["annotations"].clone();
            Ok(annotations["mygroup.my.domain/owner"].is_string())
        })
        .await
        .unwrap();
    }
    until_event_is_repeated(env, "namespaceplus").await;

    let objects = env.api(&NAMESPACE_PLUS, "default").await;
    let labels = ["red", "green"].map(|team| json!({ "spec": { "labels": { "team": team } } }));
    provoke_conflict(env, &objects, NAME, "namespaceplus", labels).await;
    let namespaces = kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Namespace>(&());
    let namespaces = Api::all_with(env.cluster.client().await.unwrap(), &namespaces);
    let labels = ["x", "y"].map(|team| json!({ "metadata": { "labels": { "team": team } } }));
    provoke_conflict(env, &namespaces, NAME, "namespaceplus", labels).await;

    let limits = ["requests.cpu", "requests.memory", "limits.memory", "pods", "count/secrets"];
    let no_quota: Value =
        limits.iter().map(|limit| ((*limit).to_owned(), Value::Null)).collect::<Map<_, _>>().into();
    let nothing = json!({ "quota": no_quota, "limitRange": null, "networkPolicies": null, "roleBindings": null,
        "podDisruptionBudgets": null });
    env.change(&NAMESPACE_PLUS, "default", NAME, nothing).await;
    for kind in ["resourcequotas", "limitranges", "networkpolicies", "rolebindings", "poddisruptionbudgets"] {
        env.until_empty(&[kind, "--namespace", NAME, &format!("--selector={MANAGED}=ensemble")]).await;
    }
    for name in [NAME, "my-ns1"] {
        env.delete(&NAMESPACE_PLUS, "default", name).await;
        env.until_gone(&NAMESPACE_PLUS, "default", name).await;
    }
}

/// Uses the rights for Pods, volumes, and Ingresses of a Tenant.
async fn tenant_policies(env: &TestEnv, namespace: &str) {
    env.until_empty(&["limitranges", "--namespace", namespace]).await;
    env.kubectl(&["run", "web", "--image=web", "--namespace", namespace]).await.unwrap();
    let marks = json!({ "additionalMetadata": { "labels": { "team": "oil" } } });
    let options = json!({ "allowedClasses": null, "hostnameCollisionScope": "Tenant" });
    env.change(&TENANT, "", "oil", json!({ "podOptions": marks, "ingressOptions": options })).await;
    env.until_count(&["pods", "--namespace", namespace, "--selector=team=oil"], 1).await;
    env.store(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "rights" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/tmp/none" },
            "claimRef": { "namespace": namespace, "name": "data" },
        },
    }))
    .await;
    env.until_count(&["persistentvolumes", "--selector=capsule.clastix.io/tenant=oil"], 1).await;
    let rule = "--rule=web.example/=web:80";
    env.kubectl(&["create", "ingress", "web", rule, "--namespace", namespace]).await.unwrap();
}

pub(super) async fn tenant(env: &TestEnv) {
    const MEMBER: &str = "oil-development";
    env.kubectl(&["apply", "-f", &sample("tenant")]).await.unwrap();
    env.until_ready(&TENANT, "", "oil").await;
    env.join("oil", MEMBER).await;
    env.until_tenant_ready("oil", 1).await;
    let managed = format!("--selector={MANAGED}=ensemble");
    for kind in ["limitrange", "networkpolicy", "resourcequota", "rolebinding"] {
        let first = async || Ok(env.names(&[kind, "--namespace", MEMBER, &managed]).await.into_iter().next());
        let name = eventually(&format!("a {kind} of the Tenant"), PATIENCE, first).await.unwrap();
        remove_label(env, MEMBER, kind, &name).await;
    }
    let tenants = env.api(&TENANT, "").await;
    let systems = ["linux", "windows"]
        .map(|system| json!({ "spec": { "nodeSelector": { "kubernetes.io/os": system } } }));
    provoke_conflict(env, &tenants, "oil", "tenant", systems).await;
    // The controller may have skipped all changes but the last, which can be the first selector again.
    env.change(&TENANT, "", "oil", json!({ "nodeSelector": { "kubernetes.io/os": "plan9" } })).await;
    eventually("the namespace to have the node selector", PATIENCE, async || {
        let annotations = env.read(&["get", "namespace", MEMBER]).await["metadata"]["annotations"].clone();
        Ok(annotations["scheduler.alpha.kubernetes.io/node-selector"] == "kubernetes.io/os=plan9")
    })
    .await
    .unwrap();

    // A foreign object with the name of a managed object is taken over.
    let name = "capsule-oil-0";
    env.change(&TENANT, "", "oil", json!({ "limitRanges": null })).await;
    env.until_empty(&["limitranges", "--namespace", MEMBER, &managed]).await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "namespace": MEMBER },
        "spec": { "limits": [] },
    });
    env.cluster.apply_yaml(&foreign.to_string()).await.unwrap();
    let wanted =
        json!({ "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] } });
    env.change(&TENANT, "", "oil", wanted).await;
    env.until_count(&["limitranges", "--namespace", MEMBER, &managed], 1).await;
    // A ClusterRole that does not exist, twice.
    let subjects = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol" }]);
    let binding = |role: &str| json!([{ "clusterRoleName": role, "subjects": subjects }]);
    for _ in 0..2 {
        env.change(&TENANT, "", "oil", json!({ "additionalRoleBindings": binding("missing") })).await;
        let is_stuck = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "False")
        };
        env.until(&TENANT, "", "oil", "to report the missing ClusterRole", is_stuck).await;
        env.change(&TENANT, "", "oil", json!({ "additionalRoleBindings": binding("view") })).await;
        env.until_ready(&TENANT, "", "oil").await;
    }
    until_event_is_repeated(env, "tenant").await;
    env.kubectl(&["create", "service", "clusterip", "web", "--tcp=80", "--namespace", MEMBER]).await.unwrap();
    let marks = json!({ "serviceOptions": { "additionalMetadata": { "labels": { "team": "oil" } } } });
    env.change(&TENANT, "", "oil", marks).await;
    env.until_count(&["services", "--namespace", MEMBER, "--selector=team=oil"], 1).await;

    let nothing = json!({ "networkPolicies": null, "resourceQuotas": null, "limitRanges": null,
        "owners": [{ "kind": "User", "name": "bob", "clusterRoles": ["view"] }] });
    env.change(&TENANT, "", "oil", nothing).await;
    tenant_policies(env, MEMBER).await;
    for kind in ["limitranges", "networkpolicies", "resourcequotas"] {
        env.until_empty(&[kind, "--namespace", MEMBER, &managed]).await;
    }
    env.until_ready(&TENANT, "", "oil").await;
    env.delete(&TENANT, "", "oil").await;
    env.until_gone(&TENANT, "", "oil").await;
}

pub(super) async fn replication(env: &TestEnv) {
    const MEMBER: &str = "gas-development";
    env.create(&TENANT, "", "gas", json!({})).await;
    env.join("gas", MEMBER).await;
    env.kubectl(&["create", "serviceaccount", "replicator", "--namespace", MEMBER]).await.unwrap();
    let (role, account) = ("--clusterrole=cluster-admin", format!("--serviceaccount={MEMBER}:replicator"));
    let binding = ["create", "rolebinding", "replicator", role, &account, "--namespace", MEMBER];
    env.kubectl(&binding).await.unwrap();
    let account = json!({ "name": "replicator" });
    replicate(env, &TENANT_RESOURCE, MEMBER, "tenantresource", json!({ "serviceAccount": account })).await;
    let account = json!({ "name": "replicator", "namespace": MEMBER });
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": "gas" } });
    let spec = json!({ "serviceAccount": account, "tenantSelector": selector });
    replicate(env, &GLOBAL_TENANT_RESOURCE, "", "globaltenantresource", spec).await;
    env.delete(&TENANT, "", "gas").await;
    env.until_gone(&TENANT, "", "gas").await;
}

async fn replicate(env: &TestEnv, kind: &Kind, namespace: &str, controller: &str, mut spec: Value) {
    let resources = |kind: &str, value: &str| {
        let metadata = json!({ "name": controller, "annotations": { "value": value } });
        json!([{ "rawItems": [{ "apiVersion": "v1", "kind": kind, "metadata": metadata }] }])
    };
    spec["resources"] = resources("ConfigMap", "0");
    env.create(kind, namespace, "gas", spec).await;
    env.until_ready(kind, namespace, "gas").await;
    // A kind that does not exist, twice.
    for _ in 0..2 {
        env.change(kind, namespace, "gas", json!({ "resources": resources("Missing", "0") })).await;
        let has_failed =
            |object: &DynamicObject| object.data["status"]["conditions"].to_string().contains("Failed");
        env.until(kind, namespace, "gas", "to report the missing kind", has_failed).await;
        env.change(kind, namespace, "gas", json!({ "resources": resources("ConfigMap", "0") })).await;
        env.until_ready(kind, namespace, "gas").await;
    }
    until_event_is_repeated(env, controller).await;
    let objects = env.api(kind, namespace).await;
    let specs = ["1", "2"].map(|value| json!({ "spec": { "resources": resources("ConfigMap", value) } }));
    provoke_conflict(env, &objects, "gas", controller, specs).await;
    env.delete(kind, namespace, "gas").await;
    env.until_gone(kind, namespace, "gas").await;
}

pub(super) async fn configuration(env: &TestEnv) {
    const NAMES: [&str; 2] = ["capsule-namespace-provisioner", "capsule-namespace-deleter"];
    env.until_ready(&CONFIGURATION, "", "default").await;
    for (kind, name) in
        [("clusterrole", NAMES[0]), ("clusterrole", NAMES[1]), ("clusterrolebinding", NAMES[0])]
    {
        remove_label(env, "", kind, name).await;
    }
    let configurations = env.api(&CONFIGURATION, "").await;
    let users = ["anna", "bob"].map(|user| json!({ "spec": { "userNames": [user] } }));
    provoke_conflict(env, &configurations, "default", "capsuleconfiguration", users).await;
    env.create(&TENANT_OWNER, "", "race", json!({ "kind": "User", "name": "anna" })).await;
    let owners = env.api(&TENANT_OWNER, "").await;
    let subjects = ["anna", "bob"].map(|name| json!({ "spec": { "name": name } }));
    provoke_conflict(env, &owners, "race", "capsuleconfiguration", subjects).await;
    env.delete(&TENANT_OWNER, "", "race").await;
    let by = |name: &str| json!([{ "kind": "User", "name": name }]);
    let subjects = ["anna", "bob"].map(|name| json!({ "spec": { "subjects": by(name) } }));
    env.create(&PROXY_SETTING, "default", "race", subjects[0]["spec"].clone()).await;
    let settings = env.api(&PROXY_SETTING, "default").await;
    provoke_conflict(env, &settings, "race", "capsuleconfiguration", subjects).await;
    env.delete(&PROXY_SETTING, "default", "race").await;
    let nodes =
        json!({ "apiGroups": [""], "resources": ["nodes"], "selector": { "matchLabels": { "a": "b" } } });
    let rules = ["anna", "bob"]
        .map(|name| json!({ "spec": { "rules": [{ "subjects": by(name), "clusterResources": [nodes] }] } }));
    env.create(&GLOBAL_PROXY_SETTINGS, "", "race", rules[0]["spec"].clone()).await;
    let settings = env.api(&GLOBAL_PROXY_SETTINGS, "").await;
    provoke_conflict(env, &settings, "race", "capsuleconfiguration", rules).await;
    env.delete(&GLOBAL_PROXY_SETTINGS, "", "race").await;

    // Renames the ClusterRoles, which needs additional rights, and back. The conflicting name
    // causes an Event twice.
    let (resources, verbs) = ("--resource=clusterroles,clusterrolebindings", "--verb=update,delete");
    let (first, second) = ("--resource-name=other-provisioner", "--resource-name=other-deleter");
    env.kubectl(&["create", "clusterrole", "other-names", resources, verbs, first, second]).await.unwrap();
    let (role, account) = ("--clusterrole=other-names", format!("--user={}", env.account.user()));
    env.kubectl(&["create", "clusterrolebinding", "other-names", role, &account]).await.unwrap();
    for _ in 0..2 {
        env.change(&CONFIGURATION, "", "default", json!({ "rbac": { "deleter": "view" } })).await;
        let is_refused = |object: &DynamicObject| {
            object.data["status"]["conditions"]
                .to_string()
                .contains("ClusterRole view exists and is not owned by this object")
        };
        env.until(&CONFIGURATION, "", "default", "to report the foreign ClusterRole", is_refused).await;
        let other = json!({ "provisioner": "other-provisioner", "deleter": "other-deleter" });
        env.change(&CONFIGURATION, "", "default", json!({ "rbac": other })).await;
        env.until_ready(&CONFIGURATION, "", "default").await;
        let own = json!({ "provisioner": NAMES[0], "deleter": NAMES[1] });
        env.change(&CONFIGURATION, "", "default", json!({ "rbac": own })).await;
        env.until_ready(&CONFIGURATION, "", "default").await;
    }
    until_event_is_repeated(env, "capsuleconfiguration").await;
    for kind in ["clusterrolebinding", "clusterrole"] {
        env.kubectl(&["delete", kind, "other-names"]).await.unwrap();
    }
}
