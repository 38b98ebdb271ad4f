//! Members that a person has fenced, as an annotation of the PostgresCluster lists them.

use std::{collections::BTreeSet, fmt};

/// Annotation of a PostgresCluster with the members to fence: their names, separated by commas, or
/// `*` for all of them.
pub const FENCE: &str = "lukeb0nd.com/fence";

/// Stands for all members.
const ALL: &str = "*";

/// Members whose PostgreSQL has to stop, and stays down until they are no longer listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence(BTreeSet<String>);

impl Fence {
    /// Reads the annotation. Without one, no member is fenced.
    pub fn parse(annotation: Option<&str>) -> Self {
        let names = annotation.unwrap_or_default().split(',').map(str::trim);
        Self(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Returns a fence of all members, also of those that are created later.
    pub fn all() -> Self {
        Self([ALL.to_owned()].into())
    }

    /// Returns the fence with these members added.
    #[must_use]
    pub fn with(mut self, fenced: &[String]) -> Self {
        self.0.extend(fenced.iter().cloned());
        self
    }

    /// Returns the fence without some of all members. A fence of all becomes one of the others.
    #[must_use]
    pub fn without(mut self, unfenced: &[String], members: &[String]) -> Self {
        if self.0.remove(ALL) {
            self.0.extend(members.iter().cloned());
        }
        self.0.retain(|name| !unfenced.contains(name));
        self
    }

    /// Returns whether no member is fenced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a member is fenced.
    pub fn contains(&self, member: &str) -> bool {
        self.0.contains(ALL) || self.0.contains(member)
    }

    /// Returns the names that are listed and are not those of these members.
    pub fn unknown(&self, members: &[String]) -> Vec<&str> {
        let is_unknown = |name: &&str| *name != ALL && !members.iter().any(|member| member == name);
        self.0.iter().map(String::as_str).filter(is_unknown).collect()
    }
}

/// Writes the annotation.
impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(String::as_str).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_members_are_fenced() {
        for (annotation, expected) in [
            (None, false),
            (Some(""), false),
            (Some("db-1"), true),
            (Some("db-2, db-1"), true),
            (Some(" * "), true),
            (Some("db-11"), false),
        ] {
            assert_eq!(Fence::parse(annotation).contains("db-1"), expected, "{annotation:?}");
        }
    }

    #[test]
    fn names_of_no_member_are_unknown() {
        let members = ["db-1".to_owned(), "db-2".to_owned()];
        assert_eq!(Fence::parse(Some("db-9,db-1,*,x")).unknown(&members), ["db-9", "x"]);
        assert_eq!(Fence::parse(Some("*")).unknown(&members), [""; 0]);
    }

    #[test]
    fn members_are_added_and_removed() {
        let members = ["db-1", "db-2", "db-3"].map(str::to_owned);
        for (annotation, unfenced, expected) in [
            ("db-1, db-2", "db-1", "db-2"),
            ("db-1", "db-1", ""),
            ("*", "db-2", "db-1,db-3"),
            ("db-9,db-1", "db-1", "db-9"),
        ] {
            let remaining = Fence::parse(Some(annotation)).without(&[unfenced.to_owned()], &members);
            assert_eq!(
                (remaining.to_string().as_str(), remaining.is_empty()),
                (expected, expected.is_empty())
            );
        }
        assert_eq!(Fence::parse(Some("db-2")).with(&members[..1]).to_string(), "db-1,db-2");
        assert_eq!(Fence::all().to_string(), "*");
    }
}
