//! Tests of the Kustomize overlays and of `install.yaml`.

use cluster::wait::eventually;
use serde_json::json;

use super::{Deployed, create_namespace, manifests, wait_until_reconciled};
use crate::support::{NAMESPACE, NAMESPACE_PLUS, PATIENCE, TENANT, TestEnv, Webhooks, path, sample};

const DEPLOYMENT: &str = "ensemble-manager";

impl TestEnv {
    async fn apply(&self, overlay: &str) {
        let folder = path(&format!("deploy/overlays/{overlay}"));
        self.kubectl(&["apply", "--server-side", "-k", &folder]).await.unwrap();
    }

    /// Applies an overlay and waits until its Pods are ready.
    async fn deploy(&self, overlay: &str) -> Deployed {
        self.apply(overlay).await;
        Deployed::read(self, NAMESPACE, DEPLOYMENT).await
    }
}

/// The overlays with the fewest permissions come first, so that no step uses the permissions of
/// another.
#[tokio::test]
async fn every_overlay_deploys_working_manager() {
    let stage = TestEnv::bare().await;
    namespaced(&stage).await;
    subset_of_controllers(&stage).await;
    with_cert_manager_and_prometheus(&stage).await;
    all_controllers(&stage).await;
}

#[tokio::test]
async fn options_of_the_proxy_are_components() {
    let cluster = cluster::shared().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    // Kustomize accepts relative paths only.
    let up = "../".repeat(dir.path().canonicalize().unwrap().components().count() - 1);
    let ours = |folder: &str| format!("{up}{}", path(folder).trim_start_matches('/'));
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [ours("deploy/overlays/proxy")],
        "components": [ours("deploy/proxy-options/role-bindings"), ours("deploy/proxy-options/client-certificates")],
    });
    std::fs::write(dir.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let built = cluster.kubectl(&["kustomize", dir.path().to_str().unwrap()]).await.unwrap();
    let objects = manifests::read(&built);
    let key =
        |kind: &str, namespace: &str, name: &str| (kind.to_owned(), namespace.to_owned(), name.to_owned());
    let deployment = &objects[&key("Deployment", NAMESPACE, "ensemble-proxy")];
    let variables = ["ENSEMBLE_PROXY_NAMESPACES_BY_ROLE_BINDING", "ENSEMBLE_PROXY_CLIENT_CERTIFICATES"];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    for variable in variables {
        let expected = json!({"name": variable, "value": "true"});
        assert!(container["env"].as_array().unwrap().contains(&expected), "{container}");
    }
    assert_eq!(container["command"], json!(["/ensemble-proxy"]), "nothing else was replaced");
    for name in ["ensemble-proxy-role-bindings", "ensemble-proxy-client-certificates"] {
        assert!(objects.contains_key(&key("ClusterRoleBinding", "", name)));
    }
    assert!(objects.contains_key(&key("RoleBinding", "kube-system", "ensemble-proxy-client-ca")));
}

async fn namespaced(stage: &TestEnv) {
    create_namespace(stage, "shop").await;
    let deployed = stage.deploy("namespaced").await;
    let manager = deployed.run(stage, Webhooks::new()).await;
    wait_until_reconciled(stage, "shop", "one").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
    let ours = "--selector=app.kubernetes.io/part-of=ensemble";
    stage.until_empty(&["clusterroles,clusterrolebindings", ours]).await;
}

async fn subset_of_controllers(stage: &TestEnv) {
    let deployed = stage.deploy("subset").await;
    let manager = deployed.run(stage, Webhooks::new()).await;
    wait_until_reconciled(stage, "default", "two").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
    let definitions = stage.names(&["customresourcedefinitions"]).await;
    assert_eq!(definitions, ["memcacheds.cache.example.com", "podsets.app.example.com"]);
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies";
    stage.until_empty(&[kinds]).await;
    let roles = stage.names(&["clusterroles", "--selector=app.kubernetes.io/part-of=ensemble"]).await;
    for left_out in ["namespaceplus", "capsuleconfiguration", "tenant", "certificates"] {
        assert!(!roles.contains(&format!("ensemble-{left_out}")), "{roles:?}");
    }
}

