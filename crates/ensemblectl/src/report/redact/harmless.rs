//! Names whose values may be shown.

use std::{collections::BTreeMap, sync::LazyLock};

use super::is_credential;

/// Environment variables of any container that tell nothing private. Those of the manager's flags come besides.
const VARIABLES: [&str; 7] = [
    "RUST_LOG",
    "RUST_BACKTRACE",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// Annotations that tell nothing private.
const ANNOTATIONS: [&str; 12] = [
    "cert-manager.io/inject-ca-from",
    "controller.kubernetes.io/pod-deletion-cost",
    "deployment.kubernetes.io/revision",
    "ensemble.example.com/released",
    "ensemble.example.com/reminded",
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/restartedAt",
    "meta.helm.sh/release-name",
    "meta.helm.sh/release-namespace",
    "mygroup.my.domain/adopt-by",
    "mygroup.my.domain/owner",
    "scheduler.alpha.kubernetes.io/node-selector",
];

/// Domains with annotations that are quantities, switches and names of classes.
const ANNOTATION_DOMAINS: [&str; 2] = ["capsule.clastix.io", "quota.capsule.clastix.io"];

/// Flags whose value is the address of another system, where a path may be a secret.
const ADDRESSES: [&str; 1] = ["otlp-endpoint"];

/// Programs and subcommands without arguments of their own.
const WORDS: [&str; 8] =
    ["ensemble-manager", "/ensemble-manager", "release", "sh", "/bin/sh", "bash", "/bin/bash", "sleep"];

/// Whether the value of an environment variable may be shown.
pub(super) fn is_variable(name: &str) -> bool {
    VARIABLES.contains(&name) || OF_MANAGER.values().any(|flag| flag.variable.as_deref() == Some(name))
}

/// Whether the value of an annotation may be shown.
pub(super) fn is_annotation(key: &str) -> bool {
    ANNOTATIONS.contains(&key)
        || key.split_once('/').is_some_and(|(domain, _)| ANNOTATION_DOMAINS.contains(&domain))
}

/// Whether the value of a flag, `--flag=value`, may be shown.
pub(super) fn is_flag(flag: &str) -> bool {
    flag.strip_prefix("--").is_some_and(|name| OF_MANAGER.contains_key(name))
}

/// Whether the argument behind a flag is its value, and may be shown.
pub(super) fn takes_value(flag: &str) -> bool {
    let flag = flag.strip_prefix("--").and_then(|name| OF_MANAGER.get(name));
    flag.is_some_and(|flag| flag.takes_value)
}

/// Whether an argument may be shown that is no flag.
pub(super) fn is_word(word: &str) -> bool {
    WORDS.contains(&word)
}

/// A flag of the manager.
struct Flag {
    variable: Option<String>,
    takes_value: bool,
}

/// The flags of the manager, by name.
static OF_MANAGER: LazyLock<BTreeMap<String, Flag>> = LazyLock::new(|| {
    let command = manager::command();
    let shown = command.get_arguments().filter_map(|argument| {
        let name = argument.get_long()?;
        let variable = argument.get_env().and_then(|variable| variable.to_str()).map(ToOwned::to_owned);
        let is_private = ADDRESSES.contains(&name) || is_credential(name);
        let takes_value = argument.get_action().takes_values();
        (!is_private).then(|| (name.to_owned(), Flag { variable, takes_value }))
    });
    shown.collect()
});
