//! Errors of single items.

use kube::{Error, core::Status};
use operator_core::error::{chain, status};

use crate::{access::AccessError, item::ObjectId};

/// Longest message of an item in bytes. The status contains one for each item.
const MAX_MESSAGE: usize = 300;

/// Reason why an item could not be applied or pruned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ItemError {
    /// The object is out of reach.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No replication has created the object.
    #[error(
        "{0} exists and cannot be adopted; set spec.settings.adopt, delete the object, or choose another name"
    )]
    NotAdoptable(ObjectId),
    /// The Tenant controller manages the object.
    #[error("{0} exists and cannot be adopted: the Tenant controller manages it; choose another name")]
    ManagedByTenant(ObjectId),
    /// The object is being deleted.
    #[error("{0} is being deleted; it is created again when it is gone")]
    Deleting(ObjectId),
    /// Another program created the object at the same time.
    #[error("{0} was created by another program at the same time; it is compared again soon")]
    Raced(ObjectId),
    /// A request failed.
    #[error("cannot {action} {object}: {message}")]
    Request {
        /// Operation that was attempted.
        action: &'static str,
        /// The object.
        object: ObjectId,
        /// Message of the API server, with the remedy if there is one.
        message: String,
    },
}

impl ItemError {
    /// Returns the error of a request.
    pub(crate) fn request(action: &'static str, object: &ObjectId, error: &Error) -> Self {
        let mut message = match status(error) {
            // The API server can quote the values of invalid fields.
            Some(status) if object.kind == "Secret" && status.is_invalid() => fields(status),
            _ => chain(error),
        };
        if action == "apply" && status(error).is_some_and(Status::is_conflict) {
            message.push_str("; set spec.settings.force to take the fields over");
        }
        Self::Request { action, object: object.clone(), message }
    }

    /// Returns the message for the status.
    pub(crate) fn message(&self) -> String {
        let mut message = self.to_string();
        if let Self::Access(error) = self {
            message = chain(error);
        }
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message
    }
}

/// Returns the fields that a response names, without their values.
fn fields(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: Vec<_> = causes.map(|cause| format!("{} ({})", cause.field, cause.reason)).collect();
    format!("the API server rejects the fields: {}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn response(value: serde_json::Value) -> Error {
        Error::Api(Box::new(serde_json::from_value(value).unwrap()))
    }

    fn id(kind: &str) -> ObjectId {
        ObjectId { group: String::new(), kind: kind.into(), namespace: "oil".into(), name: "a".into() }
    }

    #[test]
    fn messages_about_secrets_name_fields_without_values() {
        let error = response(json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": "data: Invalid value: \"hunter2\"",
            "details": { "causes": [{ "field": "data[x]", "reason": "FieldValueInvalid", "message": "hunter2" }] },
        }));
        let message = ItemError::request("apply", &id("Secret"), &error).message();
        assert!(message.contains("Secret oil/a") && message.contains("data[x]"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        assert!(ItemError::request("apply", &id("ConfigMap"), &error).message().contains("hunter2"));
    }

    #[test]
    fn conflicts_name_the_remedy_and_long_messages_are_cut() {
        let conflict =
            json!({ "status": "Failure", "code": 409, "reason": "Conflict", "message": "conflict with x" });
        let message = ItemError::request("apply", &id("ConfigMap"), &response(conflict)).message();
        assert!(message.contains("conflict with x; set spec.settings.force"), "{message}");
        let long =
            json!({ "status": "Failure", "code": 403, "reason": "Forbidden", "message": "ü".repeat(1000) });
        assert!(
            ItemError::request("delete", &id("ConfigMap"), &response(long)).message().len() <= MAX_MESSAGE
        );
    }
}
