use serde_json::json;

use super::*;

/// Value that must not appear in redacted output.
const CANARY: &str = "c4n4ry";

/// Environment variables that hold credentials in common programs.
const CREDENTIALS: [&str; 56] = [
    "PASS",
    "DB_PASS",
    "DB_PASSWORD",
    "PGPASSWORD",
    "PGPASSFILE_CONTENT",
    "MYSQL_PWD",
    "MYSQL_ROOT_PASSWORD",
    "POSTGRES_PASSWORD",
    "POSTGRES_INITDB_ARGS",
    "MONGO_INITDB_ROOT_PASSWORD",
    "REDISCLI_AUTH",
    "REDIS_URL",
    "DATABASE_URL",
    "DATABASE_DSN",
    "DSN",
    "SENTRY_DSN",
    "AMQP_URI",
    "CONNECTION_STRING",
    "ConnectionStrings__Default",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_CLIENT_SECRET",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS_JSON",
    "GCP_SA_JSON",
    "SECRET_KEY",
    "SECRET_KEY_BASE",
    "RAILS_MASTER_KEY",
    "DJANGO_SECRET",
    "APP_KEY",
    "ENCRYPTION_KEY",
    "SIGNING_KEY",
    "TLS_KEY",
    "SSH_PRIVATE_KEY",
    "STRIPE_SK",
    "OPENAI_KEY",
    "GH_PAT",
    "GITHUB_TOKEN",
    "NPM_CONFIG__AUTH",
    "BASIC_AUTH",
    "HTTP_AUTH",
    "PROXY_AUTH",
    "HTTPS_PROXY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "EXTRA_HEADERS",
    "SLACK_WEBHOOK",
    "WEBHOOK_URL",
    "SMTP_LOGIN",
    "LDAP_BIND_PW",
    "JWT",
    "SESSION_COOKIE",
    "SALT",
    "UNSEAL",
    "JAVA_OPTS",
];

fn container(fields: &Value) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "template": { "spec": { "containers": [fields] } } } })
}

#[test]
fn removes_values_of_environment_variables() {
    for name in CREDENTIALS {
        let pod = container(&json!({ "env": [{ "name": name, "value": CANARY }] }));
        let redacted = object(pod).to_string();
        assert!(!redacted.contains(CANARY) && redacted.contains(name), "{name}: {redacted}");
        let redacted = text(&format!("the environment is {name}={CANARY} HOME=/"));
        assert!(name.contains(char::is_lowercase) || !redacted.contains(CANARY), "{redacted}");
    }
}

#[test]
fn keeps_flags_of_the_manager() {
    let redacted = object(container(&json!({
        "env": [
            { "name": "RUST_LOG", "value": "debug" },
            { "name": "ENSEMBLE_CONTROLLERS", "value": "podset,tenant" },
            { "name": "MEMCACHED_IMAGE", "value": "registry.example.com/memcached:1" },
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            { "name": "FROM", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } },
        ],
        "args": ["--controllers=podset", "--log-level", "debug", "--install-crds", "c4n4ry", "--otlp-endpoint=https://c4n4ry/c4n4ry"],
    })));
    let container = &redacted["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"][0]["value"], "debug");
    assert_eq!(container["env"][1]["value"], "podset,tenant");
    assert_eq!(container["env"][2]["value"], "registry.example.com/memcached:1");
    assert_eq!(container["env"][3]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name");
    assert_eq!(container["env"][4]["valueFrom"]["secretKeyRef"], json!({ "name": "db", "key": "password" }));
    let args = [
        "--controllers=podset",
        "--log-level",
        "debug",
        "--install-crds",
        REDACTED,
        "--otlp-endpoint=REDACTED",
    ];
    assert_eq!(container["args"], json!(args));
    assert_eq!(text("RUST_LOG=debug"), "RUST_LOG=debug");
}

#[test]
fn keeps_only_the_names_of_other_flags() {
    for (arguments, expected) in [
        (json!(["--token", CANARY, "--port", "80"]), json!(["--token", REDACTED, "--port", REDACTED])),
        (json!(["--secret-key-base=c4n4ry"]), json!(["--secret-key-base=REDACTED"])),
        (json!(["-p", CANARY, "-pc4n4ry", "-p=c4n4ry"]), json!(["-p", REDACTED, REDACTED, "-p=REDACTED"])),
        (json!(["sh", "-c", "KEY=c4n4ry run"]), json!(["sh", "-c", REDACTED])),
        (json!([CANARY, 7, "--c4n4ry", "--dbPass=c4n4ry"]), json!([REDACTED, REDACTED, REDACTED, REDACTED])),
    ] {
        for fields in [
            json!({ "args": arguments }),
            json!({ "command": arguments }),
            json!({ "livenessProbe": { "exec": { "command": arguments } } }),
            json!({ "lifecycle": { "preStop": { "exec": { "command": arguments } } } }),
        ] {
            let redacted = object(container(&fields)).to_string();
            assert!(!redacted.contains(CANARY), "{redacted}");
            assert!(redacted.contains(&expected.to_string()), "{redacted}");
        }
        let memcached = object(json!({ "metadata": {}, "spec": { "extraArgs": arguments } }));
        assert_eq!(memcached["spec"]["extraArgs"], expected);
    }
    let malformed = object(container(&json!({ "args": "--token c4n4ry" }))).to_string();
    assert!(!malformed.contains(CANARY), "{malformed}");
}

