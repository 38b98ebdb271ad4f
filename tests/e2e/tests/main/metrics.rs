//! The metrics endpoint: authentication, certificates, and documented series.

use std::collections::BTreeSet;

use cluster::{Component, wait::eventually};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::support::{
    Manager, NAMESPACE, PATIENCE, POD_SET, Response, TestEnv, curl, reserve_port, run_to_exit, sample,
    samples,
};

/// A manager with TLS metrics, and its clients.
struct SecureMetrics {
    env: TestEnv,
    manager: Manager,
    port: u16,
    /// Certificate authority that clients trust.
    authority: tempfile::NamedTempFile,
}

impl SecureMetrics {
    async fn start() -> Self {
        let env = TestEnv::complete().await;
        let port = reserve_port();
        let address = format!("--metrics-bind-address=127.0.0.1:{port}");
        let manager = env.start("manager", &env.account, &[&address]);
        let authority = tempfile::NamedTempFile::new().unwrap();
        let secure = Self { env, manager, port, authority };
        eventually("a certificate that the Secret's authority has signed", PATIENCE, async || {
            secure.trust().await?;
            Ok(secure.get(None).map_err(|error| error.to_string()))
        })
        .await
        .unwrap();
        secure
    }

    /// Trusts the authority in the Secret.
    async fn trust(&self) -> anyhow::Result<()> {
        let path = "-o=go-template={{index .data \"ca.crt\" | base64decode}}";
        let secret = ["get", "secret", "ensemble-certificates", "--namespace", NAMESPACE, path];
        std::fs::write(self.authority.path(), self.env.kubectl(&secret).await?)?;
        Ok(())
    }

    /// Sends a request with the Service's host name, as clients in the cluster do.
    fn get(&self, token: Option<&str>) -> anyhow::Result<Response> {
        let host = format!("ensemble-metrics.{NAMESPACE}.svc");
        let resolve = format!("{host}:{}:127.0.0.1", self.port);
        let header = token.map(|token| format!("Authorization: Bearer {token}"));
        let mut args = vec!["--cacert", self.authority.path().to_str().unwrap(), "--resolve", &resolve];
        args.extend(header.iter().flat_map(|header| ["--header", header]));
        curl(&format!("https://{host}:{}/metrics", self.port), &args)
    }

    fn status(&self, token: Option<&str>) -> u16 {
        self.get(token).unwrap().status
    }

    /// Creates a ServiceAccount that can read the metrics.
    async fn reader(&self, name: &str) {
        self.env.account(name).await;
        let subject = format!("--serviceaccount={NAMESPACE}:{name}");
        let role = "--clusterrole=ensemble-metrics-reader";
        self.env.kubectl(&["create", "clusterrolebinding", name, role, &subject]).await.unwrap();
    }

