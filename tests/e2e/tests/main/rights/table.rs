//! What was granted, beside what was used of it.

use std::{collections::BTreeMap, fmt};

use cluster::audit::Entry;
use serde_json::Value;

use crate::support::{Account, Stage};

/// Whose requests are told apart: each calls itself as its role is called.
const CONTROLLERS: [&str; 5] = ["capsuleconfiguration", "memcached", "namespaceplus", "podset", "tenant"];

/// One thing that a role of the manager allows: a verb on a resource, of one name if the rule names any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) role: String,
    /// Where a Role holds; everywhere for a ClusterRole.
    pub(super) namespace: Option<String>,
    pub(super) group: String,
    /// With its subresource: `podsets/status`.
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
    /// Whether a request is one that this right is for.
    fn covers(&self, entry: &Entry) -> bool {
        let subresource = if entry.subresource.is_empty() { "" } else { "/" };
        self.group == entry.group
            && self.resource == format!("{}{subresource}{}", entry.resource, entry.subresource)
            && self.verb == entry.verb
            && self.name.as_ref().is_none_or(|name| *name == entry.name)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == entry.namespace)
            && self.is_of(&entry.user_agent)
    }

    /// Whether the part of the manager that has the role sent a request. The informers read for all controllers; other
    /// parts of the process do not call themselves as their roles are called.
    fn is_of(&self, user_agent: &str) -> bool {
        let part = user_agent.split_once('(').map_or("", |(_, part)| part.trim_end_matches(')'));
        !CONTROLLERS.contains(&part) || self.role == format!("ensemble-{part}")
    }
}

/// How often each right was used.
pub(super) struct Table(BTreeMap<Right, usize>);

impl Table {
    pub(super) async fn of(stage: &Stage, account: &Account) -> Self {
        let requests = stage.requests(account).entries;
        let uses = |right: &Right| requests.iter().filter(|entry| right.covers(entry)).count();
        Self(granted(stage, account).await.into_iter().map(|right| (right.clone(), uses(&right))).collect())
    }

    /// The rights that were never used.
    pub(super) fn unused(&self) -> impl Iterator<Item = &Right> {
        self.0.iter().filter(|(_, uses)| **uses == 0).map(|(right, _)| right)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(right, uses)| writeln!(f, "{uses:>7}  {right}"))
    }
}

/// What the roles allow that are bound to an account.
pub(super) async fn granted(stage: &Stage, account: &Account) -> Vec<Right> {
    let mut rights = Vec::new();
    for kind in ["clusterrolebindings", "rolebindings"] {
        let bindings = stage.read(&["get", kind, "--all-namespaces"]).await;
        for binding in bindings["items"].as_array().unwrap() {
            if is_bound(binding, account) {
                rights.extend(of_role(stage, binding).await);
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

async fn of_role(stage: &Stage, binding: &Value) -> Vec<Right> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, role) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
    let namespace = (kind == "Role").then(|| text(&binding["metadata"]["namespace"]));
    let within = namespace.as_deref().map(|namespace| format!("--namespace={namespace}"));
    let args: Vec<_> = ["get", &kind, &role].into_iter().chain(within.as_deref()).collect();
    let object = stage.read(&args).await;
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
