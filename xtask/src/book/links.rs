//! Links and headings of a Markdown page.

use std::{
    collections::BTreeSet,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// Link of the form `[text](target)`.
pub(super) struct Link<'a> {
    /// Position in the page in bytes.
    pub(super) range: Range<usize>,
    pub(super) text: &'a str,
    pub(super) target: &'a str,
}

/// Target of a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// File or folder of the repository, relative to its root, and a heading in it.
    File { path: PathBuf, heading: Option<&'a str> },
    /// Target outside of the repository.
    External,
}

impl<'a> Link<'a> {
    /// Returns the target of the link on the page with this path.
    pub(super) fn target(&self, page: &Path) -> Target<'a> {
        if self.target.contains("://") || self.target.starts_with("mailto:") {
            return Target::External;
        }
        let (path, heading) = match self.target.split_once('#') {
            Some((path, heading)) => (path, Some(heading)),
            None => (self.target, None),
        };
        let path = if path.is_empty() {
            page.to_owned()
        } else {
            normalize(&page.parent().map_or_else(|| path.into(), |folder| folder.join(path)))
        };
        Target::File { path, heading }
    }
}

/// Returns the links of a page in order, without those in code.
pub(super) fn links(page: &str) -> Vec<Link<'_>> {
    parse(page)
        .filter(|(event, _)| matches!(event, Event::Start(Tag::Link { link_type: LinkType::Inline, .. })))
        .filter_map(|(_, range)| {
            let (text, target) = page.get(range.clone())?.rsplit_once("](")?;
            let (text, target) = (text.strip_prefix('[')?, target.strip_suffix(')')?);
            Some(Link { range, text, target })
        })
        .collect()
}

/// Returns the anchors of the headings of a page. Repeated headings have a suffix such as `-1`.
pub(super) fn headings(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut heading: Option<String> = None;
    for (event, _) in parse(page) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), _) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let numbered = (1..).map(|number| format!("{name}-{number}"));
                let unique = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
                names.extend(unique);
            }
            _ => {}
        }
    }
    names
}

/// Parses a page into events with their positions in bytes.
pub(super) fn parse(page: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter()
}

/// Returns the anchor of a heading as GitHub and mdBook generate it.
fn anchor(heading: &str) -> String {
    let allowed = heading.trim().chars().filter(|c| c.is_alphanumeric() || ['_', '-', ' '].contains(c));
    allowed.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(link: &'static str) -> Target<'static> {
        Link { range: 0..0, text: "", target: link }.target(Path::new("docs/operations/install.md"))
    }

    fn file(path: &str, heading: Option<&'static str>) -> Target<'static> {
        Target::File { path: path.into(), heading }
    }

    #[test]
    fn links_excludes_code() {
        let page = "a [b `c`](d.md)\n\n| e |\n|---|\n| [f](g#h) |\n\n`[i](j)`\n\n```\n[k](l)\n```\n";
        let found: Vec<_> = links(page).iter().map(|link| (link.text, link.target)).collect();
        assert_eq!(found, [("b `c`", "d.md"), ("f", "g#h")]);
    }

    #[test]
    fn target_is_relative_to_root() {
        assert_eq!(target("../../deploy/./crds"), file("deploy/crds", None));
        assert_eq!(target("rbac.md#see"), file("docs/operations/rbac.md", Some("see")));
        assert_eq!(target("#the-image"), file("docs/operations/install.md", Some("the-image")));
        assert_eq!(target("https://example.com/#a"), Target::External);
    }

    #[test]
    fn headings_returns_anchors() {
        let page = "# What goes wrong?\n## `a_b` and c-d\n## Twice\n## Twice\n```\n# no\n```\n";
        let names: Vec<_> = headings(page).into_iter().collect();
        assert_eq!(names, ["a_b-and-c-d", "twice", "twice-1", "what-goes-wrong"]);
    }
}
