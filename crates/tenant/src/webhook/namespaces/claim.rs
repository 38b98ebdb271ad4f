//! What a namespace says of whose it is. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::membership::{label, references};

/// The label and the owner references by which a namespace names Tenants. Whether it is right in that is another
/// question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim<'m> {
    pub(super) label: Option<&'m str>,
    pub(super) references: Vec<&'m OwnerReference>,
}

impl<'m> Claim<'m> {
    pub(super) fn of(metadata: &'m ObjectMeta) -> Self {
        Self { label: label(metadata), references: references(metadata).collect() }
    }

    /// Whether the namespace names no Tenant.
    pub(super) fn is_none(&self) -> bool {
        self.label.is_none() && self.references.is_empty()
    }
}
