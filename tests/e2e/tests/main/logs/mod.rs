//! Format, keys, and confidentiality of the manager's log.

mod calls;

use std::{collections::BTreeSet, fs, path::Path};

use cluster::wait::eventually;
use serde_json::{Map, Value};

use crate::support::{NAMESPACE_PLUS, PATIENCE, POD_SET, TestEnv, reserve_port, sample};

/// Keys that every log line can have.
const FRAME: [&str; 6] = ["timestamp", "level", "target", "message", "span", "spans"];
/// Value of a Secret that a NamespacePlus references.
const PASSWORD: &str = "correct-horse-battery-staple";

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the keys in the table of `docs/operations/logs-and-traces.md`.
fn documented_keys() -> BTreeSet<String> {
    let page = fs::read_to_string(repository().join("docs/operations/logs-and-traces.md")).unwrap();
    let (_, table) = page.split_once("| key | what it is |").expect("the page has a table of keys");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split(','));
    cells.map(|key| key.trim().trim_matches('`').to_owned()).collect()
}

#[test]
fn every_key_is_documented_and_messages_are_sentences() {
    let documented = documented_keys();
    for call in calls::all(&repository().join("crates")) {
        let calls::Call { place, keys, message } = call;
        for key in keys {
            assert!(
                documented.contains(&key),
                "{place}: the key `{key}` is not in docs/operations/logs-and-traces.md"
            );
        }
        let is_fact = !message.ends_with('.') && !message.starts_with(char::is_whitespace);
        assert!(
            is_fact && !message.is_empty(),
            "{place}: `{message}` must be a sentence without a full stop"
        );
    }
}

#[tokio::test]
async fn log_has_only_documented_keys_and_no_secrets_at_trace() {
    let env = TestEnv::complete().await;
    // Metrics with TLS need a certificate, so the manager creates one before it is ready.
    let metrics = format!("127.0.0.1:{}", reserve_port());
    let address = format!("--metrics-bind-address={metrics}");
    let args = ["--log-format=json", "--log-level=trace", &address];
    let manager = env.start_with_probes("traced", &env.account, &args);
    env.kubectl(&[
        "create",
        "secret",
        "generic",
        "webhook",
        &format!("--from-literal=authorization={PASSWORD}"),
    ])
    .await
    .unwrap();
    env.cluster.apply_yaml(&with_a_secret()).await.unwrap();
    env.until_ready(&NAMESPACE_PLUS, "default", "with-secret").await;
    env.kubectl(&["apply", "-f", &sample("podset"), "-f", &sample("postgres/postgrescluster")])
        .await
        .unwrap();
    env.until_count(&["pods", "--selector=lukeb0nd.com/cluster=shop"], 1).await;
    env.until_ready(&POD_SET, "default", "podset-sample").await;
    manager.until_readyz(200, "ok").await;
    let secrets = secrets(&env).await;
    // The manager sends a TokenReview for the token of this request.
    let server = format!("--server=https://{metrics}");
    let token = format!("--token={}", secrets[0]);
    let ask =
        ["get", "--raw=/metrics", "--kubeconfig=/dev/null", &server, &token, "--insecure-skip-tls-verify"];
    let refused = format!("{:#}", env.kubectl(&ask).await.unwrap_err());
    assert!(refused.to_lowercase().contains("forbidden"), "{refused}");
    let log = manager.stop().await;

    let lines: Vec<Map<String, Value>> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["level"] == "TRACE"), "the log has no TRACE lines");
    let documented = documented_keys();
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line:?}");
        if is_ours(line) {
            assert!(line["message"].as_str().is_some_and(|message| !message.is_empty()), "{line:?}");
            let unknown =
                line.keys().find(|key| !FRAME.contains(&key.as_str()) && !documented.contains(*key));
            assert_eq!(unknown, None, "{line:?}");
        }
    }
    for secret in secrets {
        let line = log.lines().find(|line| line.contains(&secret));
        assert!(line.is_none(), "a secret is in the log: {line:?}");
    }
}

/// Returns whether this project's code wrote the line.
fn is_ours(line: &Map<String, Value>) -> bool {
    let ours = [
        "operator_",
        "ensemble_manager",
        "manager",
        "podset",
        "memcached",
        "namespaceplus",
        "postgres",
        "replication",
        "tenant",
    ];
    ours.iter().any(|start| line["target"].as_str().unwrap().starts_with(start))
}

/// Returns the manifest of a NamespacePlus that references the Secret.
fn with_a_secret() -> String {
    "{apiVersion: mygroup.my.domain/v1, kind: NamespacePlus, metadata: {name: with-secret, namespace: default}, spec: \
     {hooks: [{name: notify, url: 'https://example.com/hook', \"on\": [Ready], headersSecretRef: {name: webhook}}]}}"
        .to_owned()
}

/// Returns all values that must not be logged: the manager's token, and each value of each Secret,
/// plain and base64-encoded.
async fn secrets(env: &TestEnv) -> Vec<String> {
    let kubeconfig = env.kubeconfig().to_str().unwrap();
    let token = ["--output=jsonpath={.users[0].user.token}", "--kubeconfig", kubeconfig];
    let token = env.kubectl(&[&["config", "view", "--raw"][..], &token].concat()).await.unwrap();
    let mut secrets = vec![token, PASSWORD.to_owned()];
    let found = eventually("the Secret to be listed", PATIENCE, async || {
        let all = env.read(&["get", "secrets", "--all-namespaces"]).await;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        Ok((!items.is_empty()).then_some(items))
    });
    for secret in found.await.unwrap() {
        let values = secret["data"].as_object().into_iter().flatten();
        // Certificates are not secret. They start with the same text as their keys.
        let values = values
            .filter(|(key, _)| key.strip_suffix(".crt").is_none())
            .filter_map(|(_, value)| value.as_str());
        secrets.extend(values.filter(|value| value.len() > 8).map(str::to_owned));
    }
    assert!(secrets.len() > 3 && secrets.iter().all(|secret| secret.len() > 8), "{} secrets", secrets.len());
    // JSON has no line breaks, so keys are detected by their first line.
    secrets.push("PRIVATE KEY-----".to_owned());
    secrets
}
