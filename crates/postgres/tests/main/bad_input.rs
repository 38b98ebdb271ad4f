//! What the API server refuses, with which message.

use std::path::Path;

use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use postgres::{PostgresBackup, PostgresCluster};
use serde_json::{Value, json};

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
        (
            json!({"bootstrap": {"initdb": {"owner": "ensemble_monitor"}}}),
            "streaming_replica, ensemble_monitor",
        ),
        (json!({"bootstrap": {"initdb": {"owner": "pg_me"}}}), "not begin with pg_"),
        (
            json!({"monitoring": {"queriesConfigMap": "My_Queries"}}),
            "queriesConfigMap must be the name of a ConfigMap",
        ),
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
        (
            json!({"networkPolicy": {"enabled": false, "clients": [{"podSelector": {}}]}}),
            "clients may be given only if networkPolicy.enabled is true",
        ),
        (json!({"networkPolicy": {"clients": [{}]}}), "a peer must have either an ipBlock, or a podSelector"),
        (
            json!({"networkPolicy": {"clients": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}}),
            "a peer must have either an ipBlock, or a podSelector",
        ),
        (
            json!({"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.1.2.3/8"}}]}}),
            "cidr must be a network in its canonical form",
        ),
        (
            json!({"networkPolicy": {"clients": [{"podSelector": {"matchLabels": {"app": "a b"}}}]}}),
            "matchLabels must be labels",
        ),
        (json!({"networkPolicy": {"clients": vec![json!({"podSelector": {}}); 33]}}), "must have at most 32"),
        (
            json!({"version": "16.9", "replicationSlots": {"synchronizeLogical": true}}),
            "synchronizeLogical requires PostgreSQL 17 or newer",
        ),
        (
            json!({"version": 16, "replicationSlots": {"synchronizeLogical": true}}),
            "synchronizeLogical requires PostgreSQL 17 or newer",
        ),
        (
            json!({"parameters": {"wal_level": "replica"}, "replicationSlots": {"synchronizeLogical": true}}),
            "wal_level must be logical if spec.replicationSlots.synchronizeLogical is true",
        ),
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
async fn invalid_roles_and_databases_are_refused_with_the_rule() {
    let env = TestEnv::new().await;
    let role = |fields: Value| {
        let mut role = json!({"name": "r"});
        role.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"roles": [role]})
    };
    let name = "the name of a role must begin with a lower case letter";
    for (spec, message) in [
        (role(json!({"name": "Reporting"})), name),
        (role(json!({"name": "a-b"})), name),
        (role(json!({"name": "a_"})), name),
        (role(json!({"name": "pg_monitor"})), name),
        (role(json!({"name": "streaming_replica"})), name),
        (role(json!({"name": "ensemble_monitor"})), name),
        (role(json!({"name": ""})), name),
        (role(json!({"name": "r".repeat(64)})), "may not be more than 63"),
        (role(json!({"name": "app"})), "spec.roles must not contain the role of spec.bootstrap.initdb.owner"),
        (role(json!({"passwordSecretName": "s"})), "may be given only if login is true"),
        (role(json!({"login": true, "passwordSecretName": "../s"})), "must be the name of a Secret"),
        (role(json!({"memberOf": ["r"]})), "memberOf must not contain the role itself"),
        (role(json!({"connectionLimit": -2})), "should be greater than or equal to -1"),
        (role(json!({"validUntil": "tomorrow"})), "must be of type date-time"),
        (json!({"roles": [{"name": "r"}, {"name": "r"}]}), "Duplicate value"),
        (json!({"databases": [{"name": "template1"}]}), "the name of a database must begin"),
        (json!({"databases": [{"name": "a-b"}]}), "the name of a database must begin"),
        (
            json!({"databases": [{"name": "app", "ensure": "Absent"}]}),
            "must not be Absent or have another owner",
        ),
        (json!({"databases": [{"name": "app", "owner": "r"}]}), "must not be Absent or have another owner"),
        (
            json!({"databases": [{"name": "d", "extensions": [{"name": "e"}, {"name": "e"}]}]}),
            "Duplicate value",
        ),
    ] {
        let error = env.create("db", spec.clone()).await.unwrap_err().to_string();
        assert!(error.contains(message), "{spec}: {error}");
    }
    let valid = json!({
        "roles": [{"name": "r", "login": true, "validUntil": "2027-01-01T00:00:00Z"}],
        "databases": [{"name": "app", "owner": "app", "extensions": [{"name": "pg_trgm"}]}],
    });
    env.create("db", valid).await.unwrap();
}

