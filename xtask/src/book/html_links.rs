//! Checks the links of the built book.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::page;

/// Page that is served under any path, so its relative links cannot be checked.
const NOT_FOUND: &str = "404.html";

/// Returns the dead links of the book, one line each.
///
/// # Errors
/// Returns an error if the book cannot be read.
pub(super) fn problems(book: &Path) -> Result<Vec<String>> {
    let pages = pages(book)?;
    let mut problems = Vec::new();
    for (path, text) in &pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if !is_external(link) && !resolves(path, link, &pages) {
                problems.push(format!("{}: dead link {link}", path.display()));
            }
        }
    }
    Ok(problems)
}

/// Returns all pages by path.
fn pages(book: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let found = page::read(book, "", "html")?.into_iter().filter(|page| !page.path.ends_with(NOT_FOUND));
    found.map(|page| Ok((fs::canonicalize(book.join(page.path))?, page.text))).collect()
}

fn is_external(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:")
}

/// Returns whether the file and the heading of a link exist.
fn resolves(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() {
        Ok(page.to_owned())
    } else {
        fs::canonicalize(page.parent().unwrap_or(page).join(file))
    };
    // A link to a folder is dead: not every web server serves its index.
    let Some(path) = path.ok().filter(|path| path.is_file()) else { return false };
    let ids = || pages.get(&path).map(|text| attributes(text, "id").collect::<BTreeSet<_>>());
    heading.is_empty() || ids().is_some_and(|ids| ids.contains(heading))
}

/// Returns the values of an attribute, which mdBook writes in double quotes.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {name}=\"");
    let rest = text.split(&opening).skip(1).collect::<Vec<_>>();
    rest.into_iter().filter_map(|rest| Some(rest.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_links_to_folders_and_missing_pages_or_headings() {
        let book = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(book.path().join(name), text).unwrap();
        fs::create_dir(book.path().join("folder")).unwrap();
        write("folder/index.html", r#"<h1 id="one"></h1>"#);
        write("404.html", r#"<a href="anything">"#);
        write(
            "index.html",
            r##"<a href="folder/index.html#one"><a href="https://example.com"><a id="here" href="#here">
               <a href="folder/index.html#two"><a href="folder"><a href="README.html">"##,
        );
        let problems = problems(book.path()).unwrap();
        let links: Vec<_> =
            problems.iter().filter_map(|line| line.rsplit_once(": ")).map(|(_, link)| link).collect();
        assert_eq!(links, ["dead link folder/index.html#two", "dead link folder", "dead link README.html"]);
    }
}
