//! Tests of the Helm chart.

use std::fs;

use cluster::wait::eventually;
use serde_json::{Value, json};

use super::{Deployed, Helm, RELEASE, create_namespace, manifests, wait_until_reconciled};
use crate::support::{PATIENCE, TestEnv, Webhooks, path};

/// Namespace of the chart. It differs from the namespace of the generated manifests, so that a name
/// that the templates did not replace fails the tests.
const NAMESPACE: &str = "platform";

#[test]
fn default_values_render_install_yaml() {
    let helm = Helm::new();
    helm.run(&["lint", "--strict", &path("deploy/helm/ensemble")]).unwrap();
    let mut rendered = manifests::read(&helm.template(&["crds.keep=false"]).unwrap());
    // install.yaml has neither the cleanup Job nor the Pod of `helm test`.
    rendered.retain(|_, object| {
        let hook = &object["metadata"]["annotations"]["helm.sh/hook"];
        hook != "post-delete" && hook != "test"
    });
    let mut wanted = manifests::read(&fs::read_to_string(path("deploy/install.yaml")).unwrap());
    // Helm does not create the namespace of a release from the chart.
    wanted.retain(|(kind, ..), _| kind != "Namespace");
    for (key, object) in &mut rendered {
        let Some(wanted) = wanted.get_mut(key) else { continue };
        if key.0 == "Lease" {
            // Helm creates the Leases once, and the manager owns them afterwards.
            let annotations = object["metadata"].as_object_mut().unwrap().remove("annotations").unwrap();
            assert_eq!(annotations, json!({ "helm.sh/hook": "pre-install" }));
        }
        if key.0 == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(container["imagePullPolicy"].take(), "IfNotPresent");
            wanted["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = Value::Null;
        }
    }
    manifests::assert_same(&rendered, &wanted);
}

#[test]
fn rejects_invalid_values() {
    let helm = Helm::new();
    for (set, expected) in [
        (&["replica=2"][..], "additional properties 'replica' not allowed"),
        (&["crds.kep=true"], "additional properties 'kep' not allowed"),
        (&["replicas=many"], "got string, want integer"),
        (&["perController=1"], "got number, want boolean"),
        (&["extraArgs={--controllers=*}"], "extraArgs"),
        (&["controllers={podsets}"], "unknown controller \"podsets\"; use memcached, "),
        (&["controllers={-podset}"], "controllers: no controller is enabled"),
        (
            &["watchNamespaces={shop}"],
            "these controllers need cluster-wide permissions: namespaceplus, globaltenantresource, tenantresource, \
             capsuleconfiguration, tenant; set controllers={memcached,podset,postgres}",
        ),
        (
            &["watchNamespaces={ensemble-system}", "controllers={podset}"],
            "ensemble-system is the manager's own namespace",
        ),
        (
            &["bindableClusterRoles={our-developers}", "controllers={podset}"],
            "bindableClusterRoles requires the controller tenant",
        ),
        (&["bindableClusterRoles={*}"], "bindableClusterRoles"),
        (
            &["metrics.enabled=false", "monitoring.serviceMonitor.enabled=true"],
            "monitoring.serviceMonitor.enabled requires metrics.enabled=true",
        ),
    ] {
        let error = helm.template(set).expect_err("the values must be rejected");
        assert!(error.contains(expected), "{set:?}: {error}");
    }
    let chart = path("deploy/helm/ensemble");
    let error =
        helm.run(&["template", &chart, "--kube-version=1.32.9"]).expect_err("the version must be rejected");
    assert!(error.contains("chart requires kubeVersion: >=1.33"), "{error}");
}

