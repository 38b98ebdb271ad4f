//! Functions of templates.
//!
//! Names, arguments, and results are those of Sprig. Functions for the environment, the network,
//! random numbers, keys, and the time do not exist, so a rendering depends only on its values.

use std::{collections::BTreeMap, sync::LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use gotmpl::{FuncMap, Template, TemplateError, Value, html_escape, js_escape, url_encode};
use ring::digest::{SHA256, digest};

use super::{
    limits::{fits, is_over},
    template_value,
};
use crate::item::hex;

type Outcome = Result<Value, TemplateError>;
/// Names of functions, the number of arguments that they need, and the functions.
type Group = &'static [(&'static str, usize, fn(&[Value]) -> Outcome)];

/// Limit of the spaces that `indent` adds to a line.
const MAX_INDENT: i64 = 128;
/// Longest padding that `printf` can write for one verb.
const MAX_PADDING: usize = u16::MAX as usize;
/// Limit of the bytes that `printf` can write.
const MAX_PRINTF: usize = 8 * 1024 * 1024;

/// Returns all functions, beside those that Go's templates have.
pub(super) fn all() -> &'static FuncMap {
    static ALL: LazyLock<FuncMap> = LazyLock::new(build);
    &ALL
}

fn build() -> FuncMap {
    let groups = [DEFAULTS, STRINGS, ENCODINGS, COLLECTIONS, PRINTING];
    let mut all = FuncMap::new();
    for (name, min, function) in groups.into_iter().flatten().copied() {
        let checked = move |arguments: &[Value]| checked(name, min, function, arguments);
        all.insert(name.to_owned(), std::sync::Arc::new(checked));
    }
    all
}

/// Calls a function within the limits.
fn checked(name: &str, min: usize, function: fn(&[Value]) -> Outcome, arguments: &[Value]) -> Outcome {
    if is_over() {
        return Err(failed("the time is over"));
    }
    if arguments.len() < min {
        return Err(failed(&format!("{name} needs {min} arguments and has {}", arguments.len())));
    }
    if !fits(arguments) {
        return Err(failed(&format!("the arguments of {name} are too large")));
    }
    let result = function(arguments)?;
    if fits([&result]) { Ok(result) } else { Err(failed(&format!("the result of {name} is too large"))) }
}

fn failed(message: &str) -> TemplateError {
    TemplateError::Exec(message.to_owned())
}

