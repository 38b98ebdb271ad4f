//! `optional/hook-secrets.yaml`: permission to read the Secrets of hooks in one namespace.

use anyhow::Result;
use k8s_openapi::api::core::v1::Secret;
use operator_core::{
    manifests::Grant,
    rbac::{GET, rule},
};

use super::in_namespace;
use crate::generate::Generated;

const PART: &str = "hook-secrets";

pub(super) fn file() -> Result<Generated> {
    in_namespace(PART, &Grant::new(PART, vec![rule::<Secret>(GET)]), None)
}