#[test]
fn renders_every_value() {
    let helm = Helm::new();
    let digest = format!("image.digest=sha256:{}", "a".repeat(64));
    let rendered = helm.template(&[
        "controllers={podset}",
        "image.repository=registry.example.com/ensemble",
        &digest,
        "certManager.enabled=true",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.podMonitor.enabled=true",
        "monitoring.serviceMonitor.labels.release=prometheus",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.dashboard.enabled=true",
        "networkPolicy.enabled=false",
        "podDisruptionBudget.maxUnavailable=50%",
        "priorityClassName=",
        "crds.install=false",
        "extraArgs={--log-format=json}",
        "nodeSelector.disk=fast",
        "podAnnotations.team=platform",
        "webhook.clientCA.configMap=api-server-clients",
    ]);
    let objects = manifests::read(&rendered.unwrap());
    let within = |kind: &str, name: &str| {
        let key = (kind.to_owned(), "ensemble-system".to_owned(), name.to_owned());
        objects.get(&key).unwrap_or_else(|| panic!("there is no {key:?}"))
    };
    let deployment = &within("Deployment", "ensemble-manager")["spec"]["template"];
    let container = &deployment["spec"]["containers"][0];
    let image = format!("registry.example.com/ensemble@sha256:{}", "a".repeat(64));
    assert_eq!(container["image"], image);
    let instance = json!({ "name": "POSTGRES_INSTANCE_IMAGE", "value": image });
    assert!(container["env"].as_array().unwrap().contains(&instance), "{container}");
    let client_ca = "--webhook-client-ca-file=/etc/ensemble/client-ca/ca.crt";
    let args = ["--controllers=podset", "--certificates=cert-manager", "--log-format=json", client_ca];
    assert_eq!(container["args"], json!(args));
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/ensemble/client-ca");
    assert_eq!(deployment["spec"]["volumes"][0]["configMap"]["name"], "api-server-clients");
    assert_eq!(deployment["spec"]["nodeSelector"], json!({ "disk": "fast" }));
    assert_eq!(deployment["metadata"]["annotations"]["team"], "platform");
    assert_eq!(deployment["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"], "manager");
    let job = &within("Job", "ensemble-cleanup")["spec"]["template"];
    let [cleanup] = job["spec"]["containers"].as_array().unwrap().as_slice() else { panic!("{job}") };
    let args = ["--controllers=podset", "--certificates=cert-manager", "--log-format=json", "cleanup"];
    assert_eq!((&cleanup["image"], &cleanup["args"]), (&container["image"], &json!(args)));
    assert_eq!(job["spec"]["nodeSelector"], json!({ "disk": "fast" }));
    assert_eq!(job["metadata"]["annotations"], json!({ "team": "platform" }));
    let pod = within("Pod", "ensemble-check");
    let [check] = pod["spec"]["containers"].as_array().unwrap().as_slice() else { panic!("{pod}") };
    let args = ["--controllers=podset", "--certificates=cert-manager", "--log-format=json", "check"];
    assert_eq!((&check["image"], &check["args"]), (&container["image"], &json!(args)));
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!((&annotations["helm.sh/hook"], &annotations["team"]), (&json!("test"), &json!("platform")));
    assert!(!objects.keys().any(|(.., name)| name == "ensemble-check-tenant"), "podset has no webhooks");
    assert_eq!(within("PodDisruptionBudget", "ensemble-manager")["spec"]["maxUnavailable"], "50%");
    assert_eq!(within("ServiceMonitor", "ensemble")["metadata"]["labels"]["release"], "prometheus");
    assert_eq!(
        within("PodMonitor", "ensemble-postgres")["spec"]["namespaceSelector"],
        json!({ "any": true })
    );
    within("PrometheusRule", "ensemble");
    within("Certificate", "ensemble");
    within("ConfigMap", "ensemble-dashboard");
    let left_out = ["CustomResourceDefinition", "NetworkPolicy", "ResourceQuota"];
    assert!(objects.keys().all(|(kind, ..)| !left_out.contains(&kind.as_str())), "{:?}", objects.keys());
}