#[tokio::test]
async fn versions_that_copy_slots_are_accepted() {
    let env = TestEnv::new().await;
    for (name, version) in [("none", Value::Null), ("number", json!(17)), ("text", json!("18.1"))] {
        let slots = json!({"synchronizeLogical": true});
        let spec =
            json!({"version": version, "replicationSlots": slots, "parameters": {"wal_level": "logical"}});
        env.create(name, spec).await.unwrap();
    }
}

#[tokio::test]
async fn invalid_backups_are_refused_with_the_rule() {
    let env = TestEnv::new().await;
    let key = json!({"name": "s3", "key": "id"});
    let store = json!({
        "url": "s3://backups/eu", "credentials": {"accessKeyID": key, "secretAccessKey": key},
    });
    let with = |field: &str, value: Value| {
        let mut store = store.clone();
        store[field] = value;
        json!({"objectStore": store})
    };
    let schedule = |field: &str, value: Value| {
        let mut schedule = json!({"name": "daily", "cron": "0 3 * * *"});
        schedule[field] = value;
        json!({"objectStore": store, "schedules": [schedule]})
    };
    for (backup, message) in [
        (with("url", json!("https://backups")), "url must be s3:// with a bucket"),
        (with("url", json!("s3://b")), "url must be s3:// with a bucket"),
        (with("url", json!("s3://backups/a b")), "url must be s3:// with a bucket"),
        (with("url", json!("s3://backups/../other")), "url must not contain '..'"),
        (with("url", json!("s3://backups/..")), "url must not contain '..'"),
        (with("url", json!("s3://back..ups/eu")), "url must not contain '..'"),
        (with("url", json!("s3://backups/./eu")), "'.' as a part of the prefix"),
        (with("url", json!("s3://backups/.")), "'.' as a part of the prefix"),
        (with("endpoint", json!("http://store/path")), "endpoint must be http:// or https://"),
        (with("endpoint", json!("file:///etc")), "endpoint must be http:// or https://"),
        (with("region", json!("EU West")), "region must contain only"),
        (with("serverName", json!("a/../b")), "serverName must be a DNS subdomain"),
        (with("caSecret", json!({"name": "../s3", "key": "ca.crt"})), "name must be the name of a Secret"),
        (with("caSecret", json!({"name": "s3", "key": "../ca.crt"})), "key must be a key of a Secret"),
        (schedule("name", json!("Daily")), "name must contain only lower case letters"),
        (schedule("name", json!("d".repeat(21))), "may not be more than 20"),
        (schedule("cron", json!("every day at 3")), "cron must have five fields"),
        (schedule("timeZone", json!("Europe/Berlin; x")), "timeZone must be the name of a time zone"),
        (
            json!({"objectStore": store, "wal": {"timeoutSeconds": 9}}),
            "should be greater than or equal to 10",
        ),
        (json!({"objectStore": store, "wal": {"parallel": 17}}), "should be less than or equal to 16"),
        (json!({"objectStore": store, "retention": {"days": 0}}), "should be greater than or equal to 1"),
        (json!({"objectStore": store, "retention": {"minimum": 0}}), "should be greater than or equal to 1"),
    ] {
        let error = env.create("db", json!({"backup": backup})).await.unwrap_err().to_string();
        assert!(error.contains(message), "{backup}: {error}");
    }
    let incremental =
        |version: Value| json!({"version": version, "backup": schedule("type", json!("Incremental"))});
    for version in [json!(16), json!("16.9")] {
        let error = env.create("db", incremental(version.clone())).await.unwrap_err().to_string();
        assert!(error.contains("the type Incremental requires PostgreSQL 17 or newer"), "{version}: {error}");
    }
    for (name, version) in [("none", Value::Null), ("number", json!(17)), ("text", json!("18.1"))] {
        env.create(name, incremental(version)).await.unwrap();
    }
}

#[tokio::test]
async fn invalid_recoveries_are_refused_with_the_rule() {
    let env = TestEnv::new().await;
    let key = json!({"name": "s3", "key": "id"});
    let store = json!({
        "url": "s3://backups/eu", "serverName": "old",
        "credentials": {"accessKeyID": key, "secretAccessKey": key},
    });
    let mut nameless = store.clone();
    nameless.as_object_mut().unwrap().remove("serverName");
    let to = |target: Value| json!({"backupName": "first", "target": target});
    let time = "2026-11-25T10:00:00.5Z";
    for (recovery, message) in [
        (json!({}), "must have either backupName or source"),
        (json!({"backupName": "first", "source": {"objectStore": store}}), "either backupName or source"),
        (json!({"source": {"objectStore": nameless}}), "objectStore.serverName is required"),
        (to(json!({"time": time, "lsn": "0/50"})), "only one of time, lsn, and immediate"),
        (to(json!({"time": time, "immediate": true})), "only one of time, lsn, and immediate"),
        (to(json!({"exclusive": true})), "exclusive needs a time or an lsn"),
    ] {
        let spec = json!({"bootstrap": {"recovery": recovery}});
        let error = env.create("db", spec).await.unwrap_err().to_string();
        assert!(error.contains(message), "{recovery}: {error}");
    }
}

