//! The support bundle.

use std::process::Command;

use serde_json::json;

use super::run::ctl;
use crate::support::{NAMESPACE, Stage};

/// Stands wherever somebody can put something secret, and nowhere in a report.
pub(super) const CANARY: &str = "c4n4ry-in-the-mine";

/// It has what helps, and no secret.
pub(super) async fn holds_what_helps_and_no_secret(stage: &Stage) {
    let secret = format!("--from-literal=token={CANARY}");
    stage.kubectl(&["--namespace", NAMESPACE, "create", "secret", "generic", "chat", &secret]).await.unwrap();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "generateName": "loose-", "namespace": NAMESPACE },
        "involvedObject": { "kind": "Pod", "namespace": NAMESPACE, "name": "x" }, "type": "Warning", "reason": "Loose",
        "message": format!("Authorization: Bearer {CANARY} sent to https://example.com/x?token={CANARY}"),
    });
    let manifest = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(manifest.path(), event.to_string()).unwrap();
    stage.kubectl(&["create", "-f", manifest.path().to_str().unwrap()]).await.unwrap();

    let before = stage.cluster.audit_mark().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("report.tar.gz");
    let said = ctl(stage, &["report", "--output", archive.to_str().unwrap()]);
    assert!(said.code == 0 && said.out.contains("Secrets were not read"), "{said:?}");
    let again = ctl(stage, &["report", "--output", archive.to_str().unwrap()]);
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
    let asked =
        stage.cluster.audit_since(before).unwrap().filter(|entry| entry.user_agent.contains("ensemblectl"));
    assert!(asked.entries.len() > 20, "{asked:?}");
    assert_eq!(asked.filter(|entry| entry.resource == "secrets").entries, []);
}