#[test]
fn proxy_is_one_value_and_as_in_the_manifests() {
    let helm = Helm::new();
    let without = manifests::read(&helm.template(&[]).unwrap());
    let mut with = manifests::read(&helm.template(&["proxy.enabled=true"]).unwrap());
    with.retain(|key, _| !without.contains_key(key));
    let mut expected = manifests::Manifests::new();
    for file in fs::read_dir(path("deploy/proxy")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            expected.extend(manifests::read(&fs::read_to_string(file).unwrap()));
        }
    }
    let deployment = ("Deployment".to_owned(), "ensemble-system".to_owned(), "ensemble-proxy".to_owned());
    let service = ("Service".to_owned(), "ensemble-system".to_owned(), "ensemble-proxy".to_owned());
    let container = &mut expected.get_mut(&deployment).unwrap()["spec"]["template"]["spec"]["containers"][0];
    container["imagePullPolicy"] = json!("IfNotPresent");
    expected.get_mut(&service).unwrap()["spec"]["type"] = json!("ClusterIP");
    manifests::assert_same(&with, &expected);

    let rendered = helm.template(&[
        "proxy.enabled=true",
        "proxy.replicas=3",
        "proxy.tlsSecret=mine",
        "proxy.extraArgs={--views=namespaces}",
        "proxy.service.type=LoadBalancer",
    ]);
    let objects = manifests::read(&rendered.unwrap());
    let pod = &objects[&deployment]["spec"]["template"]["spec"];
    assert_eq!(objects[&deployment]["spec"]["replicas"], json!(3.0));
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "mine");
    assert_eq!(pod["containers"][0]["args"], json!(["--views=namespaces"]));
    assert_eq!(objects[&service]["spec"]["type"], "LoadBalancer");
}

#[test]
fn options_of_the_proxy_are_values_with_the_rights_in_the_manifests() {
    let helm = Helm::new();
    let read =
        |set: &[&str]| manifests::read(&helm.template(&[&["proxy.enabled=true"], set].concat()).unwrap());
    let without = read(&[]);
    for (value, flag, folder) in [
        ("proxy.namespacesByRoleBinding=true", "--namespaces-by-role-binding", "role-bindings"),
        ("proxy.clientCertificates=true", "--client-certificates", "client-certificates"),
    ] {
        let mut with = read(&[value, "proxy.extraArgs={--log-level=debug}"]);
        let deployment = ("Deployment".to_owned(), "ensemble-system".to_owned(), "ensemble-proxy".to_owned());
        let container = &with[&deployment]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["args"], json!([flag, "--log-level=debug"]));
        with.retain(|key, _| !without.contains_key(key));
        let rights = fs::read_to_string(path(&format!("deploy/proxy-options/{folder}/rbac.yaml"))).unwrap();
        manifests::assert_same(&with, &manifests::read(&rights));
    }
    let monitored = read(&["monitoring.serviceMonitor.enabled=true", "proxy.tlsSecret=mine"]);
    let key = ("ServiceMonitor".to_owned(), "ensemble-system".to_owned(), "ensemble-proxy".to_owned());
    let ca = &monitored[&key]["spec"]["endpoints"][0]["tlsConfig"]["ca"];
    assert_eq!(ca["secret"]["name"], "mine");
    assert!(!without.contains_key(&key));
}

#[test]
fn bindable_cluster_roles_are_one_value() {
    let helm = Helm::new();
    let name = |suffix: &str| format!("ensemble-bindable-cluster-roles{suffix}");
    let cluster = |kind: &str, suffix: &str| (kind.to_owned(), String::new(), name(suffix));
    let without = manifests::read(&helm.template(&[]).unwrap());
    assert!(!without.contains_key(&cluster("ClusterRole", "")));
    let set = "bindableClusterRoles={our-developers,team:auditors}";
    for (more, suffix, account) in [
        ("perController=false", "", "ensemble-manager"),
        ("perController=true", "-tenant", "ensemble-tenant"),
    ] {
        let controllers = "controllers={podset,tenant}";
        let rendered = manifests::read(&helm.template(&[set, more, controllers]).unwrap());
        let rules = json!([{
            "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"],
            "resourceNames": ["our-developers", "team:auditors"],
        }]);
        assert_eq!(rendered[&cluster("ClusterRole", suffix)]["rules"], rules);
        let binding = &rendered[&cluster("ClusterRoleBinding", suffix)];
        assert_eq!(binding["roleRef"]["name"], name(suffix));
        assert_eq!(binding["subjects"][0]["name"], account);
    }
}