async fn all_controllers(stage: &TestEnv) {
    let file = path("deploy/install.yaml");
    let overlay = stage.kubectl(&["kustomize", &path("deploy/overlays/all")]).await.unwrap();
    let install = manifests::read(&std::fs::read_to_string(&file).unwrap());
    manifests::assert_same(&install, &manifests::read(&overlay));

    stage.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    let deployed = Deployed::read(stage, NAMESPACE, DEPLOYMENT).await;
    let webhooks = Webhooks::new();
    let manager = deployed.run(stage, webhooks).await;
    stage.configure(webhooks).await;
    stage.until_tenants_reviewed().await;
    wait_until_reconciled(stage, "default", "three").await;
    for file in ["tenant", "namespaceplus"] {
        stage.kubectl(&["apply", "--namespace=default", "-f", &sample(file)]).await.unwrap();
    }
    stage.until_ready(&TENANT, "", "oil").await;
    stage.until_ready(&NAMESPACE_PLUS, "default", "my-ns1").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
}

/// The role grants a permission that the manager itself does not have.
#[tokio::test]
async fn overlay_lets_tenants_bind_named_cluster_roles() {
    let stage = TestEnv::bare().await;
    let (verbs, role) = ("--verb=get,deletecollection", "our-developers");
    stage.kubectl(&["create", "clusterrole", role, verbs, "--resource=secrets"]).await.unwrap();
    let deployed = stage.deploy("bindable-cluster-roles").await;
    let webhooks = Webhooks::new();
    let manager = deployed.run(&stage, webhooks).await;
    stage.configure(webhooks).await;
    stage.until_tenants_reviewed().await;
    let bindings =
        json!([{ "clusterRoleName": role, "subjects": [{ "kind": "Group", "name": "developers" }] }]);
    stage.create(&TENANT, "", "gas", json!({ "additionalRoleBindings": bindings })).await;
    stage.join("gas", "gas-dev").await;
    stage.until_tenant_ready("gas", 1).await;
    let subject = ["--as=dora", "--as-group=developers", "--namespace=gas-dev"];
    let can_i = [&["auth", "can-i", "deletecollection", "secrets"], &subject[..]].concat();
    eventually("the role to be bound", PATIENCE, async || stage.kubectl(&can_i).await.map(|_| true))
        .await
        .unwrap();
    stage.until_ready(&TENANT, "", "gas").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(&stage);
}

/// Deploys next to cert-manager and the Prometheus Operator, of which only the
/// CustomResourceDefinitions exist.
async fn with_cert_manager_and_prometheus(stage: &TestEnv) {
    for (group, version, kind, plural) in [
        ("cert-manager.io", "v1", "Issuer", "issuers"),
        ("cert-manager.io", "v1", "Certificate", "certificates"),
        ("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
        ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
        ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    ] {
        stage.install_foreign_crd(group, version, kind, plural).await;
    }
    let deployed = stage.deploy("cert-manager").await;
    assert_eq!(deployed.args(), ["--controllers=*", "--certificates=cert-manager"]);
    let certificates = stage.names(&["certificates.cert-manager.io", "--namespace", NAMESPACE]).await;
    assert_eq!(certificates, ["ensemble", "ensemble-authority"]);

    let deployed = stage.deploy("monitoring").await;
    assert_eq!(deployed.args(), ["--controllers=*"]);
    let monitoring = ["servicemonitors,podmonitors,prometheusrules", "--namespace", NAMESPACE];
    let monitoring = stage.names(&monitoring).await;
    assert_eq!(monitoring, ["ensemble", "ensemble-proxy", "ensemble-postgres", "ensemble"]);
    let dashboard = stage.read(&["get", "configmap", "ensemble-dashboard", "--namespace", NAMESPACE]).await;
    let text = dashboard["data"]["ensemble.json"].as_str().unwrap();
    assert_eq!(text, std::fs::read_to_string(path("deploy/monitoring/dashboard.json")).unwrap());
}
