//! Documents of the output. A document begins where the text of the template has a separator.

use serde_json::Value;

use super::{GeneratorError, MAX_DOCUMENTS};

/// Marks a separator. Values do not contain it.
pub(super) const MARK: char = '\0';

/// Replaces the lines `---` of a template by marks, and removes other marks.
pub(super) fn mark(template: &str) -> String {
    let mut marked = String::with_capacity(template.len());
    for line in template.split_inclusive('\n') {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                marked.push(MARK);
                marked.push_str(&without_marks(rest));
            }
            _ => marked.push_str(&without_marks(line)),
        }
    }
    marked
}

/// Replaces marks in a text that is not a separator.
pub(super) fn without_marks(text: &str) -> String {
    text.replace(MARK, "\u{fffd}")
}

/// Parses each document.
pub(super) fn objects(output: &str) -> Result<Vec<(usize, Value)>, GeneratorError> {
    let documents = output.split(MARK).map(str::trim_end).filter(|text| !text.trim().is_empty());
    let mut objects = Vec::new();
    for (number, document) in documents.enumerate() {
        if number >= MAX_DOCUMENTS {
            return Err(GeneratorError::Documents);
        }
        match parse(number, document)? {
            Value::Null => {}
            Value::Object(fields) => {
                let is_set =
                    |key| fields.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
                if is_set("apiVersion") && is_set("kind") {
                    objects.push((number, Value::Object(fields)));
                }
            }
            _ => return Err(GeneratorError::NotAnObject(number)),
        }
    }
    Ok(objects)
}

fn parse(number: usize, document: &str) -> Result<Value, GeneratorError> {
    let is_separator = |line: &str| {
        ["---", "..."].iter().any(|marker| {
            line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
        })
    };
    if document.lines().any(is_separator) {
        return Err(GeneratorError::Separator(number));
    }
    serde_saphyr::from_str::<Value>(document)
        .map_err(|error| GeneratorError::Yaml { number, place: place(&error) })
}

/// Returns the position of an error without its text.
fn place(error: &serde_saphyr::Error) -> String {
    error.location().map_or_else(String::new, |location| {
        format!(" at line {}, column {}", location.line(), location.column())
    })
}
