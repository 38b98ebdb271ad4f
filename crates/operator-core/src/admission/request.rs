//! The request that a handler reviews.

use std::fmt;

use k8s_openapi::{api::authentication::v1::UserInfo, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The object is deleted.
    Delete,
    /// A connection to the object is opened, such as exec or proxy.
    Connect,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        })
    }
}

/// A request to the API server that a webhook reviews.
///
/// `old` exists for updates and deletes, `new` for all operations except deletes.
#[derive(Clone, Debug)]
pub struct Request<O> {
    /// Operation of the request.
    pub operation: Operation,
    /// Name of the object. Empty for a create with `generateName`.
    pub name: String,
    /// Namespace of the object. For a Namespace, its own name.
    pub namespace: Option<String>,
    /// Subresource of the request, if it has one.
    pub subresource: Option<String>,
    /// Plural of the requested kind.
    pub resource: String,
    /// Group of the requested kind. Empty for the core group.
    pub group: String,
    /// User of the request, as the API server authenticated them.
    pub user: UserInfo,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The existing object.
    pub old: Option<O>,
    /// The new object.
    pub new: Option<O>,
    /// Options of the operation, such as `CreateOptions`. Null if there are none.
    pub options: Value,
}

impl<O> Request<O> {
    /// Returns the user name. Empty if there is none.
    pub fn user_name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// Returns the old and the new object, as far as they exist.
    pub fn states(&self) -> impl Iterator<Item = &O> {
        self.old.iter().chain(self.new.iter())
    }
}

/// The common fields of objects of any kind.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Group and version of the object.
    #[serde(default)]
    pub api_version: String,
    /// Kind of the object.
    #[serde(default)]
    pub kind: String,
    /// Metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
}
