//! The API server rejects invalid input with a clear message.

use crate::support::TestEnv;

/// Returns the API server's error for a Memcached with this name and spec, or `None` if it is
/// accepted.
async fn refusal(env: &TestEnv, name: &str, spec: &str) -> Option<String> {
    let manifest = format!(
        "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {{name: {name}, namespace: {}}}\nspec: {spec}\n",
        env.namespace.name()
    );
    env.harness.cluster.apply_yaml(&manifest).await.err().map(|error| format!("{error:#}"))
}

async fn are_refused(cases: &[(&str, &str)]) {
    let env = TestEnv::new().await;
    for (spec, message) in cases {
        let error = refusal(&env, "web", spec).await.unwrap_or_else(|| panic!("{spec} was accepted"));
        assert!(error.contains(message), "{spec}: {error}");
        assert!(!error.contains("compilation failed") && !error.contains("no such"), "{spec}: {error}");
    }
}

#[tokio::test]
async fn rejects_invalid_sizes() {
    are_refused(&[
        ("{size: -1}", "spec.size in body should be greater than or equal to 0"),
        ("{size: 65}", "spec.size in body should be less than or equal to 64"),
        ("{size: three}", ".spec.size: expected numeric"),
    ])
    .await;
}

#[tokio::test]
async fn rejects_unknown_fields() {
    are_refused(&[("{replicas: 1}", "field not declared in schema")]).await;
}

#[tokio::test]
async fn rejects_privileged_ports() {
    are_refused(&[
        ("{containerPort: 80}", "only root may open lower ports"),
        ("{containerPort: 0}", "greater than or equal to 1"),
        ("{containerPort: 65536}", "less than or equal to 65535"),
    ])
    .await;
}

#[tokio::test]
async fn rejects_invalid_item_sizes() {
    let multiple = "must be a number of megabytes, or of kilobytes that is a multiple of 512";
    let quarter = "at most a quarter of memoryMegabytes";
    are_refused(&[
        ("{maxItemSize: 1.5m}", multiple),
        ("{maxItemSize: '1048576'}", multiple),
        ("{maxItemSize: 1500k}", multiple),
        ("{maxItemSize: 256k}", multiple),
        ("{maxItemSize: 1Mi}", multiple),
        ("{maxItemSize: 17m}", quarter),
        ("{memoryMegabytes: 3}", quarter),
        ("{memoryMegabytes: 8192, maxItemSize: 1025m}", quarter),
        ("{memoryMegabytes: 0}", "greater than or equal to 1"),
    ])
    .await;
}

#[tokio::test]
async fn rejects_reserved_arguments() {
    let sentence = "extraArgs must not contain";
    are_refused(&[
        ("{extraArgs: ['-m', '128']}", sentence),
        ("{extraArgs: ['-m128']}", sentence),
        ("{extraArgs: ['--port=1']}", sentence),
        ("{extraArgs: ['-d']}", sentence),
        ("{image: 'memcached latest'}", "must not contain whitespace"),
        ("{threads: 0}", "greater than or equal to 1"),
        ("{threads: 64, maxConnections: 256}", "8 more for each of the threads"),
    ])
    .await;
}

#[tokio::test]
async fn rejects_invalid_exporters() {
    are_refused(&[
        ("{metrics: {port: 80}}", "only root may open lower ports"),
        ("{metrics: {port: 70000}}", "less than or equal to 65535"),
        ("{metrics: {port: 11211}}", "metrics.port must differ from containerPort"),
        ("{containerPort: 9150, metrics: {}}", "metrics.port must differ from containerPort"),
        ("{metrics: {image: ''}}", "at least 1 chars long"),
        ("{metrics: {image: 'an exporter'}}", "must not contain whitespace"),
        ("{metrics: {enabled: true}}", "field not declared in schema"),
    ])
    .await;
}

#[tokio::test]
async fn rejects_invalid_peers() {
    let either = "a peer must have either an ipBlock";
    let canonical = "in their canonical form";
    are_refused(&[
        ("{networkPolicy: {}}", "spec.networkPolicy.from: Required value"),
        ("{networkPolicy: {from: []}}", "should have at least 1 items"),
        ("{networkPolicy: {from: [{}]}}", either),
        ("{networkPolicy: {from: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}}", either),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.1}}]}}", "must be a network in its canonical form"),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 10.1.2.3/8}}]}}", "must be a network in its canonical form"),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 'FD00::/8'}}]}}", "must be a network in its canonical form"),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.2.3/16]}}]}}", canonical),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}}", "parts of the network"),
        ("{networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}]}}", "parts of the network"),
        ("{networkPolicy: {from: [{podSelector: {matchLabels: {'a b': c}}}]}}", "matchLabels must be labels"),
        ("{networkPolicy: {from: [{podSelector: {matchLabels: {a: '-'}}}]}}", "matchLabels must be labels"),
        (
            "{networkPolicy: {from: [{podSelector: {matchExpressions: [{key: a, operator: In}]}}]}}",
            "give values with the operators In and NotIn",
        ),
        (
            "{networkPolicy: {from: [{podSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}}",
            "give values with the operators In and NotIn",
        ),
        (
            "{networkPolicy: {from: [{podSelector: {matchExpressions: [{key: a, operator: Is}]}}]}}",
            "supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
        ),
        (
            "{networkPolicy: {from: [{podSelector: {}}], metricsFrom: [{podSelector: {}}]}}",
            "metricsFrom may be given only with metrics",
        ),
    ])
    .await;
}

#[tokio::test]
async fn rejects_names_that_do_not_fit_pods_or_services() {
    let env = TestEnv::new().await;
    for (name, message) in [
        ("a".repeat(47).as_str(), "at most 46 characters"),
        ("1st", "must begin with a letter"),
        ("my.cache", "must begin with a letter"),
    ] {
        let error = refusal(&env, name, "{}").await.unwrap_or_else(|| panic!("{name} was accepted"));
        assert!(error.contains(message), "{name}: {error}");
    }
    let longest = "a".repeat(46);
    assert_eq!(refusal(&env, &longest, "{}").await, None);
    env.until_ready(&longest, 1).await;
}

#[tokio::test]
async fn accepts_the_samples() {
    let env = TestEnv::new().await;
    for sample in [
        include_str!("../../../../samples/memcached.yaml"),
        include_str!("../../../../samples/memcached-tuned.yaml"),
        include_str!("../../../../samples/memcached-autoscaled.yaml"),
    ] {
        let path = env.harness.cluster.record().dir.join(format!("{}.yaml", env.namespace.name()));
        std::fs::write(&path, sample).unwrap();
        env.kubectl(&["apply", "--dry-run=server", "-f", path.to_str().unwrap()]).await.unwrap();
    }
}
