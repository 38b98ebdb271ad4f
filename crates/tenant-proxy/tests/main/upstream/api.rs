//! What the API server answers: to the proxy everything, to administrators lists, to others a refusal.

use http::Version;
use serde_json::{Value, json};

use super::{PROXY_TOKEN, Recorded};

const CAPSULE: &str = "projectcapsule.dev";
const TENANT_LABEL: &str = "capsule.clastix.io/tenant";
const NAMESPACES: &str = "/api/v1/namespaces";
const GROUP: &str = "/apis/capsule.clastix.io/v1beta2";
const SETTINGS: &str = "/apis/capsule.clastix.io/v1beta1";
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const NODES: &str = "/api/v1/nodes";
/// The authorities of client certificates.
pub(crate) const CLIENT_CA: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Names and groups of users, by their token.
const USERS: [(&str, &str, &[&str]); 10] = [
    ("alice", "alice", &[CAPSULE]),
    ("bob", "bob", &[CAPSULE]),
    ("carol", "carol", &[]),
    ("dan", "dan", &[CAPSULE]),
    ("mallory", "mallory", &[CAPSULE]),
    ("erin", "erin", &[]),
    ("admin", "admin", &["system:masters"]),
    ("anonymous", "system:anonymous", &["system:unauthenticated"]),
    ("account-of-b", "system:serviceaccount:b:a", &["system:serviceaccounts"]),
    (PROXY_TOKEN, "system:serviceaccount:ensemble-system:ensemble-proxy", &["system:serviceaccounts"]),
];

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body never ends.
    pub(crate) is_endless: bool,
    /// Whether the answer never begins.
    pub(crate) is_withheld: bool,
}

impl Answer {
    /// Returns an answer with a body in JSON.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes(), is_endless: false, is_withheld: false }
    }

    /// Returns an error.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        let body = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
            "code": status, "message": message});
        Self::json(status, &body)
    }

    /// Returns the beginning of a watch.
    pub(crate) fn watch(events: &[Value]) -> Self {
        let body: Vec<_> = events.iter().map(ToString::to_string).collect();
        Self { body: body.join("\n").into_bytes(), is_endless: true, ..Self::json(200, &Value::Null) }
    }
}

/// Objects of the API server.
pub(crate) struct Objects {
    tenants: Vec<Value>,
    /// Name and Tenant of namespaces.
    namespaces: Vec<(&'static str, &'static str)>,
    global_settings: Vec<Value>,
    client_ca: Option<String>,
}

impl Objects {
    /// Returns the usual objects, and an authority of client certificates.
    pub(crate) fn with_client_ca(pem: String) -> Self {
        Self { client_ca: Some(pem), ..Self::default() }
    }
}

impl Default for Objects {
    fn default() -> Self {
        let account = json!({"kind": "ServiceAccount", "name": "system:serviceaccount:a:b"});
        Self {
            tenants: vec![
                with_classes(tenant("oil", json!({"kind": "User", "name": "alice"}))),
                tenant("gas", json!({"kind": "User", "name": "bob"})),
                tenant("sun", account),
                // The API server accepts no such name.
                tenant("gas),x in (y", json!({"kind": "User", "name": "mallory"})),
            ],
            namespaces: vec![("oil-dev", "oil"), ("gas-dev", "gas"), ("oil-prod", "oil")],
            global_settings: vec![all_of_gold()],
            client_ca: None,
        }
    }
}

/// Lets the owner list the StorageClass `fast`.
fn with_classes(mut tenant: Value) -> Value {
    let settings = json!([{"kind": "StorageClasses", "operations": ["List"]}]);
    tenant["spec"]["owners"][0]["proxySettings"] = settings;
    tenant["spec"]["storageClasses"] = json!({"allowed": ["fast"], "matchLabels": {"tier": "silver"}});
    tenant
}

/// Shows erin all objects of all kinds with one label.
fn all_of_gold() -> Value {
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "selector": {"matchLabels": {"tier": "gold"}}});
    json!({
        "apiVersion": "capsule.clastix.io/v1beta1", "kind": "GlobalProxySettings",
        "metadata": {"name": "gold", "uid": "gold", "resourceVersion": "1"},
        "spec": {"rules": [{"subjects": [{"kind": "User", "name": "erin"}], "clusterResources": [all]}]},
    })
}

/// Returns an object with a label.
fn labelled(name: &str, tier: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"tier": tier}}})
}

/// Returns the kinds of the core group.
fn core_kinds() -> Value {
    let kind = |name: &str, namespaced: bool| {
        json!({"name": name, "singularName": "", "kind": "X", "namespaced": namespaced,
            "verbs": ["get", "list", "watch"]})
    };
    json!({"kind": "APIResourceList", "groupVersion": "v1",
        "resources": [kind("nodes", false), kind("secrets", true), kind("pods", true)]})
}

/// Answers requests for kinds that the tests of settings use. `None`: the kind is another one.
fn of_settings(user: &User, path: &str) -> Option<Answer> {
    let is_proxy = user.name.ends_with(":ensemble-proxy");
    let list = |items: &[Value]| {
        Answer::json(200, &json!({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items}))
    };
    let classes = [labelled("fast", "none"), labelled("slow", "none"), labelled("cheap", "silver")];
    match path {
        "/api/v1" if is_proxy => Some(Answer::json(200, &core_kinds())),
        "/api/v1/secrets" | "/api/v1/persistentvolumes" | STORAGE_CLASSES | NODES if !user.may_list() => {
            Some(refusal(user, "list", path))
        }
        STORAGE_CLASSES => Some(list(&classes)),
        NODES => Some(list(&[labelled("node", "gold")])),
        _ => {
            let name = path.strip_prefix(STORAGE_CLASSES)?.strip_prefix('/')?;
            if !user.may_list() {
                return Some(refusal(user, "get", "this class"));
            }
            let found = classes.iter().find(|class| class["metadata"]["name"] == name);
            Some(found.map_or_else(|| Answer::error(404, "not found"), |class| Answer::json(200, class)))
        }
    }
}