#[test]
fn members_are_scraped_where_the_controller_watches() {
    let values = [
        "controllers={postgres}",
        "watchNamespaces={shop,team}",
        "metrics.enabled=false",
        "monitoring.podMonitor.enabled=true",
    ];
    let objects = manifests::read(&Helm::new().template(&values).unwrap());
    let key = ("PodMonitor".to_owned(), "ensemble-system".to_owned(), "ensemble-postgres".to_owned());
    assert_eq!(objects[&key]["spec"]["namespaceSelector"], json!({ "matchNames": ["shop", "team"] }));
}

#[test]
fn cleanup_hooks_match_enabled_controllers_and_can_be_disabled() {
    let helm = Helm::new();
    let hooks = |set: &[&str]| {
        let mut objects = manifests::read(&helm.template(set).unwrap());
        objects.retain(|_, object| object["metadata"]["annotations"]["helm.sh/hook"] == "post-delete");
        objects.into_keys().map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).collect()
    };
    let one: Vec<String> =
        hooks(&["controllers={memcached,podset}", "watchNamespaces={shop}", "perController=true"]);
    let wanted = [
        "Job ensemble-system/ensemble-cleanup",
        "Role ensemble-system/ensemble-cleanup",
        "Role shop/ensemble-cleanup-memcached",
        "RoleBinding ensemble-system/ensemble-cleanup",
        "RoleBinding shop/ensemble-cleanup-memcached",
        "ServiceAccount ensemble-system/ensemble-cleanup",
    ];
    assert_eq!(one, wanted);
    let all: Vec<String> = hooks(&[]);
    assert!(all.contains(&"ClusterRole /ensemble-cleanup-tenant".to_owned()), "{all:?}");
    let none: Vec<String> = hooks(&["cleanup.enabled=false"]);
    assert!(none.is_empty(), "{none:?}");
}

/// The values with the fewest permissions come first, so that no step uses the permissions of a
/// previous one.
#[tokio::test]
async fn installs_upgrades_and_uninstalls() {
    let stage = TestEnv::bare().await;
    let helm = Helm::with(stage.cluster.kubeconfig());
    for namespace in [NAMESPACE, "shop"] {
        create_namespace(&stage, namespace).await;
    }
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    stage.kubectl(&["label", "namespace", NAMESPACE, restricted]).await.unwrap();
    rejects_cluster_with_capsule(&stage, &helm).await;
    namespaced(&stage, &helm).await;
    deployment_per_controller(&stage, &helm).await;
    single_deployment(&stage, &helm).await;

    helm.run(&["uninstall", RELEASE, "--namespace", NAMESPACE]).unwrap();
    let ours = "--selector=app.kubernetes.io/part-of=ensemble";
    let kinds =
        "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations";
    stage.until_empty(&[kinds, ours]).await;
    let definitions = stage.names(&["customresourcedefinitions", ours]).await;
    assert!(
        definitions.contains(&"podsets.app.example.com".to_owned()),
        "CustomResourceDefinitions must stay: {definitions:?}"
    );
}

async fn rejects_cluster_with_capsule(stage: &TestEnv, helm: &Helm) {
    stage.install_foreign_crd("capsule.clastix.io", "v1beta2", "Tenant", "tenants").await;
    let error = helm.apply("install", RELEASE, NAMESPACE, &[]).unwrap_err();
    assert!(
        error.contains("cannot install CustomResourceDefinition tenants.capsule.clastix.io: it exists"),
        "{error}"
    );
    stage.kubectl(&["delete", "crd", "tenants.capsule.clastix.io"]).await.unwrap();
    let guard = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "guard" },
        "webhooks": [{
            "name": "pods.projectcapsule.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "url": "https://127.0.0.1:1/" }, "failurePolicy": "Ignore",
            "rules": [{ "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"] }],
        }],
    });
    stage.cluster.apply_yaml(&guard.to_string()).await.unwrap();
    let error = helm.apply("install", RELEASE, NAMESPACE, &[]).unwrap_err();
    assert!(error.contains("Capsule is installed in this cluster") && error.contains("guard"), "{error}");
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "guard"]).await.unwrap();
    stage.until_empty(&["customresourcedefinitions"]).await;
    stage.until_empty(&["deployments", "--namespace", NAMESPACE]).await;
}

