//! ensemblectl without a cluster, without rights, and without an installation.

use serde_json::json;

use super::run::{Output, ctl, ctl_with, run, run_unread};
use crate::support::{TestEnv, reserve_port};

fn assert_error(output: &Output, texts: &[&str]) {
    assert_eq!(output.code, 2, "{output:?}");
    for text in texts {
        assert!(output.err.contains(text), "{text}: {output:?}");
    }
}

#[test]
fn errors_without_a_cluster_have_a_remedy() {
    assert_error(&run(&["check"], &[]), &["cannot load a cluster configuration", "→ set KUBECONFIG"]);
    let missing = run(&["check", "--kubeconfig", "/nowhere/config"], &[]);
    assert_error(&missing, &["/nowhere/config", "→ set KUBECONFIG"]);
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "here", "cluster": { "server": format!("https://127.0.0.1:{}", reserve_port()) } }],
        "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me" } }],
        "users": [{ "name": "me", "user": {} }],
    });
    std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
    let refused = ctl_with(kubeconfig.path(), &["status"]);
    assert_error(&refused, &["https://127.0.0.1:", "onnection refused", "→ check the address"]);
    let elsewhere = ctl_with(kubeconfig.path(), &["status", "--context", "there"]);
    assert_error(&elsewhere, &["there", "get-contexts"]);
}

#[test]
fn completions_and_help_need_no_cluster() {
    let bash = run(&["completion", "bash"], &[]);
    assert!(bash.code == 0 && bash.out.contains("complete -F _ensemblectl"), "{bash:?}");
    assert_eq!(run_unread(&["completion", "zsh"]), 0, "a closed output is no error");
    let help = run(&["--help"], &[]);
    assert!(help.code == 0 && help.out.contains("without Secrets and credentials"), "{help:?}");
}

/// Tests a cluster without an installation.
pub(super) async fn not_installed(env: &TestEnv) {
    let output = ctl(env, &["check"]);
    assert!(
        output.code == 1 && output.out.contains("✗ CRDs") && output.out.contains("is not installed"),
        "{output:?}"
    );
    for args in
        [&["status"][..], &["status", "podset", "web"], &["tree", "tenant", "oil"], &["wait", "nsp/blue"]]
    {
        assert_error(&ctl(env, args), &["Ensemble is not installed", "→ select another cluster"]);
    }
    let before = ctl(env, &["check", "--pre"]);
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
    env.cluster.apply_yaml(&capsule.to_string()).await.unwrap();
    let before = ctl(env, &["check", "--pre"]);
    assert!(
        before.code == 1 && before.out.contains("capsule-dynamic-webhook reviews the kinds of Ensemble"),
        "{before:?}"
    );
    env.kubectl(&["delete", "validatingwebhookconfiguration", "capsule-dynamic-webhook"]).await.unwrap();
}

/// Tests a user without rights and an invalid token.
pub(super) async fn with_wrong_credentials(env: &TestEnv) {
    let eve = env.account("eve").await;
    assert_error(&ctl_with(eve.kubeconfig(), &["status"]), &["is forbidden", "→ ask an administrator"]);
    let output = ctl_with(eve.kubeconfig(), &["check"]);
    assert!(output.code == 2 && output.out.contains("? CRDs"), "{output:?}");
    let output = ctl_with(eve.kubeconfig(), &["check", "--pre"]);
    assert!(
        output.code == 1 && output.out.contains("you cannot get/create/patch customresourcedefinitions"),
        "{output:?}"
    );

    let mut config = env.read(&["config", "view", "--raw"]).await;
    config["users"][0]["user"] = json!({ "token": "of another time" });
    let forged = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(forged.path(), config.to_string()).unwrap();
    assert_error(&ctl_with(forged.path(), &["check"]), &["Unauthorized", "→ log in again"]);
}
