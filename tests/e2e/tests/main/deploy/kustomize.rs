//! The overlays of kustomize, and the one file that needs no kustomize.

use cluster::wait::eventually;
use serde_json::json;

use super::{Deployed, create_namespace, objects, until_it_works};
use crate::support::{NAMESPACE, NAMESPACE_PLUS, PATIENCE, TENANT, TestEnv, Webhooks, path, sample};

const DEPLOYMENT: &str = "ensemble-manager";

impl TestEnv {
    async fn apply(&self, overlay: &str) {
        let folder = path(&format!("deploy/overlays/{overlay}"));
        self.kubectl(&["apply", "--server-side", "-k", &folder]).await.unwrap();
    }

    /// Applies an overlay and starts what it deploys.
    async fn deploy(&self, overlay: &str) -> Deployed {
        self.apply(overlay).await;
        Deployed::read(self, NAMESPACE, DEPLOYMENT).await
    }
}

/// The overlays are applied in the order of their rights, the fewest first: what one has does not help those before it.
#[tokio::test]
async fn each_overlay_is_taken_and_what_it_deploys_works() {
    let stage = TestEnv::bare().await;
    only_in_a_namespace(&stage).await;
    some_controllers(&stage).await;
    with_others(&stage).await;
    all_controllers(&stage).await;
}

async fn only_in_a_namespace(stage: &TestEnv) {
    create_namespace(stage, "shop").await;
    let deployed = stage.deploy("namespaced").await;
    let manager = deployed.run(stage, Webhooks::new()).await;
    until_it_works(stage, "shop", "one").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
    let ours = "--selector=app.kubernetes.io/part-of=ensemble";
    stage.until_empty(&["clusterroles,clusterrolebindings", ours]).await;
}

async fn some_controllers(stage: &TestEnv) {
    let deployed = stage.deploy("subset").await;
    let manager = deployed.run(stage, Webhooks::new()).await;
    until_it_works(stage, "default", "two").await;
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
    let in_one_file = objects::read(&std::fs::read_to_string(&file).unwrap());
    objects::assert_same(&in_one_file, &objects::read(&overlay));

    stage.kubectl(&["apply", "--server-side", "-f", &file]).await.unwrap();
    let deployed = Deployed::read(stage, NAMESPACE, DEPLOYMENT).await;
    let webhooks = Webhooks::new();
    let manager = deployed.run(stage, webhooks).await;
    stage.configure(webhooks).await;
    stage.until_tenants_reviewed().await;
    until_it_works(stage, "default", "three").await;
    for file in ["tenant", "namespaceplus"] {
        stage.kubectl(&["apply", "--namespace=default", "-f", &sample(file)]).await.unwrap();
    }
    stage.until_ready(&TENANT, "", "oil").await;
    stage.until_ready(&NAMESPACE_PLUS, "default", "my-ns1").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
}

/// The role allows what the manager itself may not do.
#[tokio::test]
async fn a_tenant_gives_the_cluster_roles_that_an_overlay_names() {
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
    let who = ["--as=dora", "--as-group=developers", "--namespace=gas-dev"];
    let may = [&["auth", "can-i", "deletecollection", "secrets"], &who[..]].concat();
    eventually("the role to be given", PATIENCE, async || stage.kubectl(&may).await.map(|_| true))
        .await
        .unwrap();
    stage.until_ready(&TENANT, "", "gas").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(&stage);
}

/// Beside cert-manager and the Prometheus Operator, of which only the definitions are here.
async fn with_others(stage: &TestEnv) {
    for (group, version, kind, plural) in [
        ("cert-manager.io", "v1", "Issuer", "issuers"),
        ("cert-manager.io", "v1", "Certificate", "certificates"),
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
    let watched = ["get", "servicemonitors,prometheusrules", "--namespace", NAMESPACE];
    assert_eq!(stage.read(&watched).await["items"].as_array().unwrap().len(), 2);
    let dashboard = stage.read(&["get", "configmap", "ensemble-dashboard", "--namespace", NAMESPACE]).await;
    let text = dashboard["data"]["ensemble.json"].as_str().unwrap();
    assert_eq!(text, std::fs::read_to_string(path("deploy/monitoring/dashboard.json")).unwrap());
}
