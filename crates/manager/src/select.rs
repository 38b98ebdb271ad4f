//! Which controllers to run.

use operator_core::Registration;

/// The controllers that a list names, in the table's order: names, `*` for all, and `-name` to take one out, as
/// kube-controller-manager understands it. The companions of a controller come and go with it, unless a name says
/// otherwise.
///
/// # Errors
/// A sentence that names what is unknown and what is known, or says that nothing is left.
pub fn select(table: &[Registration], wanted: &[String]) -> Result<Vec<Registration>, String> {
    let known: Vec<_> = table.iter().map(|controller| controller.name).collect();
    for word in wanted {
        let name = word.strip_prefix('-').unwrap_or(word);
        if word != "*" && !known.contains(&name) {
            return Err(format!(
                "there is no controller `{name}`; known are {}, and * for all",
                known.join(", ")
            ));
        }
    }
    let has = |word: &str| wanted.iter().any(|wanted| wanted == word);
    let out = |name: &str| has(&format!("-{name}"));
    let is_companion = |name: &str| table.iter().any(|controller| controller.companions.contains(&name));
    let is_wanted = |name: &str| has(name) || (has("*") && !is_companion(name));
    let leaders: Vec<_> = table.iter().filter(|leader| is_wanted(leader.name) && !out(leader.name)).collect();
    let comes_along = |name: &str| leaders.iter().any(|leader| leader.companions.contains(&name));
    let is_selected = |name: &str| !out(name) && (is_wanted(name) || comes_along(name));
    let selected: Vec<_> = table.iter().filter(|controller| is_selected(controller.name)).copied().collect();
    if selected.is_empty() {
        return Err(format!("no controller is left to run; known are {}, and * for all", known.join(", ")));
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    /// A table of four, whatever other controllers there are.
    fn table() -> Vec<Registration> {
        let four = ["memcached", "namespaceplus", "podset", "tenant"];
        CONTROLLERS.iter().filter(|controller| four.contains(&controller.name)).copied().collect()
    }

    fn selected(wanted: &str) -> Result<Vec<&'static str>, String> {
        let wanted: Vec<_> = wanted.split(',').map(str::to_owned).collect();
        Ok(select(&table(), &wanted)?.iter().map(|controller| controller.name).collect())
    }

    #[test]
    fn names_and_stars_and_exceptions_are_understood() {
        assert_eq!(selected("tenant,podset").unwrap(), ["podset", "tenant"]);
        assert_eq!(selected("*").unwrap().len(), 4);
        assert_eq!(selected("*,-tenant").unwrap(), ["memcached", "namespaceplus", "podset"]);
        assert_eq!(selected("podset,podset").unwrap(), ["podset"]);
    }

    #[test]
    fn a_companion_comes_and_goes_with_its_controller_unless_it_is_named() {
        let table = [
            Registration { name: "helper", ..table()[0] },
            Registration { name: "other", ..table()[0] },
            Registration { name: "main", companions: &["helper"], ..table()[0] },
        ];
        let selected = |wanted: &str| {
            let wanted: Vec<_> = wanted.split(',').map(str::to_owned).collect();
            let selected = select(&table, &wanted).unwrap();
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
    fn what_is_unknown_is_refused_with_what_is_known() {
        let error = selected("podset,podsets").unwrap_err();
        assert_eq!(
            error,
            "there is no controller `podsets`; known are memcached, namespaceplus, podset, tenant, and * for all"
        );
        assert!(selected("*,-nothing").is_err());
        assert!(selected("").is_err());
    }

    #[test]
    fn running_nothing_is_refused() {
        assert!(selected("-podset").unwrap_err().starts_with("no controller is left"));
    }

    #[test]
    fn every_controller_has_a_name_of_its_own() {
        let mut names: Vec<_> = CONTROLLERS.iter().map(|controller| controller.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CONTROLLERS.len());
    }
}
