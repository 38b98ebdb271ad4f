//! Makes the manager use its rights beyond those of the controllers.

use std::process::Command;

use anyhow::ensure;
use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestEnv};

/// Deletes a Lease, which is created again.
pub(super) async fn election(env: &TestEnv) {
    const LEASE: [&str; 3] = ["lease", "ensemble-podset", "--namespace=ensemble-system"];
    let holder = async || {
        let lease =
            env.kubectl(&[&["get"], &LEASE[..], &["--ignore-not-found", "--output=json"]].concat()).await;
        let lease: Value = serde_json::from_str(&lease?).unwrap_or_default();
        Ok(lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()))
    };
    eventually("the Lease to be held", PATIENCE, holder).await.unwrap();
    env.kubectl(&[&["delete"], &LEASE[..]].concat()).await.unwrap();
    eventually("the Lease to be held again", PATIENCE, holder).await.unwrap();
}

/// Corrupts the Secret, which is repaired.
pub(super) async fn certificates(env: &TestEnv) {
    const SECRET: [&str; 3] = ["secret", "ensemble-certificates", "--namespace=ensemble-system"];
    let garbage = json!({ "data": { "tls.crt": "Z2FyYmFnZQ==" } });
    let patch = format!("--patch={garbage}");
    env.kubectl(&[&["patch"], &SECRET[..], &[&patch]].concat()).await.unwrap();
    eventually("the Secret to be repaired", PATIENCE, async || {
        let secret = env.read(&[&["get"], &SECRET[..]].concat()).await;
        Ok(secret["data"]["tls.crt"] != garbage["data"]["tls.crt"])
    })
    .await
    .unwrap();
}

/// Reads the metrics with an authorized ServiceAccount.
pub(super) async fn metrics(env: &TestEnv, port: u16) {
    env.kubectl(&["create", "serviceaccount", "prometheus"]).await.unwrap();
    let bind = ["create", "clusterrolebinding", "prometheus", "--clusterrole=ensemble-metrics-reader"];
    env.kubectl(&[&bind[..], &["--serviceaccount=default:prometheus"]].concat()).await.unwrap();
    let token = env.kubectl(&["create", "token", "prometheus"]).await.unwrap();
    let url = format!("https://127.0.0.1:{port}/metrics");
    eventually("the metrics to be read", PATIENCE, async || {
        let mut curl = Command::new("curl");
        curl.args(["--insecure", "--silent", "--show-error", "--fail", "--max-time", "5", &url]);
        curl.args(["--header", &format!("Authorization: Bearer {}", token.trim())]);
        let answer = curl.output()?;
        ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        Ok(String::from_utf8_lossy(&answer.stdout).contains("ensemble_build_info"))
    })
    .await
    .unwrap();
}
