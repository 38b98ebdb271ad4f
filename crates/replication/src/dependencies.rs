//! `spec.dependsOn`: which dependency must be Ready first. Pure.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use operator_core::conditions::{READY, is_true};

/// What a dependency is known to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DependencyState {
    /// Names of its own dependencies.
    pub(crate) depends_on: Vec<String>,
    /// Whether it is Ready for its current spec.
    pub(crate) is_ready: bool,
}

/// Reason why a reconcile has to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DependencyError {
    /// The dependency does not exist.
    #[error("the dependency {0} does not exist; create it, or remove it from spec.dependsOn")]
    Missing(String),
    /// The dependency is not Ready.
    #[error("the dependency {0} is not ready; see its condition Ready")]
    NotReady(String),
    /// The object depends on itself, so it would wait forever.
    #[error("spec.dependsOn forms a cycle: {0}; remove one of its links")]
    Cycle(String),
}

/// Checks the dependencies of an object. `find` returns the state of the object with a name.
///
/// # Errors
/// Returns the first dependency that is not Ready, or a cycle.
pub(crate) fn check(
    name: &str,
    depends_on: &[String],
    find: impl Fn(&str) -> Option<DependencyState>,
) -> Result<(), DependencyError> {
    if let Some(cycle) = cycle(name, depends_on, &find) {
        return Err(DependencyError::Cycle(cycle.join(" -> ")));
    }
    for dependency in depends_on {
        match find(dependency) {
            None => return Err(DependencyError::Missing(dependency.clone())),
            Some(state) if !state.is_ready => return Err(DependencyError::NotReady(dependency.clone())),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns the names of a cycle that contains the object.
fn cycle(
    name: &str,
    depends_on: &[String],
    find: impl Fn(&str) -> Option<DependencyState>,
) -> Option<Vec<String>> {
    let mut visited = BTreeSet::new();
    let mut paths: Vec<_> = depends_on.iter().map(|next| vec![name.to_owned(), next.clone()]).collect();
    while let Some(path) = paths.pop() {
        let Some(last) = path.last().cloned() else { continue };
        if last == name {
            return Some(path);
        }
        if visited.insert(last.clone()) {
            let next = find(&last).map(|state| state.depends_on).unwrap_or_default();
            paths.extend(next.into_iter().map(|next| path.iter().cloned().chain([next]).collect()));
        }
    }
    None
}

/// Returns whether an object is Ready for this generation of its spec.
pub(crate) fn is_ready(conditions: &[Condition], observed: Option<i64>, generation: Option<i64>) -> bool {
    observed == generation && is_true(conditions, READY)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(depends_on: &[&str], is_ready: bool) -> DependencyState {
        DependencyState { depends_on: depends_on.iter().map(|name| (*name).to_owned()).collect(), is_ready }
    }

    fn check_in(
        edges: &[(&str, DependencyState)],
        name: &str,
        depends_on: &[&str],
    ) -> Result<(), DependencyError> {
        let depends_on = state(depends_on, false).depends_on;
        check(name, &depends_on, |name| {
            edges.iter().find(|(other, _)| *other == name).map(|(_, state)| state.clone())
        })
    }

    #[test]
    fn names_the_dependency_that_is_missing_or_not_ready() {
        let edges = [("a", state(&[], true)), ("b", state(&["a"], false))];
        assert_eq!(check_in(&edges, "x", &[]), Ok(()));
        assert_eq!(check_in(&edges, "x", &["a"]), Ok(()));
        assert_eq!(check_in(&edges, "x", &["a", "b"]), Err(DependencyError::NotReady("b".to_owned())));
        assert_eq!(check_in(&edges, "x", &["c"]), Err(DependencyError::Missing("c".to_owned())));
    }

    #[test]
    fn reports_cycles() {
        let error =
            |edges: &[_], name, depends_on: &[_]| check_in(edges, name, depends_on).unwrap_err().to_string();
        assert!(error(&[], "x", &["x"]).contains("x -> x"));
        let edges = [("a", state(&["b"], true)), ("b", state(&["x"], true))];
        assert!(error(&edges, "x", &["a"]).contains("x -> a -> b -> x"));
        let elsewhere = [("a", state(&["b"], true)), ("b", state(&["a"], true))];
        assert_eq!(check_in(&elsewhere, "x", &["a"]), Ok(()), "a cycle of others is theirs");
    }

    proptest! {
        #[test]
        fn ends_for_any_graph(edges in prop::collection::vec(prop::collection::vec(0_usize..6, 0..6), 6)) {
            let names = |list: &[usize]| list.iter().map(usize::to_string).collect::<Vec<_>>();
            let result = check("0", &names(&edges[0]), |name| {
                let number: usize = name.parse().unwrap();
                Some(DependencyState { depends_on: names(&edges[number]), is_ready: true })
            });
            let mut reached = BTreeSet::new();
            let mut queue = edges[0].clone();
            while let Some(next) = queue.pop() {
                if reached.insert(next) {
                    queue.extend(&edges[next]);
                }
            }
            prop_assert_eq!(result.is_err(), reached.contains(&0));
        }
    }
}