    /// Creates a token of a ServiceAccount for an audience, by default the API server.
    async fn token(&self, account: &str, audience: Option<&str>) -> String {
        let accounts = Api::<ServiceAccount>::namespaced(self.env.cluster.client().await.unwrap(), NAMESPACE);
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
        answer.status.unwrap().token.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_endpoint_requires_authorization() {
    let secure = SecureMetrics::start().await;
    secure.env.account("outsider").await;
    secure.reader("prometheus").await;
    secure.reader("gone").await;
    let (outsider, reader) = (secure.token("outsider", None).await, secure.token("prometheus", None).await);
    let elsewhere = secure.token("prometheus", Some("https://elsewhere.example")).await;
    let gone = secure.token("gone", None).await;
    secure.env.kubectl(&["delete", "serviceaccount", "gone", "--namespace", NAMESPACE]).await.unwrap();

    let refused = secure.get(None).unwrap();
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: bearer"), "{refused:?}");
    assert!(refused.body.contains("has no bearer token"), "{refused:?}");
    for token in ["garbage", "a.b.c", &elsewhere, &gone, &format!("{reader}x")] {
        let refused = secure.get(Some(token)).unwrap();
        assert_eq!(refused.status, 401, "{refused:?}");
        assert!(refused.body.contains("does not accept this token"), "{refused:?}");
    }
    let refused = secure.get(Some(&outsider)).unwrap();
    assert_eq!(refused.status, 403, "{refused:?}");
    let expected = format!("system:serviceaccount:{NAMESPACE}:outsider may not get /metrics");
    assert!(refused.body.contains(&expected), "{refused:?}");

    let read = secure.get(Some(&reader)).unwrap();
    assert_eq!(read.status, 200, "{read:?}");
    let expected = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(read.head.contains(expected), "{}", read.head);
    assert!(read.body.contains("ensemble_build_info{") && read.body.ends_with("# EOF\n"), "{}", read.body);
    let ends = |certificate: &str| {
        let series =
            format!("ensemble_certificate_expiry_timestamp_seconds{{certificate=\"{certificate}\"}} ");
        let value = read.body.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("{certificate}: {}", read.body)).parse::<f64>().unwrap()
    };
    let tomorrow = Timestamp::now() + SignedDuration::from_hours(24);
    #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 are small")]
    let tomorrow = tomorrow.as_second() as f64;
    assert!(tomorrow < ends("serving") && ends("serving") < ends("authority"), "{}", read.body);

    secure.env.assert_no_forbidden_requests();
    let log = secure.manager.stop().await;
    for token in [&outsider, &reader, &elsewhere, &gone] {
        assert!(!log.contains(token.as_str()), "the log contains a token");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_authorization_is_used_while_api_server_is_down() {
    let secure = SecureMetrics::start().await;
    secure.reader("prometheus").await;
    let (known, unknown) = (secure.token("prometheus", None).await, secure.token("prometheus", None).await);
    assert_ne!(known, unknown);
    assert_eq!(secure.status(Some(&known)), 200);
    secure.env.cluster.kill_component(Component::KubeApiserver).unwrap();
    assert_eq!(secure.status(Some(&known)), 200);
    let refused = secure.get(Some(&unknown)).unwrap();
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(
        refused.body.contains("cannot authorize the request") && refused.head.contains("retry-after:"),
        "{refused:?}"
    );
    assert_eq!(secure.status(None), 401);
    assert_eq!(secure.status(Some(&known)), 200);
    secure.env.cluster.start_component(Component::KubeApiserver).unwrap();
    eventually("the token to be reviewed again", PATIENCE, async || {
        let status = secure.status(Some(&unknown));
        Ok(if status == 200 { Ok(()) } else { Err(status) })
    })
    .await
    .unwrap();
}

/// Name of a series and its labels.
type Series = (String, Vec<(String, String)>);

fn series(text: &str) -> Vec<Series> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| one_series(line.rsplit_once(' ').unwrap().0)).collect()
}

fn one_series(text: &str) -> Series {
    let (name, labels) = text.split_once('{').unwrap_or((text, ""));
    let labels = labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once("=\""));
    let labels = labels.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()));
    (name.to_owned(), labels.collect())
}

/// Returns the series in the reference page: names and label names.
fn referenced() -> BTreeSet<(String, BTreeSet<String>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let sections = page.split("\n## ").skip(1);
    sections.flat_map(section).collect()
}

fn section(section: &str) -> Vec<(String, BTreeSet<String>)> {
    let (name, rest) = section.split_once('\n').unwrap();
    let labels: BTreeSet<_> = rest
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    let with = |name: String, more: Option<&str>| {
        (name, labels.iter().cloned().chain(more.map(str::to_owned)).collect::<BTreeSet<_>>())
    };
    if rest.starts_with("Type: histogram") {
        let parts = [("bucket", Some("le")), ("sum", None), ("count", None)];
        return parts.map(|(part, more)| with(format!("{name}_{part}"), more)).into();
    }
    vec![with(name.to_owned(), None)]
}

