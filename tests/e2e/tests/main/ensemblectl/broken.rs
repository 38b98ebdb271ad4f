//! What `check` says when one thing after the other breaks.

use cluster::wait::eventually;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::run::{Said, ctl};
use crate::support::{PATIENCE, POD_SET, Stage};

/// Waits until a check names the fault, and nothing was wrong with looking.
async fn until_named(stage: &Stage, args: &[&str], words: &[&str]) -> Said {
    let what = format!("check to say {words:?}");
    eventually(&what, PATIENCE, async || {
        let said = ctl(stage, &[&["check"], args].concat());
        Ok(if said.code == 1 && words.iter().all(|word| said.out.contains(word)) {
            Ok(said)
        } else {
            Err(said)
        })
    })
    .await
    .unwrap()
}

pub(super) async fn a_role_binding_is_missing(stage: &Stage) {
    stage.kubectl(&["delete", "clusterrolebinding", "ensemble-podset"]).await.unwrap();
    let words = [
        "✗ role ensemble-podset",
        "cannot get/list/watch podsets.app.example.com",
        "→ apply the role and its binding with `kubectl apply -f deploy/rbac/podset.yaml`",
    ];
    let said = until_named(stage, &[], &words).await;
    assert!(!said.out.contains("✗ role ensemble-memcached"), "{said:?}");
    stage.permit().await;
}

pub(super) async fn an_object_cannot_go(stage: &Stage) {
    let finalizers = |finalizers: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let podsets = stage.api(&POD_SET, "default").await;
    podsets.patch("web", &PatchParams::default(), &finalizers(&["example.com/stays"])).await.unwrap();
    stage.delete(&POD_SET, "default", "web").await;
    let words = [
        "✗ PodSet default/web",
        "waiting for finalizers: example.com/stays",
        "`ensemblectl status podsets web --namespace default`",
    ];
    until_named(stage, &["--stuck-after=0s"], &words).await;
    let said = ctl(stage, &["wait", "podset", "web", "--for=deleted", "--timeout=100ms"]);
    assert!(
        said.code == 1 && said.err.contains("it is waiting for finalizers: example.com/stays"),
        "{said:?}"
    );
    podsets.patch("web", &PatchParams::default(), &finalizers(&[])).await.unwrap();
    let said = ctl(stage, &["wait", "podset", "web", "--for=deleted", "--timeout=1m"]);
    assert_eq!(said.code, 0, "{said:?}");
}

pub(super) async fn nobody_leads_and_nobody_answers(stage: &Stage) {
    let words =
        ["✗ leader of podset", "has expired", "✗ webhook tenants.tenant.ensemble", "does not respond"];
    until_named(stage, &[], &words).await;
}

pub(super) async fn the_api_server_does_not_know_whom_to_trust(stage: &Stage) {
    let patch = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    let configuration =
        ["validatingwebhookconfiguration", "ensemble-tenant", "--type=json", "--patch", patch];
    stage.kubectl(&[&["patch"], configuration.as_slice()].concat()).await.unwrap();
    until_named(
        stage,
        &[],
        &["✗ ValidatingWebhookConfiguration ensemble-tenant", "has no caBundle for tenants.tenant.ensemble"],
    )
    .await;
}

pub(super) async fn nobody_is_asked(stage: &Stage) {
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "ensemble-tenant"]).await.unwrap();
    let words = ["✗ ValidatingWebhookConfiguration ensemble-tenant", "does not exist"];
    let said = until_named(stage, &[], &words).await;
    assert!(!said.out.contains(" webhook tenants.tenant.ensemble"), "{said:?}");
}

pub(super) async fn a_definition_is_gone(stage: &Stage) {
    stage.kubectl(&["delete", "customresourcedefinition", "podsets.app.example.com"]).await.unwrap();
    let said = until_named(stage, &[], &["✗ CRD podsets.app.example.com", "does not exist"]).await;
    assert!(said.out.contains("→ run kubectl apply"), "{said:?}");
}
