//! The tags of raw items, references, and additional metadata. Pure.
//!
//! A tag is the text between `{{` and the next `}}`. There are two: `{{tenant.name}}` and
//! `{{namespace}}`, with or without spaces inside. Every other tag is replaced by nothing.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// The values of the tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags<'t> {
    /// Name of the Tenant.
    pub(crate) tenant: Option<&'t str>,
    /// Name of the namespace.
    pub(crate) namespace: Option<&'t str>,
}

impl Tags<'_> {
    fn value(&self, tag: &str) -> &str {
        match tag.trim() {
            "tenant.name" => self.tenant.unwrap_or_default(),
            "namespace" => self.namespace.unwrap_or_default(),
            _ => "",
        }
    }

    /// Replaces the tags in a text. A tag that is not closed stays.
    pub(crate) fn text(&self, template: &str) -> String {
        let (mut text, mut rest) = (String::with_capacity(template.len()), template);
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((tag, after)) = after.split_once(CLOSE) else { break };
            text.push_str(before);
            text.push_str(self.value(tag));
            rest = after;
        }
        text.push_str(rest);
        text
    }

    /// Replaces the tags in all strings of a value, also in its keys. Each string is replaced by
    /// itself, so no value can change the structure.
    pub(crate) fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (self.text(key), self.json(value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    /// Replaces the tags in the keys and values of a map.
    pub(crate) fn map(&self, map: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        map.iter().map(|(key, value)| (self.text(key), self.text(value))).collect()
    }

    /// Replaces the tags in a selector.
    pub(crate) fn selector(&self, selector: &LabelSelector) -> LabelSelector {
        let mut selector = selector.clone();
        selector.match_labels = selector.match_labels.as_ref().map(|labels| self.map(labels));
        for requirement in selector.match_expressions.iter_mut().flatten() {
            requirement.key = self.text(&requirement.key);
            for value in requirement.values.iter_mut().flatten() {
                *value = self.text(value);
            }
        }
        selector
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TAGS: Tags<'static> = Tags { tenant: Some("oil"), namespace: Some("oil-dev") };

    #[test]
    fn replaces_two_tags_and_removes_all_others() {
        for (template, text) in [
            ("{{tenant.name}}", "oil"),
            ("a-{{ tenant.name }}-{{namespace}}-b", "a-oil-oil-dev-b"),
            ("{{.namespace}}", ""),
            ("x{{ namespace.name }}y", "xy"),
            ("{{}}", ""),
            ("{{namespace", "{{namespace"),
            ("namespace}}", "namespace}}"),
            ("{ {namespace}}", "{ {namespace}}"),
            ("{{{namespace}}}", "}"),
            ("{{namespace}} {{open", "oil-dev {{open"),
            ("ü{{namespace}}ü", "üoil-devü"),
        ] {
            assert_eq!(TAGS.text(template), text, "{template}");
        }
        assert_eq!(Tags::default().text("{{tenant.name}}/{{namespace}}"), "/");
    }

    #[test]
    fn replaces_tags_in_keys_and_values_of_objects() {
        let item = json!({ "{{namespace}}": ["{{tenant.name}}", 1, null, { "a": "{{other}}" }] });
        assert_eq!(TAGS.json(&item), json!({ "oil-dev": ["oil", 1, null, { "a": "" }] }));
        let selector = serde_json::from_value::<LabelSelector>(json!({
            "matchLabels": { "{{tenant.name}}": "{{namespace}}" },
            "matchExpressions": [{ "key": "{{tenant.name}}", "operator": "In", "values": ["{{namespace}}"] }],
        }));
        let replaced = serde_json::to_value(TAGS.selector(&selector.unwrap())).unwrap();
        assert_eq!(
            replaced,
            json!({
                "matchLabels": { "oil": "oil-dev" },
                "matchExpressions": [{ "key": "oil", "operator": "In", "values": ["oil-dev"] }],
            })
        );
    }

    proptest! {
        #[test]
        fn text_without_tags_stays(text in "[^{}]*") {
            prop_assert_eq!(TAGS.text(&text), text);
        }

        #[test]
        fn any_text_is_accepted(text in "[{} a-z.ü]*") {
            let once = TAGS.text(&text);
            prop_assert!(once.len() <= text.len().max(1) * 8);
        }
    }
}
