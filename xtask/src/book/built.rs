//! Whether the links of the book that was built lead somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::page;

/// Is shown under any address, so its links begin at one that is not known yet.
const NOT_FOUND: &str = "404.html";

/// The links of the book's pages that lead nowhere, a line for each.
///
/// # Errors
/// When the book cannot be read.
pub(super) fn problems(book: &Path) -> Result<Vec<String>> {
    let pages = pages(book)?;
    let mut problems = Vec::new();
    for (path, text) in &pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if !is_elsewhere(link) && !leads_somewhere(path, link, &pages) {
                problems.push(format!("{}: {link} leads nowhere", path.display()));
            }
        }
    }
    Ok(problems)
}

/// All pages by their paths.
fn pages(book: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let found = page::read(book, "", "html")?.into_iter().filter(|page| !page.path.ends_with(NOT_FOUND));
    found.map(|page| Ok((fs::canonicalize(book.join(page.path))?, page.text))).collect()
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:")
}

fn leads_somewhere(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() {
        Ok(page.to_owned())
    } else {
        fs::canonicalize(page.parent().unwrap_or(page).join(file))
    };
    // A folder is no page: whether somebody is shown its first one is up to whoever serves the book.
    let Some(path) = path.ok().filter(|path| path.is_file()) else { return false };
    let ids = || pages.get(&path).map(|text| attributes(text, "id").collect::<BTreeSet<_>>());
    heading.is_empty() || ids().is_some_and(|ids| ids.contains(heading))
}

/// The values of an attribute, in a page as mdBook writes it: between double quotes.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let opening = format!(" {name}=\"");
    let rest = text.split(&opening).skip(1).collect::<Vec<_>>();
    rest.into_iter().filter_map(|rest| Some(rest.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_folders_and_headings_that_are_not_there_are_told_of() {
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
        assert_eq!(
            links,
            ["folder/index.html#two leads nowhere", "folder leads nowhere", "README.html leads nowhere"]
        );
    }
}
