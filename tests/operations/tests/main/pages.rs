//! The page of each kind names each of its fields, and tests that there are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kube::CustomResourceExt;
use memcached::Memcached;
use namespaceplus::NamespacePlus;
use podset::PodSet;
use serde_json::Value;

fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(relative)
}

fn text(page: &str) -> String {
    fs::read_to_string(path(&format!("docs/controllers/{page}.md"))).unwrap()
}

fn unnamed<K: CustomResourceExt>(page: &str) -> Vec<String> {
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
fn every_field_is_on_the_page_of_its_kind() {
    let none = Vec::<String>::new();
    assert_eq!(unnamed::<PodSet>("podset"), none);
    assert_eq!(unnamed::<Memcached>("memcached"), none);
    assert_eq!(unnamed::<NamespacePlus>("namespaceplus"), none);
}

#[test]
fn every_test_that_the_page_of_podsets_names_is_there() {
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
