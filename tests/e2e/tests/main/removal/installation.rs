//! A manager as it is deployed, with objects of every kind, and the ways in which people take it away.

use serde_json::json;

use crate::support::{
    CONFIGURATION, Kind, MEMCACHED, Manager, NAMESPACE, NAMESPACE_PLUS, POD_SET, TENANT, TENANT_OWNER,
    TestEnv, Webhooks, path,
};

/// The kinds that people write.
pub(super) const KINDS: [&Kind; 6] =
    [&POD_SET, &MEMCACHED, &NAMESPACE_PLUS, &TENANT, &TENANT_OWNER, &CONFIGURATION];

/// A manager that runs.
pub(super) struct Installation<'s> {
    pub(super) stage: &'s TestEnv,
    pub(super) manager: Manager,
}

impl<'s> Installation<'s> {
    /// Applies `deploy/rbac` and `deploy/webhooks`, and starts the manager.
    pub(super) async fn begin(stage: &'s mut TestEnv, name: &str) -> Self {
        stage.create_account().await;
        stage.grant_rights().await;
        let webhooks = Webhooks::new();
        let manager = stage.start_with_webhooks(name, webhooks, &["--leader-elect=true"]);
        stage.configure(webhooks).await;
        stage.create_manager_pod().await;
        manager.until_readyz(200, "ok").await;
        Self { stage, manager }
    }

    /// Makes an object of every kind under each of these names, and waits until all are as asked.
    pub(super) async fn populate(&self, names: &[&str]) {
        let stage = self.stage;
        for name in names {
            stage.create(&POD_SET, "default", name, json!({ "replicas": 1 })).await;
            stage.create(&MEMCACHED, "default", name, json!({ "size": 1 })).await;
            stage.create(&NAMESPACE_PLUS, "default", &plus(name), json!({ "quota": { "pods": 1 } })).await;
            stage.create(&TENANT, "", name, json!({ "owners": [{ "kind": "User", "name": "alice" }] })).await;
            stage.create(&TENANT_OWNER, "", name, json!({ "kind": "User", "name": "anna" })).await;
            stage.join(name, &member(name)).await;
        }
        for name in names {
            stage.until_ready(&POD_SET, "default", name).await;
            stage.until_ready(&MEMCACHED, "default", name).await;
            stage.until_ready(&NAMESPACE_PLUS, "default", &plus(name)).await;
            stage.until_tenant_ready(name, 1).await;
        }
        stage.until_ready(&CONFIGURATION, "", "default").await;
    }

    /// Asks for the deletion of the objects of a name.
    pub(super) async fn delete_objects(&self, name: &str) {
        let stage = self.stage;
        for (kind, namespace, name) in [
            (&POD_SET, "default", name.to_owned()),
            (&MEMCACHED, "default", name.to_owned()),
            (&NAMESPACE_PLUS, "default", plus(name)),
            (&TENANT, "", name.to_owned()),
            (&TENANT_OWNER, "", name.to_owned()),
        ] {
            stage.delete(kind, namespace, &name).await;
        }
    }

    /// Deletes the namespace, and lets the manager end by that. Returns its log.
    pub(super) async fn end_with_its_namespace(self) -> String {
        let log = self.stage.delete_manager_namespace(self.manager).await;
        self.stage.remove_manager_pod().await;
        log
    }

    /// Asks the manager to end, as the deletion of its Deployment does. Returns its log.
    pub(super) async fn end(self) -> String {
        let log = self.manager.stop().await;
        self.stage.remove_manager_pod().await;
        log
    }

    /// Asks for the deletion of all objects that there are.
    pub(super) async fn delete_all_objects(stage: &TestEnv) {
        for kind in KINDS {
            let all = ["delete", kind.singular(), "--all", "--all-namespaces", "--wait=false"];
            stage.kubectl(&all).await.unwrap();
        }
    }

    /// Asks for the deletion of the definitions, and with them of all objects.
    pub(super) async fn delete_definitions(stage: &TestEnv) {
        stage.kubectl(&["delete", "-f", &path("deploy/crds"), "--wait=false"]).await.unwrap();
    }

    /// Asks for the deletion of the manager's namespace.
    pub(super) async fn delete_namespace(stage: &TestEnv) {
        stage.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.unwrap();
    }

    /// Deletes what else was applied, and the namespaces that people have got by NamespacePlus: those stay where nobody
    /// deletes them, and by default in any case.
    pub(super) async fn delete_the_rest(stage: &TestEnv) {
        let plus = stage.names(&["namespaces"]).await.into_iter().filter(|name| name.starts_with("plus-"));
        for name in plus {
            stage.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
        }
        let mut applied = vec!["delete", "--ignore-not-found", "--wait=false"];
        let folders = ["deploy/rbac", "deploy/rbac/optional/release.yaml", "deploy/webhooks"].map(path);
        applied.extend(folders.iter().flat_map(|folder| ["-f", folder.as_str()]));
        stage.kubectl(&applied).await.unwrap();
    }
}

fn plus(name: &str) -> String {
    format!("plus-{name}")
}

fn member(name: &str) -> String {
    format!("member-of-{name}")
}