#[tokio::test]
async fn malformed_recoveries_are_refused_by_the_schema() {
    let env = TestEnv::new().await;
    let key = json!({"name": "s3", "key": "id"});
    let from = |field: &str, value: Value| {
        let mut store = json!({
            "url": "s3://backups/eu", "serverName": "old",
            "credentials": {"accessKeyID": key, "secretAccessKey": key},
        });
        store[field] = value;
        json!({"source": {"objectStore": store}})
    };
    let of = |system: Value| {
        let mut recovery = from("serverName", json!("old"));
        recovery["source"]["systemID"] = system;
        recovery
    };
    let to = |field: &str, value: Value| json!({"backupName": "first", "target": {field: value}});
    let system = "systemID must be the decimal number that pg_controldata prints";
    let moment = "time must be in the years 1970 to 9998";
    for (recovery, message) in [
        (of(json!("x")), "systemID in body should match"),
        (of(json!("")), "systemID in body should match"),
        (of(json!("-7")), "systemID in body should match"),
        (of(json!("0")), system),
        (of(json!("007")), system),
        (of(json!("18446744073709551616")), system),
        (of(json!(7)), "must be of type string"),
        (to("timeline", json!(0)), "should be greater than or equal to 1"),
        (to("timeline", json!(-1)), "should be greater than or equal to 1"),
        (to("timeline", json!(4_294_967_296_u64)), "should be less than or equal to 4294967295"),
        (to("timeline", json!("latest")), "must be of type integer"),
        (to("lsn", json!("zz")), "lsn in body should match"),
        (to("lsn", json!("")), "lsn in body should match"),
        (to("lsn", json!("0/123456789")), "lsn in body should match"),
        (to("time", json!("yesterday")), "time in body must be of type date-time"),
        (to("time", json!("")), "time in body must be of type date-time"),
        (to("time", json!("2026-02-31T10:00:00Z")), "target.time"),
        (to("time", json!("2026-11-25T10:00:00x5Z")), "target.time"),
        (to("time", json!("9999-12-31T23:59:59Z")), moment),
        (to("time", json!("1969-12-31T23:59:59Z")), moment),
        (json!({"backupName": ""}), "should be at least 1 chars long"),
        (json!({"backupName": "", "source": {}}), "objectStore: Required value"),
        (from("url", json!("")), "url must be s3:// with a bucket"),
        (from("url", json!("s3://backups/../other")), "url must not contain '..'"),
        (from("serverName", json!("")), "should be at least 1 chars long"),
        (from("serverName", json!("old/../other")), "serverName must be a DNS subdomain"),
    ] {
        let spec = json!({"bootstrap": {"recovery": recovery}});
        let error = env.create_raw("db", spec).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(message), "{recovery}: {error}");
    }
    let greatest = of(json!("18446744073709551615"));
    let spec = json!({"paused": true, "bootstrap": {"recovery": greatest}});
    let created = env.create_raw("db", spec).await.unwrap();
    let read: PostgresCluster = created.try_parse().unwrap();
    let recovery = read.spec.bootstrap.recovery.unwrap();
    assert_eq!(recovery.source.unwrap().system_id.unwrap().0, u64::MAX);
}

#[tokio::test]
async fn samples_are_accepted() {
    let _env = TestEnv::new().await;
    let cluster = cluster::shared().await.unwrap();
    for folder in ["postgres", "postgres-backups"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(folder);
        cluster.kubectl(&["apply", "--dry-run=server", "-f", path.to_str().unwrap()]).await.unwrap();
    }
}

#[tokio::test]
async fn postgres_backup_cannot_be_changed() {
    let env = TestEnv::new().await;
    let api: Api<PostgresBackup> = Api::namespaced(env.client.clone(), &env.namespace);
    let create = async |cluster: &str| {
        let backup = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup",
            "metadata": {"name": "first"}, "spec": {"clusterRef": {"name": cluster}},
        });
        api.create(&PostParams::default(), &serde_json::from_value(backup).unwrap()).await
    };
    let error = create("").await.unwrap_err().to_string();
    assert!(error.contains("should be at least 1 chars long"), "{error}");
    create("db").await.unwrap();
    let other = Patch::Merge(json!({"spec": {"clusterRef": {"name": "other"}}}));
    let error = api.patch("first", &PatchParams::default(), &other).await.unwrap_err().to_string();
    assert!(error.contains("spec cannot be changed; create another PostgresBackup"), "{error}");
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
