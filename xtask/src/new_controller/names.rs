//! Validated names of a new controller.

use anyhow::{Result, ensure};

/// Maximum length of a kind, which is part of labels and, with a suffix, of namespace names.
const MAX_KIND_LENGTH: usize = 40;

/// Names that a crate cannot have: keywords, crates of Rust, and the test target of the new crate.
const RESERVED: [&str; 57] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue", "core",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
    "let", "loop", "macro", "main", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "std", "struct", "super", "test", "trait", "true", "try", "type", "typeof",
    "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names of a new controller and its kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) short_name: Option<String>,
    /// Name of the crate and of the controller.
    pub(super) name: String,
}

impl Names {
    /// Validates the names by the rules of Kubernetes and Rust.
    ///
    /// # Errors
    /// Returns an error that describes valid names.
    pub(super) fn new(
        group: &str,
        version: &str,
        kind: &str,
        plural: Option<&str>,
        short_name: Option<&str>,
    ) -> Result<Self> {
        check_group(group)?;
        ensure!(
            is_version(version),
            "invalid --version {version}: use a version such as v1, v1alpha1, or v1beta1"
        );
        check_kind(kind)?;
        let name = kind.to_lowercase();
        ensure!(
            !RESERVED.contains(&name.as_str()),
            "invalid --kind {kind}: a Rust crate cannot be named {name}; choose another kind"
        );
        let plural = plural.map_or_else(|| plural_of(&name), str::to_owned);
        for (flag, value) in [("--plural", Some(plural.as_str())), ("--short-name", short_name)] {
            ensure!(
                value
                    .is_none_or(|value| is_label(value)
                        && value.starts_with(|first: char| first.is_ascii_lowercase())),
                "invalid {flag} {}: use at most 63 lower case letters, digits, and '-', starting with a letter and \
                 not ending with '-'",
                value.unwrap_or_default()
            );
        }
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural,
            short_name: short_name.map(str::to_owned),
            name,
        })
    }

    /// Returns whether a lock file contains a crate of this name, which would be ambiguous for
    /// cargo.
    pub(super) fn is_locked(&self, lock: &str) -> bool {
        let line = format!("name = \"{}\"", self.name);
        lock.lines().any(|locked| locked == line)
    }

    /// Returns the path of the generated CustomResourceDefinition.
    pub(super) fn definition(&self) -> String {
        format!("deploy/crds/{}.{}.yaml", self.plural, self.group)
    }
}

fn check_group(group: &str) -> Result<()> {
    ensure!(
        group.len() <= 180 && group.contains('.') && group.split('.').all(is_label),
        "invalid --group {group}: use a domain name in lower case with a dot, such as app.example.com"
    );
    let is_reserved = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|owned| group == *owned || group.strip_suffix(owned).is_some_and(|rest| rest.ends_with('.')));
    ensure!(
        !is_reserved,
        "invalid --group {group}: k8s.io and kubernetes.io are reserved for Kubernetes; use a domain of yours"
    );
    Ok(())
}

fn check_kind(kind: &str) -> Result<()> {
    ensure!(
        kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric())
            && kind.len() <= MAX_KIND_LENGTH,
        "invalid --kind {kind}: use CamelCase with at most {MAX_KIND_LENGTH} ASCII letters and digits, such as WebServer"
    );
    Ok(())
}

/// Returns whether a text is a DNS label.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns whether a text is `v<number>`, optionally followed by `alpha<number>` or `beta<number>`.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v').filter(|rest| rest.len() < 20) else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// Returns the regular English plural.
fn plural_of(name: &str) -> String {
    let has_sibilant = ["s", "x", "z", "ch", "sh"].iter().any(|end| name.ends_with(end));
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if has_sibilant => format!("{name}es"),
        _ => format!("{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(group: &str, version: &str, kind: &str, plural: Option<&str>) -> String {
        Names::new(group, version, kind, plural, None).unwrap_err().to_string()
    }

    #[test]
    fn derives_crate_and_plural_from_kind() {
        for (kind, plural) in [
            ("Greeting", "greetings"),
            ("Proxy", "proxies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Mesh", "meshes"),
            ("Box2", "box2s"),
        ] {
            let names = Names::new("example.com", "v1", kind, None, None).unwrap();
            assert_eq!((names.name, names.plural.as_str()), (kind.to_lowercase(), plural));
        }
        let names = Names::new("example.com", "v1beta2", "Sheep", Some("sheep"), Some("shp")).unwrap();
        assert_eq!(names.definition(), "deploy/crds/sheep.example.com.yaml");
    }

    #[test]
    fn rejects_invalid_or_reserved_group() {
        for group in ["example", "Example.com", "example..com", "-a.com", "a-.com", "a_b.com", "", "."] {
            assert!(
                error(group, "v1", "Greeting", None).contains("use a domain name in lower case"),
                "{group}"
            );
        }
        for group in ["k8s.io", "apps.k8s.io", "x.kubernetes.io"] {
            assert!(error(group, "v1", "Greeting", None).contains("reserved for Kubernetes"), "{group}");
        }
        assert!(Names::new("notk8s.io", "v1", "Greeting", None, None).is_ok());
    }

    #[test]
    fn rejects_version_that_kubernetes_cannot_order() {
        for version in ["1", "v", "v1.2", "v1gamma1", "v1alpha", "valpha1", "v1alpha1beta1", "V1", "v-1"] {
            assert!(
                error("example.com", version, "Greeting", None).contains("use a version such as v1"),
                "{version}"
            );
        }
        for version in ["v1", "v12", "v1alpha1", "v2beta13"] {
            assert!(Names::new("example.com", version, "Greeting", None, None).is_ok(), "{version}");
        }
    }

    #[test]
    fn rejects_kind_that_is_not_camel_case_or_reserved_by_rust() {
        for kind in ["", "greeting", "Greet-ing", "Gruß", "2Greetings", &"A".repeat(41)] {
            assert!(error("example.com", "v1", kind, None).contains("use CamelCase"), "{kind}");
        }
        for kind in ["Match", "Type", "Core", "Main"] {
            assert!(
                error("example.com", "v1", kind, None).contains("a Rust crate cannot be named"),
                "{kind}"
            );
        }
    }

    #[test]
    fn rejects_plural_or_short_name_that_is_not_a_label() {
        for plural in ["", "Greetings", "greet ings", "1greetings", "greetings-"] {
            assert!(
                error("example.com", "v1", "Greeting", Some(plural)).starts_with("invalid --plural"),
                "{plural}"
            );
        }
        let error = Names::new("example.com", "v1", "Greeting", None, Some("g.r")).unwrap_err();
        assert!(error.to_string().starts_with("invalid --short-name g.r: use at most 63"));
    }

    #[test]
    fn finds_crate_in_lock_file() {
        let lock =
            "[[package]]\nname = \"podset\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"bytes-utils\"\n";
        let is_locked = |kind| Names::new("example.com", "v1", kind, None, None).unwrap().is_locked(lock);
        assert!(is_locked("PodSet"));
        assert!(!is_locked("Bytes"));
    }
}
