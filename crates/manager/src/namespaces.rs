//! `--watch-namespaces`: the namespaces that the controllers watch.

use std::collections::BTreeSet;

use operator_core::{Registration, informer::Scope, manifests::Grant, rbac::Rule};

/// Maximum length of the name of a namespace.
const MAX_LENGTH: usize = 63;

/// Returns the scope of a list of namespaces. An empty list is the whole cluster.
///
/// # Errors
/// Returns an error if a name is invalid or listed twice, or if a controller needs cluster-wide
/// permissions.
pub(crate) fn scope(names: &[String], controllers: &[Registration]) -> Result<Scope, String> {
    if names.is_empty() {
        return Ok(Scope::Cluster);
    }
    let mut distinct = BTreeSet::new();
    for name in names {
        if !is_label(name) {
            return Err(format!(
                "`{name}` is not a valid namespace name: use 1 to {MAX_LENGTH} characters of a-z, 0-9, and -, \
                 starting and ending with a letter or digit"
            ));
        }
        if !distinct.insert(name.clone()) {
            return Err(format!("`{name}` is listed twice"));
        }
    }
    reject_cluster_wide(controllers)?;
    Ok(Scope::Namespaces(distinct))
}

/// Returns whether a name is a DNS label, as the name of a namespace must be.
fn is_label(name: &str) -> bool {
    let has_valid_characters =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    has_valid_characters
        && !name.is_empty()
        && name.len() <= MAX_LENGTH
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Returns an error if a controller needs permissions on cluster-scoped resources.
fn reject_cluster_wide(controllers: &[Registration]) -> Result<(), String> {
    let (cluster_wide, namespaced): (Vec<&Registration>, Vec<&Registration>) =
        controllers.iter().partition(|controller| !cluster_resources(controller).is_empty());
    if cluster_wide.is_empty() {
        return Ok(());
    }
    let reasons: Vec<_> = cluster_wide
        .iter()
        .map(|controller| format!("{} (for {})", controller.name, cluster_resources(controller).join(", ")))
        .collect();
    let namespaced: Vec<_> = namespaced.iter().map(|controller| controller.name).collect();
    let remedy = if namespaced.is_empty() {
        "run them without --watch-namespaces".to_owned()
    } else {
        format!("use --controllers={}", namespaced.join(","))
    };
    Err(format!("these controllers need cluster-wide permissions: {}; {remedy}", reasons.join(", ")))
}

/// Returns the cluster-scoped resources that a controller accesses.
fn cluster_resources(controller: &Registration) -> Vec<String> {
    let grant = Grant::of(controller);
    let rules = grant.rules().iter().filter(|rule| !rule.is_namespaced());
    let resources: BTreeSet<_> =
        rules.map(Rule::resource).filter(|resource| !resource.contains('/')).collect();
    resources.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    fn scope_of(names: &str, controllers: &[&str]) -> Result<Scope, String> {
        let names: Vec<_> = names.split(',').map(str::to_owned).collect();
        let controllers: Vec<_> =
            CONTROLLERS.iter().filter(|controller| controllers.contains(&controller.name)).copied().collect();
        scope(&names, &controllers)
    }

    #[test]
    fn empty_list_is_the_whole_cluster() {
        assert_eq!(scope(&[], CONTROLLERS), Ok(Scope::Cluster));
    }

    #[test]
    fn rejects_invalid_and_repeated_names() {
        let both = Scope::Namespaces(["a".to_owned(), "b-2".to_owned()].into());
        assert_eq!(scope_of("b-2,a", &["podset"]), Ok(both));
        let long = "a".repeat(MAX_LENGTH + 1);
        for bad in ["", "a,", "A", "a b", "a/b", "-a", "a-", "a.b", "*", "ä", &long] {
            let error = scope_of(bad, &["podset"]).unwrap_err();
            assert!(error.contains("is not a valid namespace name"), "{bad}: {error}");
        }
        assert_eq!(scope_of("a,b,a", &["podset"]), Err("`a` is listed twice".to_owned()));
    }

    #[test]
    fn rejects_controllers_with_cluster_wide_permissions() {
        let error = scope_of("a", &["memcached", "namespaceplus", "podset", "tenant"]).unwrap_err();
        assert!(error.contains("namespaceplus (for clusterroles.rbac.authorization.k8s.io"), "{error}");
        assert!(error.contains("tenant (for") && error.contains("namespaces"), "{error}");
        assert!(error.ends_with("use --controllers=memcached,podset"), "{error}");
        let error = scope_of("a", &["tenant"]).unwrap_err();
        assert!(error.ends_with("run them without --watch-namespaces"), "{error}");
    }
}
