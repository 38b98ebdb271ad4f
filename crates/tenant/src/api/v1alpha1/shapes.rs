//! Fields that had another shape at first. The schema cannot describe either of two shapes, so what is neither is
//! refused when it is converted.

use serde::{Deserialize, Serialize};

use crate::api::v1beta2::{AllowedList, OwnerKind};

/// The owner of a Tenant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Owner {
    /// The name of a user, as it was written at first.
    Name(String),
    /// Kind and name.
    Full(OwnerSpec),
}

/// Kind and name of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerSpec {
    /// What the name is the name of.
    pub kind: OwnerKind,
    /// The name as the API server knows it after authentication; empty for nobody.
    pub name: String,
}

impl Default for Owner {
    fn default() -> Self {
        Self::Full(OwnerSpec::default())
    }
}

impl From<Owner> for OwnerSpec {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Name(name) => Self { kind: OwnerKind::User, name },
            Owner::Full(owner) => owner,
        }
    }
}

/// Classes that are allowed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Classes {
    /// Their names, as they were written at first.
    Names(Vec<String>),
    /// Names and a pattern.
    List(AllowedList),
}

impl From<Classes> for AllowedList {
    fn from(classes: Classes) -> Self {
        match classes {
            Classes::Names(allowed) => Self { allowed, allowed_regex: None },
            Classes::List(list) => list,
        }
    }
}
