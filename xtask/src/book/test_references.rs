//! Checks that the tests that pages name exist.

use std::{collections::HashSet, path::Path};

use anyhow::Result;
use pulldown_cmark::Event;

use super::{links::parse, page, page::Page};

/// Folders with tests and other functions.
const CODE: [&str; 3] = ["crates", "tests", "xtask"];
/// Pages of the metrics, whose names look like those of tests.
const METRICS: [&str; 3] =
    ["docs/reference/metrics.md", "docs/reference/postgres-metrics.md", "docs/reference/proxy-metrics.md"];

/// Returns the names in pages that are neither a function nor a metric, one line each.
///
/// # Errors
/// Returns an error if the code cannot be read.
pub(super) fn problems(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut known = HashSet::new();
    let mut files = Vec::new();
    for folder in CODE {
        files.extend(page::read(root, folder, "rs")?);
    }
    known.extend(files.iter().flat_map(|file| functions(&file.text)));
    let metrics = pages.iter().filter(|page| METRICS.iter().any(|known| page.path == Path::new(known)));
    known.extend(metrics.flat_map(|page| references(&page.text)));
    let unknown = |page: &Page| {
        let names = references(&page.text).filter(|name| !known.contains(name));
        names.map(|name| format!("{}: no test {name} exists", page.path.display())).collect::<Vec<_>>()
    };
    Ok(pages.iter().flat_map(unknown).collect())
}

/// Returns the names of the functions in source code.
fn functions(code: &str) -> impl Iterator<Item = String> {
    let after = code.split("fn ").skip(1);
    after.map(|rest| rest.chars().take_while(|c| is_name_char(*c)).collect())
}

/// Returns the test names in the code spans of a page, without the module.
///
/// A name with at least three underscores counts as a test name, or with two if it has a module.
fn references(page: &str) -> impl Iterator<Item = String> {
    parse(page).filter_map(|(event, _)| {
        let Event::Code(code) = event else { return None };
        let name = code.rsplit("::").next()?.to_owned();
        let is_test_name = name.chars().all(is_name_char)
            && name.matches('_').count() >= if code.contains("::") { 2 } else { 3 };
        is_test_name.then_some(name)
    })
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_test_names_and_functions() {
        let page = "`scaling::a_pod_is_replaced` and `kubectl a_b_c_d x`, `spec.replicas`, `all_of_it_holds`, `a::is_it_b`, `is_it_c`\n";
        assert_eq!(references(page).collect::<Vec<_>>(), ["a_pod_is_replaced", "all_of_it_holds", "is_it_b"]);
        let code = "async fn a_pod_is_replaced() {}\nfn other<T>() {}";
        assert_eq!(functions(code).collect::<Vec<_>>(), ["a_pod_is_replaced", "other"]);
    }

    #[test]
    fn reports_missing_test() {
        let root = tempfile::tempdir().unwrap();
        for folder in CODE {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("crates/a.rs"), "fn it_is_there_now() {}").unwrap();
        let text = "`it_is_there_now`, `it_is_not_there`".to_owned();
        let pages = [Page { path: "docs/a.md".into(), text }];
        assert_eq!(problems(root.path(), &pages).unwrap(), ["docs/a.md: no test it_is_not_there exists"]);
    }
}
