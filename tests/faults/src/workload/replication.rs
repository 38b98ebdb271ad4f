//! Workloads of TenantResource and GlobalTenantResource. Both replicate a LimitRange.

use serde_json::{Value, json};

use super::{Goal, ObjectRef, Step, ThirdPartyChange, Workload, hold, strip};
use crate::kinds::{
    GLOBAL_TENANT_RESOURCE, LIMIT_RANGE, ROLE_BINDING, SERVICE_ACCOUNT, TENANT, TENANT_RESOURCE,
};

/// Label of no Tenant.
const NOBODY: &str = "nobody";

/// All workloads of TenantResource.
pub const LOCAL: &[Workload] = &[
    local("create", |run| made(run, None), |run| vec![make(run, "1")], |run| has(run, "1")),
    local("change", |run| made(run, Some("1")), |run| vec![change(run, "2")], |run| has(run, "2")),
    local("change-and-revert", |run| made(run, Some("1")), change_and_revert, |run| has(run, "1")),
    local(
        "object-deleted",
        |run| made(run, Some("1")),
        |run| vec![limits(run).delete()],
        |run| has(run, "1"),
    ),
    local(
        "prune",
        |run| made(run, Some("1")),
        |run| vec![resource(run).change(json!({ "resources": [] }))],
        pruned,
    ),
    local("recreate", |run| made(run, Some("1")), recreate, |run| has(run, "1")),
    local("delete", |run| made(run, Some("1")), |run| vec![resource(run).delete()], gone),
];

/// All workloads of GlobalTenantResource.
pub const GLOBAL: &[Workload] = &[
    global("create", |run| made(run, None), |run| vec![make_global(run, "1")], |run| has_global(run, "1")),
    global("change", made_global, |run| vec![change_global(run, "2")], |run| has_global(run, "2")),
    global("change-and-revert", made_global, change_and_revert_global, |run| has_global(run, "1")),
    global("object-deleted", made_global, |run| vec![limits(run).delete()], |run| has_global(run, "1")),
    global(
        "prune",
        made_global,
        |run| vec![resource_global(run).change(json!({ "resources": [] }))],
        pruned_global,
    ),
    global("deselect", made_in_namespaces, deselect, pruned_global),
    global("select", made_for_nobody, select, |run| has_global(run, "1")),
    global("recreate", made_global, recreate_global, |run| has_global(run, "1")),
    global("delete", made_global, |run| vec![resource_global(run).delete()], gone_global),
];

/// Modifications by a third party.
pub const THIRD_PARTY_CHANGES: &[ThirdPartyChange] = &[
    ("object-deleted", |run| vec![limits(run).delete()]),
    ("object-held", |run| hold(limits(run))),
    ("labels-stomped", |run| strip(limits(run), json!({ "labels": null }))),
];

const fn local(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "tenantresource", name, before, act, goals }
}

const fn global(
    name: &'static str,
    before: fn(&str) -> Vec<Step>,
    act: fn(&str) -> Vec<Step>,
    goals: fn(&str) -> Vec<Goal>,
) -> Workload {
    Workload { controller: "globaltenantresource", name, before, act, goals }
}

fn home(run: &str) -> String {
    format!("{run}-a")
}

fn resource(run: &str) -> ObjectRef {
    ObjectRef::within(&TENANT_RESOURCE, &home(run), run)
}

fn resource_global(run: &str) -> ObjectRef {
    ObjectRef::home(&GLOBAL_TENANT_RESOURCE, run)
}

fn limits(run: &str) -> ObjectRef {
    ObjectRef::within(&LIMIT_RANGE, &home(run), run)
}

/// Creates the Tenant, its namespace, and an account with all permissions in it. Waits for the Tenant
/// controller, whose changes are part of the end state.
fn prepared(run: &str) -> Vec<Step> {
    let metadata = |name: &str| json!({ "name": name, "namespace": home(run) });
    vec![
        Step::Create(json!({
            "apiVersion": TENANT.api_version(), "kind": "Tenant",
            "metadata": { "name": run, "labels": { "run": run } }, "spec": {},
        })),
        Step::Join { tenant: run.to_owned(), namespace: home(run) },
        Step::Until(ObjectRef::home(&TENANT, run).ready()),
        Step::Until(Goal::Has(ObjectRef::home(&TENANT, run), "/status/size", json!(1))),
        Step::Create(json!({
            "apiVersion": SERVICE_ACCOUNT.api_version(), "kind": "ServiceAccount", "metadata": metadata("replicator"),
        })),
        Step::Create(json!({
            "apiVersion": ROLE_BINDING.api_version(), "kind": "RoleBinding", "metadata": metadata("replicator"),
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "replicator", "namespace": home(run) }],
        })),
    ]
}

fn made(run: &str, cpu: Option<&str>) -> Vec<Step> {
    let made = cpu.into_iter().flat_map(|cpu| {
        [make(run, cpu)].into_iter().chain(has(run, cpu).into_iter().map(Step::Until)).collect::<Vec<_>>()
    });
    prepared(run).into_iter().chain(made).collect()
}

