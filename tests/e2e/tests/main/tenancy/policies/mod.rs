//! What Tenants allow in their namespaces.

mod cordoning;
mod gateways;
mod ingresses;
mod namespace_metadata;
mod nodes;
mod object_quotas;
mod pods;
mod promotion;
mod services;
mod volumes;

use cluster::wait::eventually;
use serde_json::{Value, json};

use super::{Subject, shared_env};
use crate::support::{PATIENCE, TENANT, TestEnv, sample};

/// Creates a Tenant with an owner and a namespace. Returns the owner and the namespace.
async fn create_tenant(env: &TestEnv, tenant: &str, spec: Value) -> (Subject, String) {
    let owner = Subject::user(&format!("owner-of-{tenant}"));
    env.tenant(tenant, &[&owner], spec).await;
    let namespace = format!("{tenant}-dev");
    owner.create(env, &namespace).await.unwrap();
    env.until_tenant_ready(tenant, 1).await;
    (owner, namespace)
}

#[tokio::test]
async fn sample_uses_only_fields_that_are_enforced() {
    let env = shared_env().await;
    env.kubectl(&["apply", "--validate=strict", "-f", &sample("tenancy/tenant-policies")]).await.unwrap();
    let tenant = env.until_ready(&TENANT, "", "water").await;
    let conditions = tenant.data["status"]["conditions"].as_array().unwrap();
    let enforced = conditions.iter().find(|one| one["type"] == "FieldsEnforced").unwrap();
    assert_eq!(enforced["status"], "True", "{enforced}");
}

/// Returns an object of a namespace.
fn object(api_version: &str, kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
}

impl TestEnv {
    /// Waits until the dry run of an object is denied with this text.
    async fn until_denied(&self, object: &Value, text: &str) {
        eventually(&format!("a denial with {text:?}"), PATIENCE, async || {
            let tried = self.dry_run(object.clone()).await;
            Ok(match tried {
                Err(denied) if denied.contains(text) => Ok(()),
                other => Err(other),
            })
        })
        .await
        .unwrap();
    }

    /// Waits until the dry run of an object succeeds. Returns the result.
    async fn until_admitted(&self, object: &Value) -> Value {
        eventually("the object to be admitted", PATIENCE, async || Ok(self.dry_run(object.clone()).await))
            .await
            .unwrap()
    }

    /// Asserts that the dry run of an object is denied with this text.
    async fn assert_denied(&self, object: &Value, text: &str) {
        let denied = self.dry_run(object.clone()).await.unwrap_err();
        assert!(denied.contains(text), "{denied}");
    }

    /// Asserts that the object is denied, and waits for the Event with this reason. A dry run has none.
    async fn assert_denial_event(&self, object: &Value, reason: &str) -> Value {
        assert!(self.cluster.apply_yaml(&object.to_string()).await.is_err());
        self.until_event(object["metadata"]["namespace"].as_str().unwrap(), reason).await
    }

    /// Changes the spec of a Tenant, and waits until its namespaces match.
    async fn change_tenant(&self, tenant: &str, spec: Value) {
        self.change(&TENANT, "", tenant, spec).await;
        self.until_ready(&TENANT, "", tenant).await;
    }

    /// Waits until an object has this value of a label. Null if it has no such label.
    async fn until_label(&self, kind: &str, name: &str, label: &str, expected: &Value) {
        eventually(&format!("{kind} {name} to have {label}={expected}"), PATIENCE, async || {
            let found = self.read(&["get", kind, name]).await["metadata"]["labels"].clone();
            Ok(if found[label] == *expected { Ok(()) } else { Err(found) })
        })
        .await
        .unwrap();
    }

    /// Waits for an Event with this reason, and returns it.
    async fn until_event(&self, namespace: &str, reason: &str) -> Value {
        let within = format!("--namespace={namespace}");
        eventually(&format!("an Event {reason} in {namespace}"), PATIENCE, async || {
            let events = self.read(&["get", "events.v1.events.k8s.io", &within]).await;
            let found = events["items"].as_array().unwrap().iter().find(|event| event["reason"] == reason);
            Ok(found.cloned().ok_or(events))
        })
        .await
        .unwrap()
    }
}
