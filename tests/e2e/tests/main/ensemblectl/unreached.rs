//! Where there is nothing to look at: no cluster, no right, no installation.

use serde_json::json;

use super::run::{Said, ctl, ctl_with, run, run_unread};
use crate::support::{Stage, free_port};

fn assert_told(said: &Said, words: &[&str]) {
    assert_eq!(said.code, 2, "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word}: {said:?}");
    }
}

#[test]
fn without_a_cluster_a_person_is_told_what_to_do() {
    assert_told(&run(&["check"], &[]), &["cannot load a cluster configuration", "→ set KUBECONFIG"]);
    let missing = run(&["check", "--kubeconfig", "/nowhere/config"], &[]);
    assert_told(&missing, &["/nowhere/config", "→ set KUBECONFIG"]);
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let nobody = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "here", "cluster": { "server": format!("https://127.0.0.1:{}", free_port()) } }],
        "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me" } }],
        "users": [{ "name": "me", "user": {} }],
    });
    std::fs::write(kubeconfig.path(), nobody.to_string()).unwrap();
    let refused = ctl_with(kubeconfig.path(), &["status"]);
    assert_told(&refused, &["https://127.0.0.1:", "onnection refused", "→ check the address"]);
    let elsewhere = ctl_with(kubeconfig.path(), &["status", "--context", "there"]);
    assert_told(&elsewhere, &["there", "get-contexts"]);
}

#[test]
fn completions_and_help_need_no_cluster() {
    let bash = run(&["completion", "bash"], &[]);
    assert!(bash.code == 0 && bash.out.contains("complete -F _ensemblectl"), "{bash:?}");
    assert_eq!(run_unread(&["completion", "zsh"]), 0, "whoever stops to read has read enough");
    let help = run(&["--help"], &[]);
    assert!(help.code == 0 && help.out.contains("without Secrets and credentials"), "{help:?}");
}

/// A cluster without us.
pub(super) async fn where_it_is_not_installed(stage: &Stage) {
    let said = ctl(stage, &["check"]);
    assert!(
        said.code == 1 && said.out.contains("✗ CRDs") && said.out.contains("is not installed"),
        "{said:?}"
    );
    for args in
        [&["status"][..], &["status", "podset", "web"], &["tree", "tenant", "oil"], &["wait", "nsp/blue"]]
    {
        assert_told(&ctl(stage, args), &["Ensemble is not installed", "→ select another cluster"]);
    }
    let before = ctl(stage, &["check", "--pre"]);
    assert!(before.code == 0 && before.out.contains("✓ CRDs"), "{before:?}");

    let capsule = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "capsule-dynamic-webhook" },
        "webhooks": [{
            "name": "tenants.projectcapsule.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
            "clientConfig": { "url": "https://127.0.0.1:1/" },
            "rules": [{
                "apiGroups": ["capsule.clastix.io"], "apiVersions": ["*"], "resources": ["tenants"], "operations": ["DELETE"],
            }],
        }],
    });
    stage.cluster.apply_yaml(&capsule.to_string()).await.unwrap();
    let before = ctl(stage, &["check", "--pre"]);
    assert!(
        before.code == 1 && before.out.contains("capsule-dynamic-webhook reviews the kinds of Ensemble"),
        "{before:?}"
    );
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "capsule-dynamic-webhook"]).await.unwrap();
}

/// Somebody whom the API server does not know, and somebody who may nothing.
pub(super) async fn with_wrong_credentials(stage: &Stage) {
    let eve = stage.account("eve").await;
    assert_told(&ctl_with(eve.kubeconfig(), &["status"]), &["is forbidden", "→ ask an administrator"]);
    let said = ctl_with(eve.kubeconfig(), &["check"]);
    assert!(said.code == 2 && said.out.contains("? CRDs"), "{said:?}");
    let said = ctl_with(eve.kubeconfig(), &["check", "--pre"]);
    assert!(
        said.code == 1 && said.out.contains("you cannot get/create/patch customresourcedefinitions"),
        "{said:?}"
    );

    let mut config = stage.read(&["config", "view", "--raw"]).await;
    config["users"][0]["user"] = json!({ "token": "of another time" });
    let forged = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(forged.path(), config.to_string()).unwrap();
    assert_told(&ctl_with(forged.path(), &["check"]), &["Unauthorized", "→ log in again"]);
}
