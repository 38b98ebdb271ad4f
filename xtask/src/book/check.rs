//! Whether every page is in the book, and every link of a page leads somewhere.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;

use super::{
    SUMMARY,
    links::{Target, headings, links},
    page::Page,
};

/// What is wrong with the pages of the book, and the links of the repository's own first page, a line for each.
///
/// # Errors
/// When a page that a link leads to cannot be read.
pub(super) fn problems(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut problems = order(pages);
    let first = Page::read(root, "README.md".into())?;
    for page in pages.iter().chain([&first]) {
        dead_links(root, page, &mut problems)?;
    }
    Ok(problems)
}

/// Pages that are not in the summary exactly once.
fn order(pages: &[Page]) -> Vec<String> {
    let mut named = BTreeMap::<_, usize>::new();
    let (summaries, pages): (Vec<_>, Vec<_>) = pages.iter().partition(|page| page.path == Path::new(SUMMARY));
    for summary in summaries {
        for link in links(&summary.text) {
            if let Target::File { path, .. } = link.target(&summary.path) {
                *named.entry(path).or_default() += 1;
            }
        }
    }
    let times = |page: &Page| named.get(&page.path).copied().unwrap_or_default();
    pages
        .iter()
        .filter(|page| times(page) != 1)
        .map(|page| format!("{}: {SUMMARY} names it {} times, not once", page.path.display(), times(page)))
        .collect()
}

fn dead_links(root: &Path, page: &Page, problems: &mut Vec<String>) -> Result<()> {
    for link in links(&page.text) {
        let Target::File { path, heading } = link.target(&page.path) else { continue };
        let line = page.text.get(..link.range.start).unwrap_or_default().matches('\n').count() + 1;
        let at = format!("{}, line {line}: {}", page.path.display(), link.target);
        let mut dead = |why: &str| problems.push(format!("{at}: {why}"));
        if !root.join(&path).exists() {
            dead("there is no such file");
        } else if let Some(heading) = heading
            && !headings(&Page::read(root, path)?.text).contains(heading)
        {
            dead("there is no such heading");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_missing_from_the_book_or_in_it_twice_are_told_of() {
        let page = |path: &str, text: &str| Page { path: path.into(), text: text.into() };
        let pages = [
            page("docs/SUMMARY.md", "- [A](a.md)\n- [B](b/README.md)\n- [B](b/README.md)\n"),
            page("docs/a.md", ""),
            page("docs/b/README.md", ""),
            page("docs/c.md", ""),
        ];
        assert_eq!(
            order(&pages),
            [
                "docs/b/README.md: docs/SUMMARY.md names it 2 times, not once",
                "docs/c.md: docs/SUMMARY.md names it 0 times, not once"
            ]
        );
    }

    #[test]
    fn dead_links_are_told_of_with_their_line() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.md"), "# One\n").unwrap();
        let text = "# Two\n\n[a](a.md#one) [b](b.md)\n[c](a.md#three)\n".to_owned();
        let mut problems = Vec::new();
        dead_links(root.path(), &Page { path: "two.md".into(), text }, &mut problems).unwrap();
        assert_eq!(
            problems,
            [
                "two.md, line 3: b.md: there is no such file",
                "two.md, line 4: a.md#three: there is no such heading"
            ]
        );
    }
}
