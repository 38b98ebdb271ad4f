//! Whether the tests that pages name as evidence are there.

use std::{collections::HashSet, path::Path};

use anyhow::Result;
use pulldown_cmark::Event;

use super::{links::parse, page, page::Page};

/// Where tests and other functions are.
const CODE: [&str; 3] = ["crates", "tests", "xtask"];
/// Where metrics are, whose names look alike.
const METRICS: &str = "docs/reference/metrics.md";

/// The sentences that pages name and that are neither a function nor a metric, a line for each.
///
/// # Errors
/// When the code cannot be read.
pub(super) fn problems(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut known = HashSet::new();
    let mut files = Vec::new();
    for folder in CODE {
        files.extend(page::read(root, folder, "rs")?);
    }
    known.extend(files.iter().flat_map(|file| functions(&file.text)));
    let metrics = pages.iter().filter(|page| page.path == Path::new(METRICS));
    known.extend(metrics.flat_map(|page| named(&page.text)));
    let unknown = |page: &Page| {
        let names = named(&page.text).filter(|name| !known.contains(name));
        names.map(|name| format!("{}: there is no test {name}", page.path.display())).collect::<Vec<_>>()
    };
    Ok(pages.iter().flat_map(unknown).collect())
}

/// The names of the functions in a program's text.
fn functions(code: &str) -> impl Iterator<Item = String> {
    let after = code.split("fn ").skip(1);
    after.map(|rest| rest.chars().take_while(|c| is_part(*c)).collect())
}

/// The sentences that a page names: code such as `module::each_word_is_joined`, without the module.
fn named(page: &str) -> impl Iterator<Item = String> {
    parse(page).filter_map(|(event, _)| {
        let Event::Code(code) = event else { return None };
        let name = code.rsplit("::").next()?.to_owned();
        let is_sentence = name.chars().all(is_part) && name.matches('_').count() >= 3;
        is_sentence.then_some(name)
    })
}

fn is_part(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_a_page_names_is_looked_for() {
        let page =
            "`scaling::a_pod_is_replaced` and `kubectl a_b_c_d x`, `spec.replicas`, `all_of_it_holds`\n";
        assert_eq!(named(page).collect::<Vec<_>>(), ["a_pod_is_replaced", "all_of_it_holds"]);
        let code = "async fn a_pod_is_replaced() {}\nfn other<T>() {}";
        assert_eq!(functions(code).collect::<Vec<_>>(), ["a_pod_is_replaced", "other"]);
    }

    #[test]
    fn a_test_that_is_not_there_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        for folder in CODE {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("crates/a.rs"), "fn it_is_there_now() {}").unwrap();
        let text = "`it_is_there_now`, `it_is_not_there`".to_owned();
        let pages = [Page { path: "docs/a.md".into(), text }];
        assert_eq!(problems(root.path(), &pages).unwrap(), ["docs/a.md: there is no test it_is_not_there"]);
    }
}
