//! Fields whose shape has changed over time. A schema cannot describe a choice of two shapes, so
//! the conversion rejects other values.

use serde::{Deserialize, Serialize};

use crate::api::v1beta2::{AllowedList, OwnerKind};

/// Owner of a Tenant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Owner {
    /// Name of a user, the original shape.
    Name(String),
    /// Kind and name.
    Full(OwnerSpec),
}

/// Kind and name of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerSpec {
    /// Kind of the owner.
    pub kind: OwnerKind,
    /// Name after authentication. Empty if the Tenant has no owner.
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

/// Allowed classes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Classes {
    /// Names, the original shape.
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
