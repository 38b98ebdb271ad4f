//! `--controllers`: the controllers to run.

use operator_core::Registration;

/// Returns the selected controllers, in the order of the table.
///
/// The selectors are those of kube-controller-manager: `name` enables a controller, `-name` disables
/// it, and `*` enables all. The companions of a controller are enabled and disabled with it, unless
/// they are selected by name.
///
/// # Errors
/// Returns an error if a name is unknown, or if no controller is selected.
pub fn select(table: &[Registration], selectors: &[String]) -> Result<Vec<Registration>, String> {
    let names: Vec<_> = table.iter().map(|controller| controller.name).collect();
    let choices = || format!("use {}, or * for all", names.join(", "));
    for selector in selectors {
        let name = selector.strip_prefix('-').unwrap_or(selector);
        if selector != "*" && !names.contains(&name) {
            return Err(format!("unknown controller `{name}`; {}", choices()));
        }
    }
    let has = |selector: &str| selectors.iter().any(|other| other == selector);
    let is_disabled = |name: &str| has(&format!("-{name}"));
    let is_companion = |name: &str| table.iter().any(|controller| controller.companions.contains(&name));
    let is_enabled = |name: &str| has(name) || (has("*") && !is_companion(name));
    let enabled: Vec<_> = table
        .iter()
        .filter(|controller| is_enabled(controller.name) && !is_disabled(controller.name))
        .collect();
    let is_enabled_companion =
        |name: &str| enabled.iter().any(|controller| controller.companions.contains(&name));
    let is_selected = |name: &str| !is_disabled(name) && (is_enabled(name) || is_enabled_companion(name));
    let selected: Vec<_> = table.iter().filter(|controller| is_selected(controller.name)).copied().collect();
    if selected.is_empty() {
        return Err(format!("no controller is selected; {}", choices()));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    /// Returns a table of four controllers, so that the tests do not depend on later ones.
    fn table() -> Vec<Registration> {
        let four = ["memcached", "namespaceplus", "podset", "tenant"];
        CONTROLLERS.iter().filter(|controller| four.contains(&controller.name)).copied().collect()
    }

    fn selected(selectors: &str) -> Result<Vec<&'static str>, String> {
        let selectors: Vec<_> = selectors.split(',').map(str::to_owned).collect();
        Ok(select(&table(), &selectors)?.iter().map(|controller| controller.name).collect())
    }

    #[test]
    fn names_and_stars_and_exceptions_are_understood() {
        assert_eq!(selected("tenant,podset").unwrap(), ["podset", "tenant"]);
        assert_eq!(selected("*").unwrap().len(), 4);
        assert_eq!(selected("*,-tenant").unwrap(), ["memcached", "namespaceplus", "podset"]);
        assert_eq!(selected("podset,podset").unwrap(), ["podset"]);
    }

    #[test]
    fn companion_follows_its_controller_unless_selected_by_name() {
        let table = [
            Registration { name: "helper", ..table()[0] },
            Registration { name: "other", ..table()[0] },
            Registration { name: "main", companions: &["helper"], ..table()[0] },
        ];
        let selected = |selectors: &str| {
            let selectors: Vec<_> = selectors.split(',').map(str::to_owned).collect();
            let selected = select(&table, &selectors).unwrap();
            selected.iter().map(|controller| controller.name).collect::<Vec<_>>()
        };
        assert_eq!(selected("*"), ["helper", "other", "main"]);
        assert_eq!(selected("main"), ["helper", "main"]);
        assert_eq!(selected("main,-helper"), ["main"]);
        assert_eq!(selected("*,-main"), ["other"]);
        assert_eq!(selected("*,-main,helper"), ["helper", "other"]);
        assert_eq!(selected("helper"), ["helper"]);
        assert_eq!(selected("*,-helper"), ["other", "main"]);
    }

    #[test]
    fn rejects_unknown_names() {
        let error = selected("podset,podsets").unwrap_err();
        assert_eq!(
            error,
            "unknown controller `podsets`; use memcached, namespaceplus, podset, tenant, or * for all"
        );
        assert!(selected("*,-nothing").is_err());
        assert!(selected("").is_err());
    }

    #[test]
    fn rejects_empty_selection() {
        assert!(selected("-podset").unwrap_err().starts_with("no controller is selected"));
    }

    #[test]
    fn names_of_controllers_are_unique() {
        let mut names: Vec<_> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CONTROLLERS.len());
    }
}
