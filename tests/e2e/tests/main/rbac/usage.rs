//! Granted rights and their use.

use std::{collections::BTreeMap, fmt};

use cluster::audit::Entry;
use serde_json::Value;

use crate::support::{Account, CONTROLLERS, TestEnv};

/// A right of the manager: a verb on a resource, optionally restricted to a resource name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) role: String,
    /// Namespace of a Role. `None` for a ClusterRole.
    pub(super) namespace: Option<String>,
    pub(super) group: String,
    /// Resource with its subresource: `podsets/status`.
    pub(super) resource: String,
    pub(super) verb: String,
    pub(super) name: Option<String>,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, namespace, group, resource, verb, name } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{role:<28} {verb:<7} {resource}{dot}{group}")?;
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in {namespace}"))
    }
}

impl Right {
    /// Returns whether a request needs this right.
    fn covers(&self, entry: &Entry) -> bool {
        let subresource = if entry.subresource.is_empty() { "" } else { "/" };
        self.group == entry.group
            && self.resource == format!("{}{subresource}{}", entry.resource, entry.subresource)
            && self.verb == entry.verb
            && self.name.as_ref().is_none_or(|name| *name == entry.name)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == entry.namespace)
            && self.is_of(&entry.user_agent)
    }

    /// Returns whether a request's user agent belongs to the role. The informers send requests for
    /// all controllers. Other parts of the process have user agents without a role.
    fn is_of(&self, user_agent: &str) -> bool {
        let part = user_agent.split_once('(').map_or("", |(_, part)| part.trim_end_matches(')'));
        !CONTROLLERS.contains(&part) || self.role == format!("ensemble-{part}")
    }
}

/// Number of uses of each right.
pub(super) struct Usage(BTreeMap<Right, usize>);

impl Usage {
    pub(super) async fn of(env: &TestEnv, account: &Account) -> Self {
        let requests = env.requests(account).entries;
        let uses = |right: &Right| requests.iter().filter(|entry| right.covers(entry)).count();
        Self(granted(env, account).await.into_iter().map(|right| (right.clone(), uses(&right))).collect())
    }

    /// Returns the rights that were not used.
    pub(super) fn unused(&self) -> impl Iterator<Item = &Right> {
        self.0.iter().filter(|(_, uses)| **uses == 0).map(|(right, _)| right)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(right, uses)| writeln!(f, "{uses:>7}  {right}"))
    }
}

/// Returns the rights of all roles that are bound to an account.
pub(super) async fn granted(env: &TestEnv, account: &Account) -> Vec<Right> {
    let mut rights = Vec::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let bindings = env.read(&["get", kind, "--all-namespaces"]).await;
        for binding in bindings["items"].as_array().unwrap() {
            if is_bound(binding, account) {
                rights.extend(rights_of_role(env, binding).await);
            }
        }
    }
    rights
}

fn is_bound(binding: &Value, account: &Account) -> bool {
    let is_subject =
        |subject: &Value| subject["kind"] == "ServiceAccount" && account.user().ends_with(&user_of(subject));
    binding["subjects"].as_array().is_some_and(|subjects| subjects.iter().any(is_subject))
}

fn user_of(subject: &Value) -> String {
    let text = |field: &str| subject[field].as_str().unwrap_or_default().to_owned();
    format!(":{}:{}", text("namespace"), text("name"))
}

async fn rights_of_role(env: &TestEnv, binding: &Value) -> Vec<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, role) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
    let namespace = (kind == "Role").then(|| text(&binding["metadata"]["namespace"]));
    let within = namespace.as_deref().map(|namespace| format!("--namespace={namespace}"));
    let args: Vec<_> = ["get", &kind, &role].into_iter().chain(within.as_deref()).collect();
    let object = env.read(&args).await;
    let list = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().map(text).collect()
    };
    let mut rights = Vec::new();
    for rule in object["rules"].as_array().unwrap() {
        let mut names: Vec<_> = list(rule, "resourceNames").into_iter().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                for verb in list(rule, "verbs") {
                    rights.extend(names.iter().map(|name| Right {
                        role: role.clone(),
                        namespace: namespace.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}