fn string(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

fn list(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

/// Returns an argument. Missing arguments are `nil`; [`checked`] requires the others.
fn at(arguments: &[Value], index: usize) -> Value {
    arguments.get(index).cloned().unwrap_or(Value::Nil)
}

/// Returns an argument as a text, as Sprig does for any type.
fn text(arguments: &[Value], index: usize) -> String {
    match at(arguments, index) {
        Value::Nil => String::new(),
        value => value.to_string(),
    }
}

fn integer(arguments: &[Value], index: usize) -> i64 {
    match at(arguments, index) {
        Value::Int(number) => number,
        Value::Uint(number) => i64::try_from(number).unwrap_or(i64::MAX),
        // Saturates, as a cast does.
        #[allow(clippy::cast_possible_truncation)]
        Value::Float(number) => number as i64,
        Value::Bool(value) => value.into(),
        Value::String(text) => text.trim().parse().unwrap_or_default(),
        _ => 0,
    }
}

fn items(arguments: &[Value], index: usize) -> Result<Vec<Value>, TemplateError> {
    match at(arguments, index) {
        Value::List(items) => Ok(items.to_vec()),
        Value::Nil => Ok(Vec::new()),
        other => Err(failed(&format!("needs a list and has a {}", other.type_name()))),
    }
}

fn fields(arguments: &[Value], index: usize) -> Result<BTreeMap<String, Value>, TemplateError> {
    match at(arguments, index) {
        Value::Map(fields) => {
            Ok(fields.iter().map(|(key, value)| (key.to_string(), value.clone())).collect())
        }
        Value::Nil => Ok(BTreeMap::new()),
        other => Err(failed(&format!("needs a dictionary and has a {}", other.type_name()))),
    }
}

fn map(fields: BTreeMap<String, Value>) -> Value {
    let fields = fields.into_iter().map(|(key, value)| (key.as_str().into(), value));
    Value::Map(std::sync::Arc::new(fields.collect()))
}

const DEFAULTS: Group = &[
    ("default", 1, |a| {
        let value = at(a, 1);
        Ok(if value.is_truthy() { value } else { at(a, 0) })
    }),
    ("empty", 1, |a| Ok(Value::Bool(!at(a, 0).is_truthy()))),
    ("coalesce", 0, |a| Ok(a.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))),
    ("ternary", 3, |a| Ok(if at(a, 2).is_truthy() { at(a, 0) } else { at(a, 1) })),
    ("int", 1, |a| Ok(Value::Int(integer(a, 0)))),
    ("add", 1, |a| Ok(Value::Int(numbers(a).fold(0, i64::wrapping_add)))),
    ("sub", 2, |a| Ok(Value::Int(integer(a, 0).wrapping_sub(integer(a, 1))))),
    ("mul", 1, |a| Ok(Value::Int(numbers(a).fold(1, i64::wrapping_mul)))),
];

fn numbers(arguments: &[Value]) -> impl Iterator<Item = i64> {
    (0..arguments.len()).map(|index| integer(arguments, index))
}

const STRINGS: Group = &[
    ("quote", 0, |a| Ok(string(quoted(a, |text| serde_json::to_string(text).unwrap_or_default())))),
    ("squote", 0, |a| Ok(string(quoted(a, |text| format!("'{text}'"))))),
    ("upper", 1, |a| Ok(string(text(a, 0).to_uppercase()))),
    ("lower", 1, |a| Ok(string(text(a, 0).to_lowercase()))),
    ("trim", 1, |a| Ok(string(text(a, 0).trim()))),
    ("trimAll", 2, |a| {
        let cut: Vec<_> = text(a, 0).chars().collect();
        Ok(string(text(a, 1).trim_matches(cut.as_slice())))
    }),
    ("trimPrefix", 2, |a| {
        let whole = text(a, 1);
        Ok(string(whole.strip_prefix(&text(a, 0)).unwrap_or(&whole)))
    }),
    ("trimSuffix", 2, |a| {
        let whole = text(a, 1);
        Ok(string(whole.strip_suffix(&text(a, 0)).unwrap_or(&whole)))
    }),
    ("replace", 3, |a| {
        let (old, new, whole) = (text(a, 0), text(a, 1), text(a, 2));
        let count = if old.is_empty() { whole.len() + 1 } else { whole.matches(&old).count() };
        bounded(whole.len().saturating_add(count.saturating_mul(new.len())))?;
        Ok(string(whole.replace(&old, &new)))
    }),
    ("contains", 2, |a| Ok(Value::Bool(text(a, 1).contains(&text(a, 0))))),
    ("hasPrefix", 2, |a| Ok(Value::Bool(text(a, 1).starts_with(&text(a, 0))))),
    ("hasSuffix", 2, |a| Ok(Value::Bool(text(a, 1).ends_with(&text(a, 0))))),
    ("split", 2, |a| {
        let parts = parts(&text(a, 0), &text(a, 1)).into_iter().enumerate();
        Ok(map(parts.map(|(index, part)| (format!("_{index}"), part)).collect()))
    }),
    ("splitList", 2, |a| Ok(list(parts(&text(a, 0), &text(a, 1))))),
    ("join", 2, |a| {
        let (separator, items) = (text(a, 0), items(a, 1)?);
        bounded(separator.len().saturating_mul(items.len()))?;
        let items: Vec<_> = items.iter().map(ToString::to_string).collect();
        Ok(string(items.join(&separator)))
    }),
    ("indent", 2, |a| Ok(string(indented(a)?))),
    ("nindent", 2, |a| Ok(string(format!("\n{}", indented(a)?)))),
];

/// Fails if a result would exceed the limit, before it is built.
fn bounded(bytes: usize) -> Result<(), TemplateError> {
    if bytes > MAX_PRINTF { Err(failed("the result is too large")) } else { Ok(()) }
}

fn quoted(arguments: &[Value], quote: impl Fn(&str) -> String) -> String {
    let present = arguments.iter().filter(|value| **value != Value::Nil);
    present.map(|value| quote(&value.to_string())).collect::<Vec<_>>().join(" ")
}

fn parts(separator: &str, whole: &str) -> Vec<Value> {
    if separator.is_empty() {
        return whole.chars().map(|character| string(character.to_string())).collect();
    }
    whole.split(separator).map(string).collect()
}

fn indented(arguments: &[Value]) -> Result<String, TemplateError> {
    let width = integer(arguments, 0);
    if !(0..=MAX_INDENT).contains(&width) {
        return Err(failed(&format!("indents by 0 to {MAX_INDENT} spaces")));
    }
    let padding = " ".repeat(usize::try_from(width).unwrap_or_default());
    let whole = text(arguments, 1);
    bounded(whole.len().saturating_add(whole.matches('\n').count().saturating_mul(padding.len())))?;
    Ok(format!("{padding}{}", whole.replace('\n', &format!("\n{padding}"))))
}

const ENCODINGS: Group = &[
    ("b64enc", 1, |a| Ok(string(STANDARD.encode(text(a, 0))))),
    ("b64dec", 1, |a| {
        let decoded = STANDARD.decode(text(a, 0)).map_err(|_| failed("b64dec needs valid base64"))?;
        Ok(string(String::from_utf8_lossy(&decoded)))
    }),
    ("sha256sum", 1, |a| Ok(string(hex(digest(&SHA256, text(a, 0).as_bytes()).as_ref().iter())))),
    ("toJson", 1, |a| {
        Ok(string(serde_json::to_string(&json(&at(a, 0))).map_err(|_| failed("toJson failed"))?))
    }),
    ("fromJson", 1, |a| {
        let value = serde_json::from_str(&text(a, 0)).map_err(|_| failed("fromJson needs valid JSON"))?;
        Ok(template_value(&value))
    }),
    ("toYaml", 1, |a| {
        let written = serde_saphyr::to_string(&json(&at(a, 0))).map_err(|_| failed("toYaml failed"))?;
        Ok(string(written.trim_end_matches('\n')))
    }),
    ("fromYaml", 1, |a| {
        let value = serde_saphyr::from_str::<serde_json::Value>(&text(a, 0));
        Ok(template_value(&value.map_err(|_| failed("fromYaml needs valid YAML"))?))
    }),
];

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(value) => (*value).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => text.as_ref().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(fields) => serde_json::Value::Object(
            fields.iter().map(|(key, value)| (key.to_string(), json(value))).collect(),
        ),
        _ => serde_json::Value::Null,
    }
}

