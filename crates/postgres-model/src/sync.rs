//! Synchronous replication: which standbys a commit waits for.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest `application_name` (`NAMEDATALEN` of PostgreSQL, minus one). A longer name is truncated,
/// so it would never match.
const MAX_NAME: usize = 63;

/// Which of the listed standbys a commit waits for.
///
/// `synchronous_standby_names` in the documentation of PostgreSQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SyncMethod {
    /// Any of the listed standbys: a quorum.
    #[default]
    Any,
    /// The first of the listed standbys that are connected: priorities.
    First,
}

impl SyncMethod {
    fn keyword(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::First => "FIRST",
        }
    }
}

/// A configuration of synchronous replication that may be in force on a primary.
///
/// With the number 0, commits wait for no standby: replication is asynchronous.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct SyncConfiguration {
    number: usize,
    members: Vec<String>,
}

/// A [`SyncConfiguration`] before its check.
#[derive(Serialize, Deserialize)]
struct Fields {
    number: usize,
    members: Vec<String>,
}

/// Error of a configuration that PostgreSQL would not apply as meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncConfigurationError {
    /// Commits would wait forever.
    #[error(
        "commits cannot wait for {number} of {members} standbys: admit more standbys first, or lower the number"
    )]
    TooFew {
        /// Number of standbys that a commit waits for.
        number: usize,
        /// Number of listed standbys.
        members: usize,
    },
    /// PostgreSQL would match another standby, or none.
    #[error(
        "\"{0}\" cannot be a synchronous standby: use a name of 1 to 63 printable ASCII letters other than *"
    )]
    Name(String),
    /// PostgreSQL ignores the case of names, and would count one standby twice.
    #[error("\"{0}\" is listed twice as a synchronous standby: keep one")]
    Duplicate(String),
}

impl SyncConfiguration {
    /// Returns a configuration in which a commit waits for `number` of `members`.
    ///
    /// The order of the members is their priority.
    ///
    /// # Errors
    /// Returns an error for a configuration that PostgreSQL would not apply as meant.
    pub fn new(number: usize, members: Vec<String>) -> Result<Self, SyncConfigurationError> {
        if let Some(name) = members.iter().find(|name| !is_name(name)) {
            return Err(SyncConfigurationError::Name(name.clone()));
        }
        let mut names = HashSet::new();
        if let Some(name) = members.iter().find(|name| !names.insert(name.to_ascii_lowercase())) {
            return Err(SyncConfigurationError::Duplicate(name.clone()));
        }
        if number > members.len() {
            return Err(SyncConfigurationError::TooFew { number, members: members.len() });
        }
        Ok(Self { number, members })
    }

    /// Returns how many standbys a commit waits for.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the names of the admitted standbys.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Returns the value of `synchronous_standby_names`. Empty if replication is asynchronous.
    ///
    /// Names are quoted, as `syncrep_scanner.l` reads them: a name with a hyphen or a leading digit
    /// is no identifier, and `any` and `first` are keywords.
    pub fn standby_names(&self, method: SyncMethod) -> String {
        if self.number == 0 {
            return String::new();
        }
        let names: Vec<_> = self.members.iter().map(|name| quoted(name)).collect();
        format!("{} {} ({})", method.keyword(), self.number, names.join(", "))
    }
}

impl TryFrom<Fields> for SyncConfiguration {
    type Error = SyncConfigurationError;

    fn try_from(fields: Fields) -> Result<Self, SyncConfigurationError> {
        Self::new(fields.number, fields.members)
    }
}

impl From<SyncConfiguration> for Fields {
    fn from(SyncConfiguration { number, members }: SyncConfiguration) -> Self {
        Self { number, members }
    }
}

/// Returns whether exactly the standby with this `application_name` matches a name.
///
/// A `*` matches every standby, even in quotes (`SyncRepGetStandbyPriority` of `syncrep.c`).
fn is_name(name: &str) -> bool {
    let is_printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_printable && (1..=MAX_NAME).contains(&name.len()) && name != "*"
}

/// Quotes a name. A quotation mark in it is doubled.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn configuration(number: usize, names: &[&str]) -> Result<SyncConfiguration, SyncConfigurationError> {
        SyncConfiguration::new(number, names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Reads quoted names, as the states of `syncrep_scanner.l` do.
    fn scan(list: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut letters = list.chars().peekable();
        while letters.next().is_some_and(|letter| letter == '"') {
            let mut name = String::new();
            while let Some(letter) = letters.next() {
                if letter == '"' && letters.next_if_eq(&'"').is_none() {
                    break;
                }
                name.push(letter);
            }
            names.push(name);
            while letters.next_if(|letter| matches!(letter, ',' | ' ')).is_some() {}
        }
        names
    }

    #[test]
    fn names_are_quoted() {
        let both = configuration(1, &["db-1", "first"]).unwrap();
        assert_eq!(both.standby_names(SyncMethod::Any), "ANY 1 (\"db-1\", \"first\")");
        assert_eq!(both.standby_names(SyncMethod::First), "FIRST 1 (\"db-1\", \"first\")");
        assert_eq!(configuration(1, &["a\"b"]).unwrap().standby_names(SyncMethod::Any), "ANY 1 (\"a\"\"b\")");
    }

    #[test]
    fn asynchronous_replication_waits_for_nobody() {
        assert_eq!(configuration(0, &["db-1"]).unwrap().standby_names(SyncMethod::Any), "");
        assert_eq!(SyncConfiguration::default().standby_names(SyncMethod::First), "");
    }

    #[test]
    fn configurations_that_mean_something_else_are_refused() {
        let too_few = SyncConfigurationError::TooFew { number: 2, members: 1 };
        assert_eq!(configuration(2, &["a"]), Err(too_few));
        assert_eq!(configuration(1, &["a", "A"]), Err(SyncConfigurationError::Duplicate("A".into())));
        for name in ["", "*", "é", "a\nb", &"a".repeat(64)] {
            assert_eq!(configuration(1, &[name]), Err(SyncConfigurationError::Name(name.into())));
        }
    }

    #[test]
    fn json_is_checked() {
        let configuration = configuration(1, &["a"]).unwrap();
        let json = r#"{"number":1,"members":["a"]}"#;
        assert_eq!(serde_json::to_string(&configuration).unwrap(), json);
        assert_eq!(serde_json::from_str::<SyncConfiguration>(json).unwrap(), configuration);
        assert!(serde_json::from_str::<SyncConfiguration>(r#"{"number":1,"members":[]}"#).is_err());
    }

    proptest! {
        #[test]
        fn quoted_names_scan_back(names in vec("[ -~]{1,5}", 1..6)) {
            if let Ok(configuration) = SyncConfiguration::new(1, names.clone()) {
                let value = configuration.standby_names(SyncMethod::Any);
                let list = value.strip_prefix("ANY 1 (").and_then(|rest| rest.strip_suffix(')')).unwrap();
                prop_assert_eq!(scan(list), names);
            }
        }

        #[test]
        fn any_names_are_accepted_or_refused(number in 0..9_usize, names in vec(any::<String>(), 0..5)) {
            let _ = SyncConfiguration::new(number, names);
        }
    }
}
