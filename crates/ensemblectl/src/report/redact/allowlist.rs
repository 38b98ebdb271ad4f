//! Names whose values are kept.

use std::{collections::BTreeMap, sync::LazyLock};

use super::is_credential;

/// Environment variables without private values, in addition to those of the manager's flags.
const VARIABLES: [&str; 7] = [
    "RUST_LOG",
    "RUST_BACKTRACE",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// Annotations without private values.
const ANNOTATIONS: [&str; 14] = [
    "cert-manager.io/inject-ca-from",
    "controller.kubernetes.io/pod-deletion-cost",
    "deployment.kubernetes.io/revision",
    "ensemble.example.com/released",
    "ensemble.example.com/reminded",
    "ensemble.example.com/renewed-with",
    "ensemble.example.com/replaced-version",
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/restartedAt",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
    "mygroup.my.domain/adopt-by",
    "mygroup.my.domain/owner",
    "scheduler.alpha.kubernetes.io/node-selector",
];

/// Domains whose annotations are quantities, switches, and names of classes.
const ANNOTATION_DOMAINS: [&str; 2] = ["capsule.clastix.io", "quota.capsule.clastix.io"];

/// Flags with the address of another system, whose path can be a credential.
const ADDRESSES: [&str; 1] = ["otlp-endpoint"];

/// Programs and subcommands.
const ARGUMENTS: [&str; 8] =
    ["ensemble-manager", "/ensemble-manager", "cleanup", "sh", "/bin/sh", "bash", "/bin/bash", "sleep"];

/// Returns whether the value of an environment variable is kept.
pub(super) fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name) || MANAGER_FLAGS.values().any(|flag| flag.variable.as_deref() == Some(name))
}

/// Returns whether the value of an annotation is kept.
pub(super) fn is_annotation(key: &str) -> bool {
    ANNOTATIONS.contains(&key)
        || key.split_once('/').is_some_and(|(domain, _)| ANNOTATION_DOMAINS.contains(&domain))
}

/// Returns whether the value in `--flag=value` is kept.
pub(super) fn is_flag(flag: &str) -> bool {
    flag.strip_prefix("--").is_some_and(|name| MANAGER_FLAGS.contains_key(name))
}

/// Returns whether the argument after a flag is its value and is kept.
pub(super) fn takes_value(flag: &str) -> bool {
    let flag = flag.strip_prefix("--").and_then(|name| MANAGER_FLAGS.get(name));
    flag.is_some_and(|flag| flag.takes_value)
}

/// Returns whether an argument that is not a flag is kept.
pub(super) fn is_argument(argument: &str) -> bool {
    ARGUMENTS.contains(&argument)
}

/// Flag of the manager.
struct Flag {
    variable: Option<String>,
    takes_value: bool,
}

/// Flags of the manager without private values, by name.
static MANAGER_FLAGS: LazyLock<BTreeMap<String, Flag>> = LazyLock::new(|| {
    let command = manager::command();
    let flags = command.get_arguments().filter_map(|argument| {
        let name = argument.get_long()?;
        let variable = argument.get_env().and_then(|variable| variable.to_str()).map(ToOwned::to_owned);
        let is_private = ADDRESSES.contains(&name) || is_credential(name);
        let takes_value = argument.get_action().takes_values();
        (!is_private).then(|| (name.to_owned(), Flag { variable, takes_value }))
    });
    flags.collect()
});
