//! A deployed manager with objects of every kind, and the steps that uninstall it.

use serde_json::json;

use crate::support::{
    CONFIGURATION, Kind, MEMCACHED, Manager, NAMESPACE, NAMESPACE_PLUS, POD_SET, POSTGRES_CLUSTER, TENANT,
    TENANT_OWNER, TestEnv, Webhooks, path,
};

/// Kinds that users create.
pub(super) const KINDS: [&Kind; 7] =
    [&POD_SET, &MEMCACHED, &NAMESPACE_PLUS, &POSTGRES_CLUSTER, &TENANT, &TENANT_OWNER, &CONFIGURATION];

/// A running manager.
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

    /// Creates an object of every kind under each name, and waits until all are reconciled.
    pub(super) async fn populate(&self, names: &[&str]) {
        let stage = self.stage;
        for name in names {
            stage.create(&POD_SET, "default", name, json!({ "replicas": 1 })).await;
            stage.create(&MEMCACHED, "default", name, json!({ "size": 1 })).await;
            stage.create(&NAMESPACE_PLUS, "default", &plus(name), json!({ "quota": { "pods": 1 } })).await;
            stage.create(&POSTGRES_CLUSTER, "default", name, json!({ "size": 1 })).await;
            stage.create(&TENANT, "", name, json!({ "owners": [{ "kind": "User", "name": "alice" }] })).await;
            stage.create(&TENANT_OWNER, "", name, json!({ "kind": "User", "name": "anna" })).await;
            stage.join(name, &member(name)).await;
        }
        for name in names {
            stage.until_ready(&POD_SET, "default", name).await;
            stage.until_ready(&MEMCACHED, "default", name).await;
            stage.until_ready(&NAMESPACE_PLUS, "default", &plus(name)).await;
            stage.until_count(&["pods", &format!("--selector=lukeb0nd.com/cluster={name}")], 1).await;
            stage.until_tenant_ready(name, 1).await;
        }
        stage.until_ready(&CONFIGURATION, "", "default").await;
    }

    /// Deletes the objects of a name. Does not wait.
    pub(super) async fn delete_objects(&self, name: &str) {
        let stage = self.stage;
        for (kind, namespace, name) in [
            (&POD_SET, "default", name.to_owned()),
            (&MEMCACHED, "default", name.to_owned()),
            (&NAMESPACE_PLUS, "default", plus(name)),
            (&POSTGRES_CLUSTER, "default", name.to_owned()),
            (&TENANT, "", name.to_owned()),
            (&TENANT_OWNER, "", name.to_owned()),
        ] {
            stage.delete(kind, namespace, &name).await;
        }
    }

    /// Deletes the manager's namespace and waits until the manager has stopped. Returns its log.
    pub(super) async fn delete_namespace_and_wait(self) -> String {
        let log = self.stage.delete_manager_namespace(self.manager).await;
        self.stage.remove_manager_pod().await;
        log
    }

    /// Stops the manager, as the deletion of its Deployment does. Returns its log.
    pub(super) async fn stop(self) -> String {
        let log = self.manager.stop().await;
        self.stage.remove_manager_pod().await;
        log
    }

    /// Deletes all objects. Does not wait.
    pub(super) async fn delete_all_objects(stage: &TestEnv) {
        for kind in KINDS {
            let all = ["delete", kind.singular(), "--all", "--all-namespaces", "--wait=false"];
            stage.kubectl(&all).await.unwrap();
        }
    }

    /// Deletes the CustomResourceDefinitions, and with them all objects. Does not wait.
    pub(super) async fn delete_crds(stage: &TestEnv) {
        stage.kubectl(&["delete", "-f", &path("deploy/crds"), "--wait=false"]).await.unwrap();
    }

    /// Deletes the manager's namespace. Does not wait.
    pub(super) async fn delete_namespace(stage: &TestEnv) {
        stage.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.unwrap();
    }

    /// Deletes the volumes of PostgresClusters, which stay. Does not wait.
    pub(super) async fn delete_volumes(stage: &TestEnv) {
        stage.kubectl(&["delete", "persistentvolumeclaims", "--all", "--wait=false"]).await.unwrap();
    }

    /// Deletes the other applied objects, the volumes of PostgresClusters, and the
    /// namespaces of NamespacePlus objects, which stay by default or if no manager runs.
    pub(super) async fn delete_the_rest(stage: &TestEnv) {
        Self::delete_volumes(stage).await;
        let plus = stage.names(&["namespaces"]).await.into_iter().filter(|name| name.starts_with("plus-"));
        for name in plus {
            stage.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
        }
        let mut applied = vec!["delete", "--ignore-not-found", "--wait=false"];
        let files = ["deploy/rbac", "deploy/rbac/optional/cleanup.yaml", "deploy/webhooks"].map(path);
        applied.extend(files.iter().flat_map(|file| ["-f", file.as_str()]));
        stage.kubectl(&applied).await.unwrap();
    }
}

fn plus(name: &str) -> String {
    format!("plus-{name}")
}

fn member(name: &str) -> String {
    format!("member-of-{name}")
}
