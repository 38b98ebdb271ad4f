//! The names of a new controller, checked. Pure.

use anyhow::{Result, ensure};

/// The longest kind: its name stands in labels and, with a suffix, in the names of namespaces.
const LONGEST_KIND: usize = 40;

/// Names that a crate cannot have: Rust's words, its own crates, and the test program of the new crate.
const RESERVED: [&str; 57] = [
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue", "core",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
    "let", "loop", "macro", "main", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "std", "struct", "super", "test", "trait", "true", "try", "type", "typeof",
    "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The names of a new controller and of what it looks after.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) short_name: Option<String>,
    /// Of the crate and of the controller.
    pub(super) name: String,
}

impl Names {
    /// The names, if they are such as Kubernetes and Rust allow.
    ///
    /// # Errors
    /// A sentence that says what is allowed.
    pub(super) fn checked(
        group: &str,
        version: &str,
        kind: &str,
        plural: Option<&str>,
        short_name: Option<&str>,
    ) -> Result<Self> {
        check_group(group)?;
        ensure!(
            is_version(version),
            "--version {version}: a version is v1, or v1alpha1 or v1beta1 with other numbers"
        );
        check_kind(kind)?;
        let name = kind.to_lowercase();
        ensure!(
            !RESERVED.contains(&name.as_str()),
            "--kind {kind}: a Rust crate cannot be called {name}; choose another kind"
        );
        let plural = plural.map_or_else(|| plural_of(&name), str::to_owned);
        for (flag, word) in [("--plural", Some(plural.as_str())), ("--short-name", short_name)] {
            ensure!(
                word.is_none_or(
                    |word| is_label(word) && word.starts_with(|first: char| first.is_ascii_lowercase())
                ),
                "{flag} {}: use lower case letters, digits and '-', with a letter first and no '-' last, 63 at most",
                word.unwrap_or_default()
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

    /// Whether a lock file has a crate of this name; two of one name cannot be told apart on cargo's command line.
    pub(super) fn is_locked(&self, lock: &str) -> bool {
        let line = format!("name = \"{}\"", self.name);
        lock.lines().any(|locked| locked == line)
    }

    /// Where the definition is generated to.
    pub(super) fn definition(&self) -> String {
        format!("deploy/crds/{}.{}.yaml", self.plural, self.group)
    }
}

fn check_group(group: &str) -> Result<()> {
    ensure!(
        group.len() <= 180 && group.contains('.') && group.split('.').all(is_label),
        "--group {group}: a group is a domain name in lower case with a dot in it, such as app.example.com"
    );
    let is_kubernetes = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|owned| group == *owned || group.strip_suffix(owned).is_some_and(|rest| rest.ends_with('.')));
    ensure!(
        !is_kubernetes,
        "--group {group}: groups below k8s.io and kubernetes.io are Kubernetes' own; use a domain of yours"
    );
    Ok(())
}

fn check_kind(kind: &str) -> Result<()> {
    ensure!(
        kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric())
            && kind.len() <= LONGEST_KIND,
        "--kind {kind}: a kind is in CamelCase, ASCII letters and digits, at most {LONGEST_KIND} of them: WebServer"
    );
    Ok(())
}

/// Whether it is a label of a domain name.
fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether it is `v<number>`, or that with `alpha<number>` or `beta<number>` behind.
fn is_version(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v').filter(|rest| rest.len() < 20) else { return false };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// The plural by the simple rules of English.
fn plural_of(name: &str) -> String {
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| name.ends_with(end));
    match name.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if hisses => format!("{name}es"),
        _ => format!("{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(group: &str, version: &str, kind: &str, plural: Option<&str>) -> String {
        Names::checked(group, version, kind, plural, None).unwrap_err().to_string()
    }

    #[test]
    fn crate_and_plural_follow_from_the_kind() {
        for (kind, plural) in [
            ("Greeting", "greetings"),
            ("Proxy", "proxies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Mesh", "meshes"),
            ("Box2", "box2s"),
        ] {
            let names = Names::checked("example.com", "v1", kind, None, None).unwrap();
            assert_eq!((names.name, names.plural.as_str()), (kind.to_lowercase(), plural));
        }
        let names = Names::checked("example.com", "v1beta2", "Sheep", Some("sheep"), Some("shp")).unwrap();
        assert_eq!(names.definition(), "deploy/crds/sheep.example.com.yaml");
    }

    #[test]
    fn a_group_is_a_domain_of_ones_own() {
        for group in ["example", "Example.com", "example..com", "-a.com", "a-.com", "a_b.com", "", "."] {
            assert!(
                refusal(group, "v1", "Greeting", None).contains("a domain name in lower case"),
                "{group}"
            );
        }
        for group in ["k8s.io", "apps.k8s.io", "x.kubernetes.io"] {
            assert!(refusal(group, "v1", "Greeting", None).contains("Kubernetes' own"), "{group}");
        }
        assert!(Names::checked("notk8s.io", "v1", "Greeting", None, None).is_ok());
    }

    #[test]
    fn a_version_is_one_that_kubernetes_can_order() {
        for version in ["1", "v", "v1.2", "v1gamma1", "v1alpha", "valpha1", "v1alpha1beta1", "V1", "v-1"] {
            assert!(
                refusal("example.com", version, "Greeting", None).contains("a version is v1"),
                "{version}"
            );
        }
        for version in ["v1", "v12", "v1alpha1", "v2beta13"] {
            assert!(Names::checked("example.com", version, "Greeting", None, None).is_ok(), "{version}");
        }
    }

    #[test]
    fn a_kind_is_a_name_for_rust_too() {
        for kind in ["", "greeting", "Greet-ing", "Gruß", "2Greetings", &"A".repeat(41)] {
            assert!(refusal("example.com", "v1", kind, None).contains("a kind is in CamelCase"), "{kind}");
        }
        for kind in ["Match", "Type", "Core", "Main"] {
            assert!(
                refusal("example.com", "v1", kind, None).contains("a Rust crate cannot be called"),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_plural_is_a_label() {
        for plural in ["", "Greetings", "greet ings", "1greetings", "greetings-"] {
            assert!(
                refusal("example.com", "v1", "Greeting", Some(plural)).starts_with("--plural"),
                "{plural}"
            );
        }
        let refused = Names::checked("example.com", "v1", "Greeting", None, Some("g.r")).unwrap_err();
        assert!(refused.to_string().starts_with("--short-name g.r: use lower case letters"));
    }

    #[test]
    fn a_crate_that_is_there_is_found_in_the_lock_file() {
        let lock =
            "[[package]]\nname = \"podset\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"bytes-utils\"\n";
        let is_locked = |kind| Names::checked("example.com", "v1", kind, None, None).unwrap().is_locked(lock);
        assert!(is_locked("PodSet"));
        assert!(!is_locked("Bytes"));
    }
}
