//! `--watch-namespaces`: which namespaces there are for the manager.

use std::collections::BTreeSet;

use operator_core::{
    Registration,
    informer::Scope,
    rbac::{Grant, Rule},
};

/// The longest name of a namespace.
const LONGEST: usize = 63;

/// The scope that a list of namespaces means; the whole cluster without one.
///
/// # Errors
/// A sentence that says which name is no namespace's, or stands there twice, or which controllers cannot do with
/// namespaces and what to write instead.
pub(crate) fn scope(names: &[String], controllers: &[Registration]) -> Result<Scope, String> {
    if names.is_empty() {
        return Ok(Scope::Cluster);
    }
    let mut distinct = BTreeSet::new();
    for name in names {
        if !is_label(name) {
            return Err(format!(
                "`{name}` is no namespace's name: use 1 to {LONGEST} of a-z, 0-9 and -, beginning and ending with \
                 a letter or digit"
            ));
        }
        if !distinct.insert(name.clone()) {
            return Err(format!("`{name}` stands there twice"));
        }
    }
    refuse_cluster_wide(controllers)?;
    Ok(Scope::Namespaces(distinct))
}

/// Whether a text is a DNS label, which a namespace's name is.
fn is_label(name: &str) -> bool {
    let inner = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    inner && !name.is_empty() && name.len() <= LONGEST && !name.starts_with('-') && !name.ends_with('-')
}

fn refuse_cluster_wide(controllers: &[Registration]) -> Result<(), String> {
    let (wide, fit): (Vec<&Registration>, Vec<&Registration>) =
        controllers.iter().partition(|controller| !cluster_wide(controller).is_empty());
    if wide.is_empty() {
        return Ok(());
    }
    let reasons: Vec<_> = wide
        .iter()
        .map(|controller| format!("{} (for {})", controller.name, cluster_wide(controller).join(", ")))
        .collect();
    let fit: Vec<_> = fit.iter().map(|controller| controller.name).collect();
    let advice = if fit.is_empty() {
        "run them without --watch-namespaces".to_owned()
    } else {
        format!("write --controllers={}", fit.join(","))
    };
    Err(format!("these controllers need rights on the whole cluster: {}; {advice}", reasons.join(", ")))
}

/// What a controller has to do with that lives in no namespace.
fn cluster_wide(controller: &Registration) -> Vec<String> {
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

    fn of(names: &str, controllers: &[&str]) -> Result<Scope, String> {
        let names: Vec<_> = names.split(',').map(str::to_owned).collect();
        let controllers: Vec<_> =
            CONTROLLERS.iter().filter(|controller| controllers.contains(&controller.name)).copied().collect();
        scope(&names, &controllers)
    }

    #[test]
    fn without_names_it_is_the_whole_cluster() {
        assert_eq!(scope(&[], CONTROLLERS), Ok(Scope::Cluster));
    }

    #[test]
    fn names_of_namespaces_are_taken_and_others_refused() {
        let both = Scope::Namespaces(["a".to_owned(), "b-2".to_owned()].into());
        assert_eq!(of("b-2,a", &["podset"]), Ok(both));
        let long = "a".repeat(LONGEST + 1);
        for bad in ["", "a,", "A", "a b", "a/b", "-a", "a-", "a.b", "*", "ä", &long] {
            let error = of(bad, &["podset"]).unwrap_err();
            assert!(error.contains("is no namespace's name"), "{bad}: {error}");
        }
        assert_eq!(of("a,b,a", &["podset"]), Err("`a` stands there twice".to_owned()));
    }

    #[test]
    fn controllers_that_need_the_cluster_are_refused_with_what_to_write() {
        let error = of("a", &["memcached", "namespaceplus", "podset", "tenant"]).unwrap_err();
        assert!(error.contains("namespaceplus (for clusterroles.rbac.authorization.k8s.io"), "{error}");
        assert!(error.contains("tenant (for") && error.contains("namespaces"), "{error}");
        assert!(error.ends_with("write --controllers=memcached,podset"), "{error}");
        let error = of("a", &["tenant"]).unwrap_err();
        assert!(error.ends_with("run them without --watch-namespaces"), "{error}");
    }
}