const COLLECTIONS: Group = &[
    ("list", 0, |a| Ok(list(a.to_vec()))),
    ("first", 1, |a| Ok(items(a, 0)?.first().cloned().unwrap_or(Value::Nil))),
    ("last", 1, |a| Ok(items(a, 0)?.last().cloned().unwrap_or(Value::Nil))),
    ("uniq", 1, |a| {
        let mut seen = std::collections::HashSet::new();
        let unique = items(a, 0)?.into_iter().filter(|item| seen.insert(json(item).to_string()));
        Ok(list(unique.collect()))
    }),
    ("dict", 0, |a| {
        let pairs = (0..a.len()).step_by(2).map(|index| (text(a, index), at(a, index + 1)));
        Ok(map(pairs.collect()))
    }),
    ("get", 2, |a| Ok(fields(a, 0)?.remove(&text(a, 1)).unwrap_or_else(|| string("")))),
    ("hasKey", 2, |a| Ok(Value::Bool(fields(a, 0)?.contains_key(&text(a, 1))))),
    ("keys", 1, |a| {
        let mut keys = Vec::new();
        for index in 0..a.len() {
            keys.extend(fields(a, index)?.into_keys().map(string));
        }
        Ok(list(keys))
    }),
    ("merge", 1, |a| {
        let mut merged = fields(a, 0)?;
        for index in 1..a.len() {
            merge(&mut merged, fields(a, index)?);
        }
        Ok(map(merged))
    }),
];

/// Adds missing keys, also of dictionaries within both.
fn merge(target: &mut BTreeMap<String, Value>, source: BTreeMap<String, Value>) {
    for (key, value) in source {
        match target.get_mut(&key) {
            None => drop(target.insert(key, value)),
            Some(Value::Map(inner)) => {
                if let (Ok(mut merged), Ok(other)) =
                    (fields(&[Value::Map(inner.clone())], 0), fields(&[value], 0))
                {
                    merge(&mut merged, other);
                    target.insert(key, map(merged));
                }
            }
            Some(_) => {}
        }
    }
}

/// Go's own functions whose results can grow, within the limits.
const PRINTING: Group = &[
    ("print", 0, |a| delegate("print", a)),
    ("println", 0, |a| delegate("println", a)),
    ("printf", 1, |a| {
        let format = text(a, 0);
        let longest = a.iter().skip(1).map(|value| value.to_string().len()).max().unwrap_or_default();
        let verbs = format.matches('%').count();
        let padding = if format.contains(|c: char| c == '*' || c.is_ascii_digit()) { MAX_PADDING } else { 0 };
        // A quoted text is up to six times as long.
        bounded(verbs.saturating_mul(longest.saturating_mul(6).max(padding).max(32)))?;
        delegate("printf", a)
    }),
    ("html", 1, |a| Ok(string(html_escape(&joined(a))))),
    ("js", 1, |a| Ok(string(js_escape(&joined(a))))),
    ("urlquery", 1, |a| Ok(string(url_encode(&joined(a))))),
];

fn joined(arguments: &[Value]) -> String {
    arguments.iter().map(ToString::to_string).collect()
}

/// Calls the function of this name that Go's templates have. It has no other interface.
fn delegate(function: &str, arguments: &[Value]) -> Outcome {
    let names: Vec<_> = (0..arguments.len()).map(|index| format!("(index . {index})")).collect();
    let source = format!("{{{{{function} {}}}}}", names.join(" "));
    let printed = Template::new("").parse(&source)?.execute_to_string(&list(arguments.to_vec()))?;
    Ok(string(printed))
}
