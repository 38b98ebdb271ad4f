//! Members that a person has fenced, as an annotation of the PostgresCluster lists them.

use std::collections::BTreeSet;

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
}
