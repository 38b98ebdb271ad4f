//! What a handler is asked.

use std::fmt;

use k8s_openapi::{api::authentication::v1::UserInfo, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is to be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is to be made.
    Create,
    /// It is to be changed.
    Update,
    /// It is to be deleted.
    Delete,
    /// A connection to it is to be opened: exec, proxy and the like.
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

/// A request to the API server that is to be admitted or not.
///
/// `old` is there for updates and deletes, `new` for all but deletes.
#[derive(Clone, Debug)]
pub struct Request<O> {
    /// What is to be done.
    pub operation: Operation,
    /// The object's name; empty for a create that leaves it to the API server to make one up.
    pub name: String,
    /// The object's namespace. For a Namespace, its own name.
    pub namespace: Option<String>,
    /// The subresource, if it is not about the object itself.
    pub subresource: Option<String>,
    /// The plural of the kind, as the API server was asked.
    pub resource: String,
    /// The object's group; empty for the core group.
    pub group: String,
    /// Who asks, as the API server has authenticated them.
    pub user: UserInfo,
    /// Whether nothing will be stored, whatever the answer.
    pub dry_run: bool,
    /// The object as it is.
    pub old: Option<O>,
    /// The object as it is to become.
    pub new: Option<O>,
    /// The options of the operation, `CreateOptions` for example; null if there are none.
    pub options: Value,
}

impl<O> Request<O> {
    /// Who asks, by name; empty for nobody in particular.
    pub fn user_name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// The states of the object that the request involves, the newer one last.
    pub fn states(&self) -> impl Iterator<Item = &O> {
        self.old.iter().chain(self.new.iter())
    }
}

/// What a handler sees of objects of any kind: what all of them have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}
