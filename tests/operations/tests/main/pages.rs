//! The page of each kind names each of its fields.

use std::path::Path;

use kube::CustomResourceExt;
use memcached::Memcached;
use namespaceplus::NamespacePlus;
use podset::PodSet;
use serde_json::Value;

fn unnamed<K: CustomResourceExt>(page: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/controllers");
    let text = std::fs::read_to_string(folder.join(format!("{page}.md"))).unwrap();
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