#[test]
fn removes_values_in_all_other_fields() {
    let probe = json!({ "httpGet": { "path": "/health?k=c4n4ry", "httpHeaders": [{ "name": "X-Auth", "value": CANARY }] } });
    for input in [
        container(&json!({ "readinessProbe": probe })),
        container(&json!({ "lifecycle": { "postStart": probe } })),
        json!({ "spec": { "volumes": [{ "name": "v", "csi": { "driver": "d", "volumeAttributes": { "k": CANARY } } }] } }),
        json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": CANARY } } }),
        json!({ "metadata": { "annotations": { "conversion.ensemble/v1beta1": CANARY, "example.com/note": CANARY } } }),
        json!({ "spec": { "annotations": { "example.com/note": CANARY } } }),
        json!({ "spec": { "template": { "metadata": { "annotations": { "a": CANARY }, "managedFields": [{ "f": CANARY }] } } } }),
        json!({ "spec": { "namespaceOptions": { "additionalMetadata": { "annotations": { "a": CANARY } } } } }),
        json!({ "spec": { "data": { "rawItems": [CANARY] } } }),
        json!({ "spec": { "foo": CANARY } }),
        json!({ "data": { "a": CANARY }, "stringData": { "b": CANARY }, "binaryData": { "c": CANARY } }),
        json!({ "message": "Exec lifecycle hook ([/bin/sh -c c4n4ry]) for Container \"a\" failed - error: command '/bin/sh -c c4n4ry' exited with 1" }),
        json!({ "message": "failed to create task: exec: \"c4n4ry\": executable file not found in $PATH" }),
    ] {
        let redacted = object(input).to_string();
        assert!(!redacted.contains(CANARY), "{redacted}");
    }
}

#[test]
fn keeps_fields_without_private_values() {
    let set = json!({
        "metadata": {
            "name": "web", "labels": { "app": "web" },
            "annotations": { "deployment.kubernetes.io/revision": "3", "quota.capsule.clastix.io/used-pods": "4" },
        },
        "spec": { "replicas": 3, "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "k", "value": "v" }] },
        "status": { "conditions": [{ "type": "Ready", "message": "exceeded quota: default-quota, requested: pods=1" }] },
    });
    assert_eq!(object(set.clone()), set);
}

#[test]
fn removes_credentials_from_text() {
    for secret in [
        "Authorization: Bearer c4n4ry.and-more",
        "https://user:c4n4ry@example.com/path",
        "calling https://example.com/hook?key=c4n4ry failed",
        "--token=c4n4ry --verbose",
        "password: \"c4n4ry\"",
        "{\"apiKey\":\"c4n4ry\"}",
        "-----BEGIN EC PRIVATE KEY-----\nc4n4ry\n-----END EC PRIVATE KEY-----",
        "a key that is cut off -----BEGIN PRIVATE KEY-----\nc4n4ry",
        "eyJhbGciOi.eyJc4n4ry.c4n4ry",
        "OTEL_EXPORTER_OTLP_HEADERS=\"x c4n4ry\"",
    ] {
        let redacted = text(secret);
        assert!(!redacted.contains(CANARY) && redacted.contains(REDACTED), "{secret} became {redacted}");
    }
    for harmless in [
        "the Secret ensemble-certificates holds none",
        "secretName: team-hooks",
        "see https://example.com/docs",
        "caBundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI/ABC==",
    ] {
        assert_eq!(text(harmless), harmless);
    }
}

#[test]
fn removes_fields_with_the_name_of_a_credential() {
    let redacted = object(
        json!({ "metadata": { "managedFields": [{}] }, "status": { "authToken": "c4n4ry", "name": "db" } }),
    );
    assert_eq!(redacted, json!({ "metadata": {}, "status": { "authToken": REDACTED, "name": "db" } }));
}

#[test]
fn keeps_only_the_host_of_a_hook() {
    let redacted = object(json!({ "metadata": {}, "spec": { "hooks": [{
        "name": "chat", "url": "https://user:c4n4ry@hooks.example.com:8443/services/c4n4ry?x=c4n4ry",
        "bodyTemplate": "c4n4ry", "headersSecretRef": { "name": "team-hooks" },
    }, { "name": "bad", "url": "c4n4ry" }] } }));
    assert!(!redacted.to_string().contains(CANARY), "{redacted}");
    assert_eq!(redacted["spec"]["hooks"][0]["url"], "https://hooks.example.com:8443/REDACTED");
    assert_eq!(redacted["spec"]["hooks"][0]["headersSecretRef"]["name"], "team-hooks");
}
