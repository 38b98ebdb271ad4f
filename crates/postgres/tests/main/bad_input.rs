//! What the API server refuses, with which message.

use serde_json::json;

use crate::support::TestEnv;

#[tokio::test]
async fn invalid_specs_are_refused_with_the_rule() {
    let env = TestEnv::new().await;
    for (spec, message) in [
        (json!({"size": 0}), "should be greater than or equal to 1"),
        (json!({"size": 10}), "should be less than or equal to 9"),
        (json!({"version": "latest"}), "version must be a version of PostgreSQL"),
        (json!({"version": "17.6.1.2"}), "version must be a version of PostgreSQL"),
        (json!({"version": -1}), "version must be a version of PostgreSQL"),
        (json!({"image": "two words"}), "must not contain whitespace"),
        (json!({"size": 2, "synchronous": {"number": 2}}), "synchronous.number must be lower than spec.size"),
        (json!({"synchronous": {"number": 9}}), "should be less than or equal to 8"),
        (json!({"failover": {"leaseSeconds": 5}}), "should be greater than or equal to 6"),
        (json!({"failover": {"maxLagBytes": -1}}), "should be greater than or equal to 0"),
        (
            json!({"bootstrap": {"initdb": {"database": "postgres"}}}),
            "and not be postgres, template0, or template1",
        ),
        (json!({"bootstrap": {"initdb": {"database": "Orders"}}}), "must begin with a lower case letter"),
        (
            json!({"bootstrap": {"initdb": {"owner": "streaming_replica"}}}),
            "and not be postgres, streaming_replica",
        ),
        (json!({"bootstrap": {"initdb": {"owner": "pg_me"}}}), "not begin with pg_"),
        (json!({"bootstrap": {"initdb": {"owner": "a".repeat(64)}}}), "may not be more than 63"),
        (json!({"parameters": {"Work_Mem": "1MB"}}), "names of PostgreSQL in lower case"),
        (json!({"parameters": {"work_mem = 1": "x"}}), "names of PostgreSQL in lower case"),
        (json!({"parameters": {"port": "1"}}), "must not contain parameters that the instance manager sets"),
        (json!({"parameters": {"ssl_ciphers": "x"}}), "must not contain parameters that"),
        (json!({"parameters": {"fsync": "off"}}), "must not contain parameters that"),
        (json!({"parameters": {"work_mem": "1MB\nport = 1"}}), "must not contain control characters"),
        (json!({"parameters": {"wal_level": "minimal"}}), "must be replica or logical"),
        (json!({"parameters": {"synchronous_commit": "off"}}), "must be on or remote_apply"),
        (json!({"parameters": {"max_connections": "99"}}), "not below the defaults of PostgreSQL"),
        (json!({"parameters": {"max_connections": "many"}}), "not below the defaults of PostgreSQL"),
        (json!({"storage": {"size": "much"}}), "storage.size must be a quantity"),
        (json!({"storage": {"size": "1Mi"}}), "storage.size must be at least 256Mi"),
    ] {
        let error = env.create("db", spec.clone()).await.unwrap_err().to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
    for (name, message) in
        [("1st", "must begin with a letter"), (&*"d".repeat(51), "may have at most 50 characters")]
    {
        let error = env.create(name, json!({})).await.unwrap_err().to_string();
        assert!(error.contains(message), "{name}: {error}");
    }
}

#[tokio::test]
async fn storage_only_grows() {
    let env = TestEnv::new().await;
    env.create("db", json!({"paused": true, "storage": {"size": "2Gi"}})).await.unwrap();
    for (storage, message) in [
        (json!({"size": "1Gi"}), "storage.size can only grow"),
        (json!({"storageClassName": "fast"}), "storage.storageClassName cannot be changed"),
        (json!({"accessMode": "ReadWriteOncePod"}), "storage.accessMode cannot be changed"),
    ] {
        let error = env.change("db", json!({"storage": storage})).await.unwrap_err().to_string();
        assert!(error.contains(message), "{storage}: {error}");
    }
    env.change("db", json!({"storage": {"size": "3Gi"}})).await.unwrap();
}

#[tokio::test]
async fn parameters_that_standbys_need_are_only_raised() {
    let env = TestEnv::new().await;
    let parameters = |value: &str| json!({"parameters": {"max_connections": value}});
    env.create("db", json!({"paused": true})).await.unwrap();
    env.change("db", parameters("150")).await.unwrap();
    env.change("db", parameters("200")).await.unwrap();
    for lower in
        [parameters("199"), json!({"parameters": null}), json!({"parameters": {"max_connections": null}})]
    {
        let error = env.change("db", lower.clone()).await.unwrap_err().to_string();
        assert!(error.contains("can only be raised"), "{lower}: {error}");
    }
    env.change("db", json!({"parameters": {"work_mem": "8MB"}})).await.unwrap();
}

#[tokio::test]
async fn bootstrap_cannot_be_changed() {
    let env = TestEnv::new().await;
    env.create("db", json!({"paused": true, "bootstrap": {"initdb": {"database": "orders"}}})).await.unwrap();
    let changed = json!({"bootstrap": {"initdb": {"database": "invoices"}}});
    let error = env.change("db", changed).await.unwrap_err().to_string();
    assert!(error.contains("bootstrap cannot be changed"), "{error}");
}

#[tokio::test]
async fn defaults_are_those_of_the_reference() {
    let env = TestEnv::new().await;
    let spec = env.create("db", json!({"paused": true})).await.unwrap().spec;
    assert_eq!(
        (spec.failover.enabled, spec.failover.lease_seconds, spec.synchronous.number),
        (true, 15, None)
    );
    let initdb = &spec.bootstrap.initdb;
    assert_eq!((initdb.database.as_str(), initdb.owner.as_str()), ("app", "app"));
    assert_eq!((spec.size, spec.anti_affinity, spec.storage.size.0.as_str()), (3, false, "1Gi"));
}
