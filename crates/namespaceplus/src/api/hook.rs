//! Calls to other systems when something happens to the namespace.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A call to another system.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.on) != has(self.__true__)")
    .message("say with on: [Created, Ready, Deleted] upon which events the hook is called, and say it once"))]
pub struct Hook {
    /// The name by which the status speaks of the hook.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The events upon which it is called, once for each. An event that happened before the hook was declared counts
    /// too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub on: Vec<HookEvent>,
    /// The same as on: kubectl reads a bare on as the word true, as YAML 1.1 has it.
    #[serde(default, rename = "true", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub bare_on: Vec<HookEvent>,
    /// Where the call goes. Redirects are not followed, and of the answer only the status is looked at: 200 to 299
    /// means that the call was taken.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHost() != ''")
        .message("a hook's url begins with https:// (or http://, if the manager allows that host)"))]
    pub url: String,
    /// The HTTP method.
    #[serde(default)]
    pub method: HookMethod,
    /// A Secret beside the NamespacePlus; each of its entries becomes a header of the call. The manager has no right
    /// to read it until an administrator gives it, in this namespace alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
    /// The body of the call. {{event}}, {{hook}}, {{id}}, {{namespace}}, {{owner.namespace}}, {{owner.name}} and
    /// {{owner.uid}} in it stand for those. Without it the body tells of the event as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub body_template: Option<String>,
    /// How long to wait for the answer, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 30))]
    pub timeout_seconds: i32,
}

impl Hook {
    /// Whether it is called upon the event.
    pub fn listens_to(&self, event: HookEvent) -> bool {
        self.on.contains(&event) || self.bare_on.contains(&event)
    }
}

fn default_timeout() -> i32 {
    10
}

/// What can happen to the namespace.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// It was made, or an administrator handed it over.
    Created,
    /// All that was declared is in place, for the first time.
    Ready,
    /// It is gone, or was released.
    Deleted,
}

impl HookEvent {
    /// The event as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Ready => "Ready",
            Self::Deleted => "Deleted",
        }
    }
}

/// The HTTP method of a hook.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum HookMethod {
    /// POST
    #[default]
    #[serde(rename = "POST")]
    Post,
    /// PUT
    #[serde(rename = "PUT")]
    Put,
    /// PATCH
    #[serde(rename = "PATCH")]
    Patch,
    /// GET
    #[serde(rename = "GET")]
    Get,
    /// DELETE
    #[serde(rename = "DELETE")]
    Delete,
}

/// Names a Secret in the namespace of the NamespacePlus.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
