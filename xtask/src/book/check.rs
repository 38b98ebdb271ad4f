//! Checks that every page is in the summary, and that every link of a page resolves.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;

use super::{
    SUMMARY,
    links::{Target, headings, links},
    page::Page,
};

/// Returns the errors in the pages and in the links of the repository's README, one line each.
///
/// # Errors
/// Returns an error if the target page of a link cannot be read.
pub(super) fn problems(root: &Path, pages: &[Page]) -> Result<Vec<String>> {
    let mut problems = summary_problems(pages);
    let readme = Page::read(root, "README.md".into())?;
    for page in pages.iter().chain([&readme]) {
        dead_links(root, page, &mut problems)?;
    }
    Ok(problems)
}

/// Returns the pages that are not in the summary exactly once.
fn summary_problems(pages: &[Page]) -> Vec<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    let (summaries, pages): (Vec<_>, Vec<_>) = pages.iter().partition(|page| page.path == Path::new(SUMMARY));
    for summary in summaries {
        for link in links(&summary.text) {
            if let Target::File { path, .. } = link.target(&summary.path) {
                *counts.entry(path).or_default() += 1;
            }
        }
    }
    let times = |page: &Page| counts.get(&page.path).copied().unwrap_or_default();
    pages
        .iter()
        .filter(|page| times(page) != 1)
        .map(|page| format!("{}: in {SUMMARY} {} times, expected once", page.path.display(), times(page)))
        .collect()
}

/// Appends the links of a page whose file or heading does not exist.
fn dead_links(root: &Path, page: &Page, problems: &mut Vec<String>) -> Result<()> {
    for link in links(&page.text) {
        let Target::File { path, heading } = link.target(&page.path) else { continue };
        let line = page.text.get(..link.range.start).unwrap_or_default().matches('\n').count() + 1;
        let at = format!("{}, line {line}: {}", page.path.display(), link.target);
        let mut dead = |cause: &str| problems.push(format!("{at}: {cause}"));
        if !root.join(&path).exists() {
            dead("no such file");
        } else if let Some(heading) = heading
            && !headings(&Page::read(root, path)?.text).contains(heading)
        {
            dead("no such heading");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_pages_that_are_not_in_summary_once() {
        let page = |path: &str, text: &str| Page { path: path.into(), text: text.into() };
        let pages = [
            page("docs/SUMMARY.md", "- [A](a.md)\n- [B](b/README.md)\n- [B](b/README.md)\n"),
            page("docs/a.md", ""),
            page("docs/b/README.md", ""),
            page("docs/c.md", ""),
        ];
        assert_eq!(
            summary_problems(&pages),
            [
                "docs/b/README.md: in docs/SUMMARY.md 2 times, expected once",
                "docs/c.md: in docs/SUMMARY.md 0 times, expected once"
            ]
        );
    }

    #[test]
    fn reports_dead_links_with_line() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.md"), "# One\n").unwrap();
        let text = "# Two\n\n[a](a.md#one) [b](b.md)\n[c](a.md#three)\n".to_owned();
        let mut problems = Vec::new();
        dead_links(root.path(), &Page { path: "two.md".into(), text }, &mut problems).unwrap();
        assert_eq!(
            problems,
            ["two.md, line 3: b.md: no such file", "two.md, line 4: a.md#three: no such heading"]
        );
    }
}
