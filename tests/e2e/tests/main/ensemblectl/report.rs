//! The support bundle of `ensemblectl report`.

use std::process::Command;

use serde_json::json;

use super::run::ctl;
use crate::support::{NAMESPACE, TestEnv};

/// Secret value that the test puts wherever a user can enter one. The report must not contain it.
pub(super) const CANARY: &str = "c4n4ry-in-the-mine";

/// Asserts that the report contains the expected files and no secret.
pub(super) async fn contains_files_and_no_secret(env: &TestEnv) {
    let secret = format!("--from-literal=token={CANARY}");
    env.kubectl(&["--namespace", NAMESPACE, "create", "secret", "generic", "chat", &secret]).await.unwrap();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "generateName": "loose-", "namespace": NAMESPACE },
        "involvedObject": { "kind": "Pod", "namespace": NAMESPACE, "name": "x" }, "type": "Warning", "reason": "Loose",
        "message": format!("Authorization: Bearer {CANARY} sent to https://example.com/x?token={CANARY}"),
    });
    let manifest = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(manifest.path(), event.to_string()).unwrap();
    env.kubectl(&["create", "-f", manifest.path().to_str().unwrap()]).await.unwrap();

    let before = env.cluster.audit_mark().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("report.tar.gz");
    let output = ctl(env, &["report", "--output", archive.to_str().unwrap()]);
    assert!(output.code == 0 && output.out.contains("Secrets were not read"), "{output:?}");
    let again = ctl(env, &["report", "--output", archive.to_str().unwrap()]);
    assert!(again.code == 2 && again.err.contains("use another path for --output"), "{again:?}");
    let unpacked =
        Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());

    let read =
        |path: &str| std::fs::read_to_string(folder.path().join("ensemble-report").join(path)).unwrap();
    for (path, has) in [
        ("versions.txt", "Kubernetes v1."),
        ("checks.txt", "✓ API server"),
        ("checks.json", "\"summary\""),
        ("status.txt", "PodSet"),
        ("objects/podsets.app.example.com.yaml", "name: DB_PASSWORD"),
        ("objects/namespacepluses.mygroup.my.domain.yaml", "https://hooks.example.com/REDACTED"),
        ("objects/tenants.capsule.clastix.io.yaml", "kind: Tenant"),
        ("crds.yaml", "storedVersions"),
        ("webhooks.yaml", "tenants.tenant.ensemble"),
        ("leases.yaml", "holderIdentity"),
        ("deployment.yaml", "PROXY_PASSWORD"),
        ("deployment.yaml", "--leader-elect=true"),
        ("pods.yaml", "ensemble-manager"),
        ("events.yaml", "Authorization: REDACTED"),
    ] {
        assert!(read(path).contains(has), "{path} has no {has}:\n{}", read(path));
        assert!(!read(path).contains("managedFields"), "{path}");
    }
    let found = Command::new("grep")
        .args(["-r", CANARY])
        .arg(folder.path().join("ensemble-report"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let requests =
        env.cluster.audit_since(before).unwrap().filter(|entry| entry.user_agent.contains("ensemblectl"));
    assert!(requests.entries.len() > 20, "{requests:?}");
    assert_eq!(requests.filter(|entry| entry.resource == "secrets").entries, []);
}