fn made_global(run: &str) -> Vec<Step> {
    let made = [make_global(run, "1")].into_iter().chain(has_global(run, "1").into_iter().map(Step::Until));
    prepared(run).into_iter().chain(made).collect()
}

/// Returns the objects to replicate. A resync repairs what others change.
fn spec(run: &str, cpu: &str) -> Value {
    let limits = json!({
        "apiVersion": LIMIT_RANGE.api_version(), "kind": "LimitRange",
        "metadata": { "name": run, "namespace": home(run) },
        "spec": { "limits": [{ "type": "Container", "default": { "cpu": cpu } }] },
    });
    json!({ "resyncPeriod": "1s", "resources": [{ "rawItems": [limits] }] })
}

fn make(run: &str, cpu: &str) -> Step {
    resource(run).with(with(spec(run, cpu), json!({ "serviceAccount": { "name": "replicator" } })))
}

fn make_global(run: &str, cpu: &str) -> Step {
    let account = json!({ "name": "replicator", "namespace": home(run) });
    // The Tenants of other runs come and go.
    let tenants = json!({ "matchLabels": { "run": run } });
    let more = json!({ "serviceAccount": account, "scope": "None", "tenantSelector": tenants });
    resource_global(run).with(with(spec(run, cpu), more))
}

/// Returns the selection of Tenants, and the scope in which each of their namespaces gets the objects.
fn selection(tenants: &str) -> Value {
    json!({ "scope": "Namespace", "tenantSelector": { "matchLabels": { "run": tenants } } })
}

fn made_in_namespaces(run: &str) -> Vec<Step> {
    let made = made_for(run, run).into_iter();
    made.chain(has_global(run, "1").into_iter().map(Step::Until)).collect()
}

fn made_for_nobody(run: &str) -> Vec<Step> {
    let made = made_for(run, NOBODY).into_iter();
    made.chain(pruned_global(run).into_iter().map(Step::Until)).collect()
}

fn made_for(run: &str, tenants: &str) -> Vec<Step> {
    let account = json!({ "serviceAccount": { "name": "replicator", "namespace": home(run) } });
    let spec = with(with(spec(run, "1"), account), selection(tenants));
    prepared(run).into_iter().chain([resource_global(run).with(spec)]).collect()
}

fn deselect(run: &str) -> Vec<Step> {
    vec![resource_global(run).change(selection(NOBODY))]
}

fn select(run: &str) -> Vec<Step> {
    vec![resource_global(run).change(selection(run))]
}

/// Adds fields to an object.
fn with(mut object: Value, more: Value) -> Value {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
    object
}

fn change(run: &str, cpu: &str) -> Step {
    resource(run).change(spec(run, cpu))
}

fn change_global(run: &str, cpu: &str) -> Step {
    resource_global(run).change(spec(run, cpu))
}

fn has_limits(run: &str, cpu: &str) -> Goal {
    Goal::Has(limits(run), "/spec/limits/0/default/cpu", json!(cpu))
}

fn has(run: &str, cpu: &str) -> Vec<Goal> {
    let size = Goal::Has(resource(run), "/status/size", json!(1));
    vec![resource(run).ready(), size, has_limits(run, cpu)]
}

fn has_global(run: &str, cpu: &str) -> Vec<Goal> {
    let size = Goal::Has(resource_global(run), "/status/size", json!(1));
    vec![resource_global(run).ready(), size, has_limits(run, cpu)]
}

fn change_and_revert(run: &str) -> Vec<Step> {
    let changed = has(run, "2").into_iter().map(Step::Until);
    [change(run, "2")].into_iter().chain(changed).chain([change(run, "1")]).collect()
}

fn change_and_revert_global(run: &str) -> Vec<Step> {
    let changed = has_global(run, "2").into_iter().map(Step::Until);
    [change_global(run, "2")].into_iter().chain(changed).chain([change_global(run, "1")]).collect()
}

fn pruned(run: &str) -> Vec<Goal> {
    vec![resource(run).ready(), Goal::Has(resource(run), "/status/size", json!(0)), limits(run).gone()]
}

fn pruned_global(run: &str) -> Vec<Goal> {
    let size = Goal::Has(resource_global(run), "/status/size", json!(0));
    vec![resource_global(run).ready(), size, limits(run).gone()]
}

fn recreate(run: &str) -> Vec<Step> {
    vec![resource(run).delete(), Step::Until(resource(run).gone()), make(run, "1")]
}

fn recreate_global(run: &str) -> Vec<Step> {
    vec![resource_global(run).delete(), Step::Until(resource_global(run).gone()), make_global(run, "1")]
}

fn gone(run: &str) -> Vec<Goal> {
    vec![resource(run).gone(), limits(run).gone()]
}

fn gone_global(run: &str) -> Vec<Goal> {
    vec![resource_global(run).gone(), limits(run).gone()]
}
