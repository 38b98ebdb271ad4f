//! Hooks: HTTP calls to other systems on events of the namespace.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A hook is an HTTP call to another system.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.on) != has(self.__true__)")
    .message("on must list the events that trigger the hook: [Created, Ready, Deleted], and must be set exactly once"))]
pub struct Hook {
    /// name identifies the hook in the status.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// on lists the events that trigger the hook. It is called once for each event, even if the
    /// event happened before the hook was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub on: Vec<HookEvent>,
    /// true is the same as on: kubectl reads an unquoted on as the boolean true, as in YAML 1.1.
    #[serde(default, rename = "true", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub bare_on: Vec<HookEvent>,
    /// url is the target of the call. Redirects are not followed. A response with a status from 200
    /// to 299 is a success. The rest of the response is ignored.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHost() != ''")
        .message("a hook's url must begin with https:// (or http://, if the manager allows that host)"))]
    pub url: String,
    /// method is the HTTP method.
    #[serde(default)]
    pub method: HookMethod,
    /// headersSecretRef refers to a Secret in the namespace of the NamespacePlus. Each entry
    /// becomes a header of the call. An administrator must grant the manager permission to read
    /// Secrets in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_secret_ref: Option<SecretRef>,
    /// bodyTemplate is the body of the call, with the placeholders {{event}}, {{hook}}, {{id}},
    /// {{namespace}}, {{owner.namespace}}, {{owner.name}} and {{owner.uid}}. If unset, the body
    /// describes the event as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub body_template: Option<String>,
    /// timeoutSeconds is the time to wait for the response, in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 30))]
    pub timeout_seconds: i32,
}

impl Hook {
    /// Returns whether the event triggers the hook.
    pub fn subscribes_to(&self, event: HookEvent) -> bool {
        self.on.contains(&event) || self.bare_on.contains(&event)
    }
}

fn default_timeout() -> i32 {
    10
}

/// An event of the namespace.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// The namespace was created or adopted.
    Created,
    /// The namespace and all objects in it are ready for the first time.
    Ready,
    /// The namespace was deleted or released.
    Deleted,
}

impl HookEvent {
    /// Returns the name of the event in the API.
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

/// A reference to a Secret in the namespace of the NamespacePlus.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// name is the name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
