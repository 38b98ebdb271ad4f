//! `optional/hook-secrets.yaml`: the right to read the Secrets that hooks of a `NamespacePlus` name, for one namespace.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use operator_core::rbac::{GET, Grant, rule};

use super::in_namespace;
use crate::generate::Generated;

const PART: &str = "hook-secrets";

pub(super) fn file() -> Result<Generated> {
    in_namespace(PART, &Grant::new(PART, vec![rule::<Secret>(GET)]), None)
}