async fn namespaced(stage: &TestEnv, helm: &Helm) {
    let values = ["controllers={memcached,podset}", "watchNamespaces={shop}", "metrics.enabled=false"];
    let notes = helm.apply("install", RELEASE, NAMESPACE, &values).unwrap();
    assert!(notes.contains("Deployment ensemble-manager: memcached, podset"), "{notes}");
    stage.until_empty(&["clusterroles", "--selector=app.kubernetes.io/part-of=ensemble"]).await;
    let deployed = Deployed::read(stage, NAMESPACE, "ensemble-manager").await;
    let manager = deployed.run(stage, Webhooks::new()).await;
    wait_until_reconciled(stage, "shop", "one").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
}

async fn deployment_per_controller(stage: &TestEnv, helm: &Helm) {
    let values = ["controllers={memcached,podset}", "perController=true"];
    helm.apply("upgrade", RELEASE, NAMESPACE, &values).unwrap();
    let names = stage.names(&["deployments", "--namespace", NAMESPACE]).await;
    assert_eq!(names, ["ensemble-memcached", "ensemble-podset"]);
    let memcached = Deployed::read(stage, NAMESPACE, "ensemble-memcached").await;
    let podset = Deployed::read(stage, NAMESPACE, "ensemble-podset").await;
    let managers = [memcached.run(stage, Webhooks::new()).await, podset.run(stage, Webhooks::new()).await];
    wait_until_reconciled(stage, "default", "two").await;
    for manager in managers {
        manager.stop().await;
    }
    memcached.assert_no_forbidden_requests(stage);
    podset.assert_no_forbidden_requests(stage);
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:ensemble-podset");
    let other = ["auth", "can-i", "list", "memcacheds", "--all-namespaces", &account];
    assert!(stage.kubectl(&other).await.is_err(), "permissions must not be shared");
}

async fn single_deployment(stage: &TestEnv, helm: &Helm) {
    let account = format!("--as=system:serviceaccount:{NAMESPACE}:ensemble-manager");
    let may_bind = async |role: &str| {
        let role = format!("clusterroles/{role}");
        stage.kubectl(&["auth", "can-i", "bind", &role, &account]).await.is_ok()
    };
    let until = async |role: &str, expected: bool| {
        let what = format!("the permission to bind {role} to be {expected}");
        eventually(&what, PATIENCE, async || Ok(may_bind(role).await == expected)).await.unwrap();
    };
    helm.apply("upgrade", RELEASE, NAMESPACE, &["bindableClusterRoles={our-developers}"]).unwrap();
    until("our-developers", true).await;
    until("admin", true).await;
    assert!(!may_bind("cluster-admin").await, "only the named roles may be bound");
    helm.apply("upgrade", RELEASE, NAMESPACE, &[]).unwrap();
    until("our-developers", false).await;
    let deployed = Deployed::read(stage, NAMESPACE, "ensemble-manager").await;
    assert_eq!(deployed.args(), ["--controllers=*"]);
    let manager = deployed.run(stage, Webhooks::new()).await;
    wait_until_reconciled(stage, "default", "three").await;
    manager.stop().await;
    deployed.assert_no_forbidden_requests(stage);
    let error = helm.apply("install", "again", "default", &["crds.install=false"]).unwrap_err();
    assert!(
        error.contains("release controllers in namespace platform already manages this cluster"),
        "{error}"
    );
}
