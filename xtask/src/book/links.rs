//! What leads from one page to another. Pure.

use std::{
    collections::BTreeSet,
    ops::Range,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// A link, `[text](target)`.
pub(super) struct Link<'a> {
    /// Where all of it stands, in bytes.
    pub(super) range: Range<usize>,
    pub(super) text: &'a str,
    pub(super) target: &'a str,
}

/// What a link leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// A file or folder of the repository, by its path from the root, and a heading in it.
    File { path: PathBuf, heading: Option<&'a str> },
    /// A place outside of the repository.
    Elsewhere,
}

impl<'a> Link<'a> {
    /// What it leads to, on the page of this path.
    pub(super) fn target(&self, page: &Path) -> Target<'a> {
        if self.target.contains("://") || self.target.starts_with("mailto:") {
            return Target::Elsewhere;
        }
        let (path, heading) = match self.target.split_once('#') {
            Some((path, heading)) => (path, Some(heading)),
            None => (self.target, None),
        };
        let path = if path.is_empty() {
            page.to_owned()
        } else {
            normal(&page.parent().map_or_else(|| path.into(), |folder| folder.join(path)))
        };
        Target::File { path, heading }
    }
}

/// The links of a page, in its order. What stands in code is none.
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

/// The headings of a page, as links name them: a second one of the same name has `-1` behind it.
pub(super) fn headings(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut heading: Option<String> = None;
    for (event, _) in parse(page) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), _) => {
                let name = name_of(&heading.take().unwrap_or_default());
                let again = (1..).map(|number| format!("{name}-{number}"));
                let free = std::iter::once(name.clone()).chain(again).find(|name| !names.contains(name));
                names.extend(free);
            }
            _ => {}
        }
    }
    names
}

/// A page in its parts, each with where it stands, in bytes.
pub(super) fn parse(page: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter()
}

fn name_of(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || ['_', '-', ' '].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
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
    fn links_in_text_and_tables_are_found_and_those_in_code_are_not() {
        let page = "a [b `c`](d.md)\n\n| e |\n|---|\n| [f](g#h) |\n\n`[i](j)`\n\n```\n[k](l)\n```\n";
        let found: Vec<_> = links(page).iter().map(|link| (link.text, link.target)).collect();
        assert_eq!(found, [("b `c`", "d.md"), ("f", "g#h")]);
    }

    #[test]
    fn a_target_is_a_path_from_the_root() {
        assert_eq!(target("../../deploy/./crds"), file("deploy/crds", None));
        assert_eq!(target("rbac.md#see"), file("docs/operations/rbac.md", Some("see")));
        assert_eq!(target("#the-image"), file("docs/operations/install.md", Some("the-image")));
        assert_eq!(target("https://example.com/#a"), Target::Elsewhere);
    }

    #[test]
    fn headings_are_named_as_links_name_them() {
        let page = "# What goes wrong?\n## `a_b` and c-d\n## Twice\n## Twice\n```\n# no\n```\n";
        let names: Vec<_> = headings(page).into_iter().collect();
        assert_eq!(names, ["a_b-and-c-d", "twice", "twice-1", "what-goes-wrong"]);
    }
}
