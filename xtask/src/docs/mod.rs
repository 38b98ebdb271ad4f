//! `docs/reference`: pages that are generated from the code.

mod constraints;
mod flags;
mod kinds;
mod metrics;
mod postgres_metrics;
mod reasons;

use anyhow::Result;
use local_manager::crds::definitions;

use crate::generate::{Generated, document, sync_files, sync_folder};

/// Writes `docs/reference`, or checks it. `gen-rbac` writes the page of permissions.
pub(crate) fn generate(check: bool) -> Result<()> {
    let definitions: Vec<_> = definitions().iter().map(document).collect::<Result<_>>()?;
    sync_folder("docs/reference/kinds", &kinds::pages(&definitions), "gen-docs", check)?;
    let page = |name: &str, text| Generated { name: name.to_owned(), text };
    let pages = [
        page("flags.md", flags::page()),
        page("metrics.md", metrics::page()),
        page("postgres-metrics.md", postgres_metrics::page()),
        page("proxy-metrics.md", metrics::proxy_page()),
        page("reasons.md", reasons::page()),
    ];
    sync_files("docs/reference", &pages, "gen-docs", check)
}

/// Returns a text for a table cell: on one line, with markup escaped outside of backticks.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let escape = |part: &str| part.replace('<', "&lt;").replace('*', "\\*");
    let parts = line.split('`').enumerate();
    let parts: Vec<_> =
        parts.map(|(index, part)| if index % 2 == 0 { escape(part) } else { part.to_owned() }).collect();
    parts.join("`")
}

/// Returns code for a table cell.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_escapes_markup_outside_of_code() {
        assert_eq!(cell("a | b\n  <c> *"), "a \\| b &lt;c> \\*");
        assert_eq!(cell("`*` for all <a>, `<b>|`"), "`*` for all &lt;a>, `<b>\\|`");
        assert_eq!(code("a|b"), "`a\\|b`");
    }
}
