//! Host names of Ingresses.

use std::collections::BTreeSet;

use capsule::{
    api::v1beta2::{HostnameCollisionScope, Route, Tenant},
    class_filter::ClassFilters,
    name_filter::NameFilter,
};
use k8s_openapi::{api::networking::v1::Ingress, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::Violation;
use crate::reasons::{INGRESS_HOSTNAME_EMPTY, INGRESS_HOSTNAME_NOT_VALID, WILDCARD_DENIED};

/// Limit of the host names in a message.
const MAX_LISTED_HOSTS: usize = 50;

/// The fields of an Ingress that admission reads or sets. Other fields are preserved.
#[derive(Resource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[resource(inherit = "Ingress")]
pub(crate) struct ReviewedIngress {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: Spec,
}

/// `spec` of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ingress_class_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rules: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tls: Vec<Tls>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Rule {
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<Http>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Http {
    paths: Vec<Path>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Path {
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Tls {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
}

/// Returns the wildcard that covers the host of a route. Returns `None` for a wildcard and for a
/// host without a parent domain. A wildcard covers exactly one label.
pub(crate) fn wildcard(route: &Route) -> Option<Route> {
    let (label, domain) = route.host.split_once('.')?;
    let is_covered = label != "*" && !label.is_empty() && !domain.is_empty();
    is_covered.then(|| Route { host: format!("*.{domain}"), path: route.path.clone() })
}

impl ReviewedIngress {
    /// Returns the routes. A rule without paths has none, and the type of a path is ignored, as in
    /// Capsule.
    pub(crate) fn routes(&self) -> BTreeSet<Route> {
        let of_rule = |rule: &Rule| {
            let paths = rule.http.clone().unwrap_or_default().paths;
            let host = rule.host.to_lowercase();
            paths.into_iter().map(move |Path { path }| Route {
                host: host.clone(),
                path: if path.is_empty() { "/".to_owned() } else { path },
            })
        };
        self.spec.rules.iter().flat_map(of_rule).collect()
    }

    /// Returns the host names of the rules in lower case. Empty for a rule for all hosts.
    fn rule_hosts(&self) -> BTreeSet<String> {
        self.spec.rules.iter().map(|rule| rule.host.to_lowercase()).collect()
    }

    /// Returns the host names of rules and certificates in lower case.
    fn all_hosts(&self) -> BTreeSet<String> {
        let tls = self.spec.tls.iter().flat_map(|tls| &tls.hosts).map(|host| host.to_lowercase());
        self.rule_hosts().into_iter().chain(tls).collect()
    }
}

/// Compiled policy of a Tenant for the host names of Ingresses.
#[derive(Debug)]
pub(crate) struct IngressPolicy {
    tenant: String,
    /// Host names that rules and certificates may use. `None` allows all.
    allowed: Option<NameFilter>,
    /// Scope in which a route must be unique.
    pub(crate) collision_scope: HostnameCollisionScope,
    allows_wildcards: bool,
    /// Classes that Ingresses may use.
    pub(crate) classes: ClassFilters,
}

impl From<&Tenant> for IngressPolicy {
    fn from(tenant: &Tenant) -> Self {
        let options = tenant.spec.ingress_options.clone().unwrap_or_default();
        let allowed = options.allowed_hostnames.map(|mut list| {
            list.allowed.iter_mut().for_each(|host| *host = host.to_lowercase());
            NameFilter::from(&list)
        });
        Self {
            tenant: tenant.metadata.name.clone().unwrap_or_default(),
            allowed,
            collision_scope: options.hostname_collision_scope,
            allows_wildcards: options.allow_wildcard_hostnames,
            classes: ClassFilters::from(tenant),
        }
    }
}

impl IngressPolicy {
    /// Checks that the host names that the old Ingress does not have are allowed.
    pub(crate) fn check_hosts(
        &self,
        old: Option<&ReviewedIngress>,
        new: &ReviewedIngress,
    ) -> Result<(), Violation> {
        let Some(allowed) = &self.allowed else { return Ok(()) };
        let before = old.map(ReviewedIngress::all_hosts).unwrap_or_default();
        let added: BTreeSet<_> = new.all_hosts().difference(&before).cloned().collect();
        if added.contains("") {
            let message = format!(
                "spec.rules[].host: Tenant {} requires a host name in each rule; allowed host names: {allowed}",
                self.tenant
            );
            return Err(Violation::new(INGRESS_HOSTNAME_EMPTY, message));
        }
        let bad: Vec<_> = added.into_iter().filter(|host| !allowed.matches(host)).collect();
        if bad.is_empty() {
            return Ok(());
        }
        let listed = bad.iter().take(MAX_LISTED_HOSTS).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match bad.len().saturating_sub(MAX_LISTED_HOSTS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "spec.rules[].host: host names {listed}{more} are not allowed by Tenant {}; allowed host names: {allowed}",
            self.tenant
        );
        Err(Violation::new(INGRESS_HOSTNAME_NOT_VALID, message))
    }

    /// Checks that no host name that the old Ingress does not have is a wildcard.
    pub(crate) fn check_wildcards(
        &self,
        old: Option<&ReviewedIngress>,
        new: &ReviewedIngress,
    ) -> Result<(), Violation> {
        let before = old.map(ReviewedIngress::rule_hosts).unwrap_or_default();
        let wildcard = new.rule_hosts().difference(&before).find(|host| host.starts_with('*')).cloned();
        match wildcard {
            Some(host) if !self.allows_wildcards => {
                let message = format!(
                    "spec.rules[].host: host name {host} is a wildcard, which Tenant {} does not allow; name each host, or \
                     ask an administrator to set spec.ingressOptions.allowWildcardHostnames of the Tenant",
                    self.tenant
                );
                Err(Violation::new(WILDCARD_DENIED, message))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(options: Value) -> IngressPolicy {
        let tenant = json!({ "metadata": { "name": "oil" }, "spec": { "ingressOptions": options } });
        IngressPolicy::from(&serde_json::from_value::<Tenant>(tenant).unwrap())
    }

    fn ingress(rules: Value) -> ReviewedIngress {
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": { "rules": rules } })).unwrap()
    }

    fn hosts(options: Value, old: Option<Value>, rules: Value) -> Result<(), (&'static str, String)> {
        let checked = policy(options).check_hosts(old.map(ingress).as_ref(), &ingress(rules));
        checked.map_err(|violation| (violation.reason, violation.message))
    }

    #[test]
    fn allowed_hosts_are_required_in_each_rule() {
        let options = || json!({ "allowedHostnames": { "allowed": ["Web.example"], "allowedRegex": "^.*\\.oil\\.io$" } });
        for rules in [
            json!([]),
            json!([{ "host": "web.example" }]),
            json!([{ "host": "WEB.example" }, { "host": "a.oil.io" }]),
        ] {
            assert_eq!(hosts(options(), None, rules.clone()), Ok(()), "{rules}");
        }
        let empty = json!([{ "host": "web.example" }, {}]);
        assert_eq!(hosts(options(), None, empty.clone()).unwrap_err().0, INGRESS_HOSTNAME_EMPTY);
        assert_eq!(hosts(options(), Some(empty.clone()), empty), Ok(()));
        let bad = json!([{ "host": "b.example" }, { "host": "web.example" }, { "host": "a.example" }]);
        let (reason, message) = hosts(options(), None, bad.clone()).unwrap_err();
        assert_eq!(reason, INGRESS_HOSTNAME_NOT_VALID);
        assert_eq!(
            message,
            "spec.rules[].host: host names a.example, b.example are not allowed by Tenant oil; allowed host names: \
             web.example, names that match \"^.*\\\\.oil\\\\.io$\""
        );
        assert_eq!(hosts(options(), Some(bad.clone()), bad), Ok(()));
        assert_eq!(hosts(json!({}), None, json!([{}])), Ok(()));
        let many: Vec<_> = (0..20_000).map(|index| json!({ "host": format!("bad-{index}") })).collect();
        let (_, message) = hosts(options(), None, json!(many)).unwrap_err();
        assert!(message.contains(" and 19950 more are not allowed") && message.len() < 2000, "{message}");
    }

    #[test]
    fn hosts_of_certificates_must_be_allowed() {
        let with_tls: ReviewedIngress = serde_json::from_value(json!({
            "metadata": {}, "spec": { "rules": [{ "host": "a" }], "tls": [{ "hosts": ["b"] }] },
        }))
        .unwrap();
        let policy = policy(json!({ "allowedHostnames": { "allowed": ["a"] } }));
        assert_eq!(policy.check_hosts(None, &with_tls).unwrap_err().reason, INGRESS_HOSTNAME_NOT_VALID);
        assert_eq!(policy.check_hosts(None, &ingress(json!([{ "host": "a" }]))), Ok(()));
    }

    #[test]
    fn wildcards_are_denied_by_default() {
        let check = |options: Value, old: Option<Value>, host: &str| {
            let new = ingress(json!([{ "host": host }]));
            policy(options).check_wildcards(old.map(ingress).as_ref(), &new).map_err(|found| found.reason)
        };
        for host in ["*.example", "*"] {
            assert_eq!(check(json!({}), None, host), Err(WILDCARD_DENIED));
            assert_eq!(check(json!({ "allowWildcardHostnames": true }), None, host), Ok(()));
            assert_eq!(check(json!({}), Some(json!([{ "host": host }])), host), Ok(()));
        }
        assert_eq!(check(json!({}), None, "a.example"), Ok(()));
    }

    #[test]
    fn routes_are_pairs_of_host_and_path() {
        let route = |host: &str, path: &str| Route { host: host.to_owned(), path: path.to_owned() };
        let found = ingress(json!([
            { "host": "A.example", "http": { "paths": [{ "path": "/a" }, {}, { "path": "/" }] } },
            { "host": "no-paths" },
            { "http": { "paths": [{ "path": "/b" }] } },
        ]))
        .routes();
        let expected = [route("", "/b"), route("a.example", "/"), route("a.example", "/a")];
        assert_eq!(found, expected.into());
        assert_eq!(wildcard(&route("a.b.c", "/")), Some(route("*.b.c", "/")));
        for uncovered in ["*.b.c", "localhost", "", "a."] {
            assert_eq!(wildcard(&route(uncovered, "/")), None, "{uncovered}");
        }
    }
}
