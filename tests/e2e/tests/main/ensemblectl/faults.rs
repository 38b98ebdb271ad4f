//! Results of `check` when parts of the installation break.

use cluster::wait::eventually;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::run::{Output, ctl};
use crate::support::{PATIENCE, POD_SET, TestEnv};

/// Waits until a check reports the fault. Asserts that the checks themselves succeeded.
async fn until_reported(env: &TestEnv, args: &[&str], texts: &[&str]) -> Output {
    let what = format!("check to report {texts:?}");
    eventually(&what, PATIENCE, async || {
        let output = ctl(env, &[&["check"], args].concat());
        Ok(if output.code == 1 && texts.iter().all(|text| output.out.contains(text)) {
            Ok(output)
        } else {
            Err(output)
        })
    })
    .await
    .unwrap()
}

pub(super) async fn reports_missing_role_binding(env: &TestEnv) {
    env.kubectl(&["delete", "clusterrolebinding", "ensemble-podset"]).await.unwrap();
    let texts = [
        "✗ role ensemble-podset",
        "cannot get/list/watch podsets.app.example.com",
        "→ apply the role and its binding with `kubectl apply -f deploy/rbac/podset.yaml`",
    ];
    let output = until_reported(env, &[], &texts).await;
    assert!(!output.out.contains("✗ role ensemble-memcached"), "{output:?}");
    env.grant_rights().await;
}

pub(super) async fn reports_object_held_by_finalizer(env: &TestEnv) {
    let finalizers = |finalizers: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let podsets = env.api(&POD_SET, "default").await;
    podsets.patch("web", &PatchParams::default(), &finalizers(&["example.com/stays"])).await.unwrap();
    env.delete(&POD_SET, "default", "web").await;
    let texts = [
        "✗ PodSet default/web",
        "waiting for finalizers: example.com/stays",
        "`ensemblectl status podsets web --namespace default`",
    ];
    until_reported(env, &["--stuck-after=0s"], &texts).await;
    let output = ctl(env, &["wait", "podset", "web", "--for=deleted", "--timeout=100ms"]);
    assert!(
        output.code == 1 && output.err.contains("it is waiting for finalizers: example.com/stays"),
        "{output:?}"
    );
    podsets.patch("web", &PatchParams::default(), &finalizers(&[])).await.unwrap();
    let output = ctl(env, &["wait", "podset", "web", "--for=deleted", "--timeout=1m"]);
    assert_eq!(output.code, 0, "{output:?}");
}

pub(super) async fn reports_missing_leader_and_webhook_server(env: &TestEnv) {
    let texts =
        ["✗ leader of podset", "has expired", "✗ webhook tenants.tenant.ensemble", "does not respond"];
    until_reported(env, &[], &texts).await;
}

pub(super) async fn reports_missing_ca_bundle(env: &TestEnv) {
    let patch = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    let configuration =
        ["validatingwebhookconfiguration", "ensemble-tenant", "--type=json", "--patch", patch];
    env.kubectl(&[&["patch"], configuration.as_slice()].concat()).await.unwrap();
    until_reported(
        env,
        &[],
        &["✗ ValidatingWebhookConfiguration ensemble-tenant", "has no caBundle for tenants.tenant.ensemble"],
    )
    .await;
}

pub(super) async fn reports_missing_webhook_configuration(env: &TestEnv) {
    env.kubectl(&["delete", "validatingwebhookconfiguration", "ensemble-tenant"]).await.unwrap();
    let texts = ["✗ ValidatingWebhookConfiguration ensemble-tenant", "does not exist"];
    let output = until_reported(env, &[], &texts).await;
    assert!(!output.out.contains(" webhook tenants.tenant.ensemble"), "{output:?}");
}

pub(super) async fn reports_missing_crd(env: &TestEnv) {
    env.kubectl(&["delete", "customresourcedefinition", "podsets.app.example.com"]).await.unwrap();
    let output = until_reported(env, &[], &["✗ CRD podsets.app.example.com", "does not exist"]).await;
    assert!(output.out.contains("→ run `kubectl apply"), "{output:?}");
}
