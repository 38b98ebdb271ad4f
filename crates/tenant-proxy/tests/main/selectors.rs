//! Label selectors mean the same to the proxy and to the API server.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt, api::PostParams};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::json;
use tenant_proxy::selector::Selector;

/// Number of generated selectors.
const SELECTORS: u32 = 400;

/// Lists the ConfigMaps that a selector selects. Returns `None` if the API server refuses the selector.
async fn selected(client: &Client, namespace: &str, selector: &str) -> Option<BTreeSet<String>> {
    let encoded = percent_encoding::utf8_percent_encode(selector, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?labelSelector={encoded}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    match client.request::<k8s_openapi::List<ConfigMap>>(request).await {
        Ok(list) => Some(list.items.iter().map(ResourceExt::name_any).collect()),
        Err(kube::Error::Api(status)) if status.code == 400 => None,
        Err(error) => panic!("{selector:?}: {error}"),
    }
}

fn selectors() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "in", "notin", "x.y/a", "1", "2", "", "-", "ä", "A_b.c"]);
    let symbol = prop::sample::select(vec![
        "=", "==", "!=", "!", ",", "(", ")", " in (", " notin (", ">", "<", " ", "\t", ",,", "()",
    ]);
    let part = prop_oneof![word, symbol];
    prop::collection::vec(part, 0..9).prop_map(|parts| parts.concat())
}

#[tokio::test]
async fn selectors_are_read_as_by_the_api_server() {
    let cluster = cluster::shared().await.unwrap();
    let client = cluster.client().await.unwrap();
    let namespace = cluster.namespace("selectors").await.unwrap();
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace.name());
    let labels = [
        json!({}),
        json!({"a": "1"}),
        json!({"a": ""}),
        json!({"a": "b", "b": "2"}),
        json!({"in": "notin", "x.y/a": "a"}),
        json!({"notin": "in", "b": "1", "A_b.c": "A_b.c"}),
    ];
    for (index, labels) in labels.into_iter().enumerate() {
        let object = json!({"metadata": {"name": format!("map-{index}"), "labels": labels}});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    let by_hand =
        ["a in (,)", "a in (b,,)", "a in (b,)", "in in (in,notin)", "!a,b", "a=,b", "a>0", "a<x", ""];
    let mut runner = TestRunner::new(Config::default());
    let strategy = selectors();
    let generated = (0..SELECTORS).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let mut accepted = 0;
    for selector in by_hand.into_iter().map(str::to_owned).chain(generated) {
        let server = selected(&client, namespace.name(), &selector).await;
        let parsed = Selector::parse(&selector).ok().map(|parsed| parsed.to_string());
        assert_eq!(parsed.is_some(), server.is_some(), "{selector:?}: {parsed:?} {server:?}");
        if let Some(parsed) = parsed {
            accepted += 1;
            assert_eq!(selected(&client, namespace.name(), &parsed).await, server, "{selector:?} {parsed:?}");
        }
    }
    assert!(accepted > 20, "only {accepted} selectors are valid");
}
