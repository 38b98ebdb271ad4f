//! Placeholders in texts.

/// Replaces placeholders such as `{{key}}` with the values that `value` returns.
///
/// Spaces inside the braces are ignored. A placeholder stays if `value` returns `None`.
///
/// ```
/// use operator_core::template::render;
///
/// let value = |key: &str| (key == "name").then(|| "blue".to_owned());
/// assert_eq!(render("{{ name }} and {{other}} {{", value), "blue and {{other}} {{");
/// ```
pub fn render(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut rendered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((key, after)) = after.split_once("}}") else { break };
        rendered.push_str(before);
        match value(key.trim()) {
            Some(value) => rendered.push_str(&value),
            None => rendered.extend(["{{", key, "}}"]),
        }
        rest = after;
    }
    rendered.push_str(rest);
    rendered
}
