//! Each kind's page names all of its fields, condition types, and reasons, and only existing tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use kube::CustomResourceExt;
use memcached::Memcached;
use namespaceplus::NamespacePlus;
use operator_core::conditions::{READY, reasons::CATALOG};
use podset::PodSet;
use postgres::PostgresCluster;
use serde_json::Value;

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

fn text(page: &str) -> String {
    fs::read_to_string(path(&format!("docs/controllers/{page}.md"))).unwrap()
}

fn undocumented_fields<K: CustomResourceExt>(page: &str) -> Vec<String> {
    let text = text(page);
    let crd = serde_json::to_value(K::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let fields = |part: &'static str| {
        let fields = schema[part]["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
        fields.map(move |field| format!("`{part}.{field}`")).collect::<Vec<_>>()
    };
    let all = [fields("spec"), fields("status")].concat();
    assert!(all.len() > 3, "{}", Value::from(all));
    all.into_iter().filter(|field| !text.contains(field)).collect()
}

#[test]
fn pages_name_every_field() {
    let none = Vec::<String>::new();
    assert_eq!(undocumented_fields::<PodSet>("podset"), none);
    assert_eq!(undocumented_fields::<Memcached>("memcached"), none);
    assert_eq!(undocumented_fields::<NamespacePlus>("namespaceplus"), none);
    assert_eq!(undocumented_fields::<PostgresCluster>("postgres"), none);
}

#[test]
fn podset_page_names_existing_tests() {
    let text = text("podset");
    let named: Vec<_> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.rsplit_once("::")).collect();
    assert!(named.len() > 30, "{named:?}");
    for (module, test) in named {
        let file = format!("{}.rs", module.split("::").next().unwrap_or(module));
        let folders = ["crates/podset/src", "crates/podset/tests/main", "tests/e2e/tests/main"];
        let files = folders.map(|folder| path(folder).join(&file));
        let sources = files.iter().filter_map(|file| fs::read_to_string(file).ok());
        assert!(
            sources.into_iter().any(|source| source.contains(&format!("fn {test}()"))),
            "{module}::{test}"
        );
    }
}

#[test]
fn namespaceplus_page_names_existing_tests() {
    let text = text("namespaceplus");
    let quoted = text.split('`').skip(1).step_by(2).filter_map(|code| code.rsplit("::").next());
    let named: Vec<_> = quoted.filter(|code| code.matches('_').count() > 2 && !code.contains('.')).collect();
    assert!(named.len() > 15, "{named:?}");
    let folders = ["crates/namespaceplus/tests/main", "tests/e2e/tests/main", "tests/operations/tests/main"];
    let sources = folders.map(|folder| code(&path(folder), &[])).concat();
    let absent = named.into_iter().filter(|test| !sources.contains(&format!("fn {test}()")));
    assert_eq!(absent.collect::<Vec<_>>(), [""; 0]);
}

/// Files with the condition types and with the reasons of a kind.
const DECLARATIONS: [&str; 2] = ["condition_types.rs", "reasons.rs"];

/// Returns the names of a kind's condition types, and of the shared reasons it imports.
fn constants(kind: &str) -> BTreeSet<String> {
    let [types, reasons] =
        DECLARATIONS.map(|file| fs::read_to_string(path(&format!("crates/{kind}/src/{file}"))).unwrap());
    let imported = reasons.split_once("reasons::{").unwrap().1.split_once('}').unwrap().0;
    let imported = imported.split(',').map(str::trim).filter(|name| !name.is_empty());
    let types = types.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    types.chain(imported).map(str::to_owned).collect()
}

/// Returns a constant's value: `AS_SPECIFIED` is `AsSpecified`.
fn value(constant: &str) -> String {
    let capitalize = |word: &str| format!("{}{}", &word[..1], word[1..].to_lowercase());
    constant.split('_').map(capitalize).collect()
}

/// Returns the condition types and the reasons of a kind.
fn types_and_reasons(kind: &str) -> BTreeSet<String> {
    constants(kind).iter().map(|constant| value(constant)).collect()
}

/// Returns the code of a folder except these files.
fn code(folder: &Path, except: &[&str]) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if except.contains(&name) => String::new(),
        _ if path.is_dir() => code(&path, except),
        _ => fs::read_to_string(path).unwrap(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the words that look like a condition type or a reason.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(str::to_owned)
        .collect()
}

/// Returns the first two columns of the table of conditions.
fn listed(kind: &str) -> BTreeSet<String> {
    let text = text(kind);
    let (_, section) = text.split_once("\n## Conditions\n").unwrap();
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = rows.skip(2).map(|row| row.split('|').take(3).collect::<Vec<_>>().join(" "));
    let mut listed = names(&cells.collect::<Vec<_>>().join(" "));
    for other in ["True", "False", READY] {
        listed.remove(other);
    }
    listed
}

#[test]
fn controllers_use_every_reason_they_import() {
    for kind in ["podset", "memcached", "namespaceplus", "postgres", "tenant"] {
        let code = code(&path(&format!("crates/{kind}/src")), &DECLARATIONS);
        let used: BTreeSet<_> =
            code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
        let unused = constants(kind).into_iter().filter(|name| !used.contains(name.as_str()));
        assert_eq!(unused.collect::<Vec<_>>(), [""; 0], "{kind}");
    }
}

#[test]
fn controllers_use_every_reason_of_the_catalog() {
    let catalog: BTreeSet<_> =
        CATALOG.iter().flat_map(|(_, reasons)| *reasons).map(|reason| reason.name).collect();
    for reason in &catalog {
        let used =
            ["podset", "memcached", "namespaceplus", "postgres", "tenant", "operator-core"].iter().any(
                |kind| code(&path(&format!("crates/{kind}/src")), &DECLARATIONS).contains(&constant(reason)),
            );
        assert!(used, "{reason} is in the catalog and no controller uses it");
    }
}

/// Returns the name of the constant for a value: `AsSpecified` is `AS_SPECIFIED`, and `MissingFQCI`
/// is `MISSING_FQCI`.
fn constant(value: &str) -> String {
    let mut name = String::new();
    for letter in value.chars() {
        if letter.is_uppercase() && name.ends_with(char::is_lowercase) {
            name.push('_');
        }
        name.push(letter);
    }
    name.to_uppercase()
}

#[test]
fn pages_name_exactly_the_conditions_and_reasons() {
    for kind in ["podset", "memcached", "namespaceplus", "postgres"] {
        let (defined, named) = (types_and_reasons(kind), names(&text(kind)));
        assert_eq!(defined.difference(&named).collect::<Vec<_>>(), [""; 0], "{kind}: not on the page");
        let listed = listed(kind);
        assert!(listed.len() > 5, "{kind}: {listed:?}");
        assert_eq!(listed.difference(&defined).collect::<Vec<_>>(), [""; 0], "{kind}: not in the code");
    }
}
