//! `docs/reference`: pages that are made from the code.

mod constraints;
mod flags;
mod kinds;
mod metrics;

use anyhow::Result;

use crate::{
    crds,
    generate::{Generated, document, settle, settle_among},
};

/// Writes `docs/reference`, but for the page on rights, or checks it.
pub(crate) fn generate(check: bool) -> Result<()> {
    let definitions: Vec<_> = crds::definitions().iter().map(document).collect::<Result<_>>()?;
    settle("docs/reference/kinds", &kinds::pages(&definitions), "gen-docs", check)?;
    let page = |name: &str, text| Generated { name: name.to_owned(), text };
    let pages = [page("flags.md", flags::page()), page("metrics.md", metrics::page())];
    settle_among("docs/reference", &pages, "gen-docs", check)
}

/// A text as it may stand in a cell of a table: in one line, and taken as it is, but for code between backticks.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let words = |part: &str| part.replace('<', "&lt;").replace('*', "\\*");
    let parts = line.split('`').enumerate();
    let parts: Vec<_> =
        parts.map(|(number, part)| if number % 2 == 0 { words(part) } else { part.to_owned() }).collect();
    parts.join("`")
}

/// A text of a program's language in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_cell_or_be_read_as_markup_is_taken_as_it_is() {
        assert_eq!(cell("a | b\n  <c> *"), "a \\| b &lt;c> \\*");
        assert_eq!(cell("`*` for all <a>, `<b>|`"), "`*` for all &lt;a>, `<b>\\|`");
        assert_eq!(code("a|b"), "`a\\|b`");
    }
}