fn tenant(name: &str, owner: Value) -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"owners": [owner]},
    })
}

/// Answers a request.
pub(super) fn answer(request: &Recorded, objects: &Objects) -> Answer {
    match user(request) {
        Err(refusal) => refusal,
        Ok(user) => answer_to(&user, request, objects),
    }
}

struct User {
    name: String,
    groups: Vec<String>,
}

impl User {
    fn may_list(&self) -> bool {
        self.name.ends_with(":ensemble-proxy") || self.groups.iter().any(|group| group == "system:masters")
    }
}

/// Returns the user of a request, by its token and its impersonation.
fn user(request: &Recorded) -> Result<User, Answer> {
    let found = USERS.iter().find(|(token, ..)| request.is_by(token));
    let (_, name, groups) = found.ok_or_else(|| Answer::error(401, "Unauthorized"))?;
    let all = |name: &str| {
        let values = request.all(name).into_iter().map(|value| String::from_utf8_lossy(value).into_owned());
        values.filter(|value| !value.is_empty()).collect::<Vec<_>>()
    };
    let asks =
        request.headers.iter().any(|(name, value)| name.starts_with("impersonate-") && !value.is_empty());
    match (all("impersonate-user").first(), asks) {
        (None, false) => Ok(User {
            name: (*name).to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }),
        (None, true) => Err(Answer::error(400, "requested without impersonating a user")),
        // The proxy is refused for the system only, as with constrained impersonation.
        (Some(impersonated), _) if *name == "admin" || request.is_by(PROXY_TOKEN) => {
            Ok(User { name: impersonated.clone(), groups: all("impersonate-group") })
        }
        (Some(_), _) => Err(Answer::error(403, &format!("User {name:?} cannot impersonate"))),
    }
}

fn answer_to(user: &User, request: &Recorded, objects: &Objects) -> Answer {
    let (path, query) = request.path_and_query();
    let path = path.strip_suffix('/').unwrap_or(path);
    if let Some(answer) = of_settings(user, path).filter(|_| request.method == "GET") {
        return answer;
    }
    match (request.method.as_str(), path) {
        ("POST", REVIEWS) => review(user),
        ("GET", CLIENT_CA) => {
            let data = objects.client_ca.as_ref().map(|pem| json!({"client-ca-file": pem}));
            Answer::json(200, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data}))
        }
        (_, NAMESPACES) if !user.may_list() => refusal(user, "list", "namespaces"),
        ("GET", NAMESPACES) => namespaces(query, objects),
        ("GET", path) if path.starts_with(SETTINGS) => match path.strip_prefix(SETTINGS) {
            Some("/globalproxysettings") if user.may_list() => list(request, &objects.global_settings),
            Some("/proxysettings") if user.may_list() => list(request, &[]),
            _ => refusal(user, "list", path),
        },
        _ => match path.strip_prefix(GROUP) {
            Some(rest) if !user.may_list() => refusal(user, "get", rest),
            Some("/tenants") => list(request, &objects.tenants),
            Some("/tenantowners" | "/capsuleconfigurations") => list(request, &[]),
            Some(rest) => rest
                .strip_prefix("/tenants/")
                .and_then(|name| objects.tenants.iter().find(|tenant| tenant["metadata"]["name"] == name))
                .map_or_else(|| Answer::error(404, "not found"), |tenant| Answer::json(200, tenant)),
            None => Answer::json(200, &json!({"kind": "Other"})),
        },
    }
}

fn review(user: &User) -> Answer {
    let info = json!({"username": user.name, "groups": user.groups});
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
        "status": {"userInfo": info}});
    Answer::json(201, &body)
}

fn refusal(user: &User, verb: &str, what: &str) -> Answer {
    Answer::error(403, &format!("User {:?} cannot {verb} {what}", user.name))
}

/// Answers a list of namespaces, of which the first requirement selects.
fn namespaces(query: &str, objects: &Objects) -> Answer {
    let query = percent_encoding::percent_decode_str(query).decode_utf8_lossy().into_owned();
    let selected = query.strip_prefix(&format!("labelSelector={TENANT_LABEL} in ("));
    let selected: Option<Vec<_>> =
        selected.map(|rest| rest.split(')').next().unwrap_or_default().split(',').collect());
    let is_selected = |tenant: &str| match &selected {
        Some(tenants) => tenants.contains(&tenant),
        None => query.is_empty(),
    };
    let found = objects.namespaces.iter().filter(|(_, tenant)| is_selected(tenant));
    let items: Vec<_> = found
        .map(|(name, tenant)| json!({"metadata": {"name": name, "labels": {TENANT_LABEL: tenant}}}))
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"resourceVersion": "7"},
        "items": items});
    Answer::json(200, &list)
}

/// Answers a list. Caches list in pages, and then watch without ever getting an event.
fn list(request: &Recorded, items: &[Value]) -> Answer {
    let (_, query) = request.path_and_query();
    if request.version == Version::HTTP_11 && query.contains("sendInitialEvents=true") {
        return Answer::error(422, "sendInitialEvents is not supported");
    }
    if query.contains("watch=true") {
        return Answer::watch(&[]);
    }
    let list = json!({"apiVersion": "capsule.clastix.io/v1beta2", "kind": "List",
        "metadata": {"resourceVersion": "7"}, "items": items});
    Answer::json(200, &list)
}