/// Creates a PostgresCluster that has all metrics: its status names a last backup.
async fn create_database(env: &TestEnv) {
    let secret = |key: &str| json!({"name": "store", "key": key});
    let credentials = json!({"accessKeyID": secret("id"), "secretAccessKey": secret("key")});
    let cluster = json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
        "metadata": {"name": "ledger", "namespace": "default"},
        "spec": {"size": 3, "backup": {"objectStore": {"url": "s3://backups", "credentials": credentials}}},
    });
    env.cluster.apply_yaml(&cluster.to_string()).await.unwrap();
    let last = json!({"name": "first", "key": "1", "stoppedAt": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"lastBackup": last}}).to_string();
    let patch = ["patch", "pgc", "ledger", "--namespace=default", "--subresource=status", "--type=merge"];
    env.kubectl(&[&patch[..], &["--patch", &status]].concat()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_match_reference_and_contain_no_object_names() {
    let env = TestEnv::complete().await;
    let (port, webhooks) = (reserve_port(), reserve_port());
    let args = [
        &format!("--metrics-bind-address=127.0.0.1:{port}"),
        "--metrics-secure=false",
        &format!("--webhook-bind-address=127.0.0.1:{webhooks}"),
        "--leader-elect=true",
    ];
    let manager = env.start("manager", &env.account, &args);
    manager.until_logged("the controller starts").await;
    let read = || curl(&format!("http://127.0.0.1:{port}/metrics"), &[]).unwrap().body;
    let count = 50;
    let sets: Vec<_> = (0..count)
        .map(|number| {
            json!({"apiVersion": "app.example.com/v1alpha1", "kind": "PodSet",
                "metadata": {"name": format!("cardinal-{number}"), "namespace": "default"}, "spec": {"replicas": 1}})
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sets}).to_string();
    env.cluster.apply_yaml(&list).await.unwrap();
    env.kubectl(&["apply", "-f", &samples()]).await.unwrap();
    env.until_ready(&POD_SET, "default", "podset-sample").await;
    env.join("oil", "oil-development").await;
    for name in ["tenancy/tenantowner", "tenancy/tenantresource", "tenancy/globaltenantresource"] {
        env.kubectl(&["apply", "-f", &sample(name)]).await.unwrap();
    }
    create_database(&env).await;
    // Sends an invalid object to the webhook, which counts the review.
    eventually("the webhook to be called", PATIENCE, async || {
        let url = format!("https://127.0.0.1:{webhooks}/tenant/tenants");
        Ok(curl(&url, &["--insecure", "--data", "nonsense", "--header", "Content-Type: application/json"])
            .map_err(|error| error.to_string()))
    })
    .await
    .unwrap();
    let text = eventually("all to be reconciled and led", PATIENCE, async || {
        let text = read();
        let shown: BTreeSet<_> =
            series(&text).into_iter().map(|(name, labels)| (name, names(labels))).collect();
        let missing: Vec<_> = referenced().difference(&shown).cloned().collect();
        let objects = format!("ensemble_informer_objects{{kind=\"PodSet\"}} {}\n", count + 1);
        let settled = missing.is_empty()
            && text.contains(&objects)
            && text.contains("ensemble_leader{controller=\"podset\"} 1\n");
        Ok(if settled { Ok(text) } else { Err((missing, text)) })
    })
    .await
    .unwrap();

    let shown: BTreeSet<_> = series(&text).into_iter().map(|(name, labels)| (name, names(labels))).collect();
    assert_eq!(shown, referenced());
    // These are about single objects. Their number is limited by that of Tenants and of databases.
    let own = |name: &str| name.starts_with("capsule_") || name.starts_with("ensemble_postgres_cluster_");
    for (name, labels) in series(&text).into_iter().filter(|(name, _)| !own(name)) {
        for (label, value) in labels {
            let names_an_object =
                ["cardinal-", "sample", "default", "oil"].iter().any(|name| value.contains(name));
            assert!(!names_an_object, "{name}: {label} is {value}");
        }
    }
    assert!(
        text.contains(
            "capsule_tenant_namespace_relationship{tenant=\"oil\",target_namespace=\"oil-development\"} 1"
        ),
        "{text}"
    );
    println!("a scrape: {} bytes, {} series", text.len(), series(&text).len());
    manager.stop().await;
}

fn names(labels: Vec<(String, String)>) -> BTreeSet<String> {
    labels.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn plain_http_requires_localhost() {
    let ended = run_to_exit(&["--metrics-secure=false", "--metrics-bind-address=0.0.0.0:8443"], &[]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("expose the metrics on 0.0.0.0:8443"), "{ended:?}");
}
