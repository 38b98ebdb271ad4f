//! Generators: Go templates whose output is YAML. Pure, except for the clock of the time limit.
//!
//! ```text
//! functions   the functions of templates
//! calls       rejects unknown functions
//! limits      the limits of one rendering
//! guard       checks the time in every block, and prints values as data
//! documents   splits the output into documents
//! ```
//!
//! # Values are data
//! The values of a template come from objects that tenants write, such as the annotations of a
//! namespace. Two rules keep a value from changing the structure of the output:
//!
//! - A document begins only where the text of the template has a line `---`.
//! - A value with a line break is printed as a JSON string, unless a function such as `toYaml` or
//!   `nindent` has formatted it.

mod calls;
mod documents;
mod functions;
mod guard;
mod limits;

use std::{sync::Arc, time::Duration};

use capsule::api::v1beta2::MissingKey;
use gotmpl::{Template, TemplateError, Value as TemplateValue};
use serde_json::Value;

pub(crate) use self::limits::{MAX_DOCUMENTS, MAX_OUTPUT};
use self::{
    guard::MAIN,
    limits::{BoundedText, Deadline},
};

/// Time limit of one rendering.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Limit of the iterations of all `range` actions of one rendering.
const MAX_ITERATIONS: u64 = 100_000;

/// Text after the template. `gotmpl` accepts a block without its end, and ignores what follows an
/// end without its block. In both cases this text is not at the end of the body.
const SENTINEL: &str = "\u{1}";

/// Error of a generator. Never contains values, because these can come from Secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GeneratorError {
    /// The template is invalid.
    #[error("cannot compile the template: {0}; correct it")]
    Compile(String),
    /// The template cannot be rendered with the values of a Tenant.
    #[error("cannot render the template: {0}; correct it")]
    Render(String),
    /// The rendering took too long.
    #[error("cannot render the template within {} seconds; simplify its loops", TIME_LIMIT.as_secs())]
    Time,
    /// The output is too long.
    #[error("the output of the template has more than {MAX_OUTPUT} bytes; split the generator")]
    Output,
    /// The output has too many documents.
    #[error("the output of the template has more than {MAX_DOCUMENTS} documents; split the generator")]
    Documents,
    /// A document is no YAML. The parser's message quotes the document, so only the line is reported.
    #[error("document {number} of the output is not valid YAML{place}; correct the template")]
    Yaml {
        /// Number of the document, from 0.
        number: usize,
        /// Line and column, if known.
        place: String,
    },
    /// A value begins a document.
    #[error(
        "document {0} of the output has a document separator that is not in the text of the template; values cannot \
         add documents, so write the separator into the template or quote the value"
    )]
    Separator(usize),
    /// A document is a list or a scalar.
    #[error("document {0} of the output is not an object; each document must be one object")]
    NotAnObject(usize),
}

/// A compiled template.
pub(crate) struct Generator {
    template: Template,
}

impl Generator {
    /// Compiles a template.
    ///
    /// # Errors
    /// Returns an error for invalid syntax, or for an unknown function.
    pub(crate) fn compile(text: &str, missing_key: MissingKey) -> Result<Self, GeneratorError> {
        let failed = |error: TemplateError| GeneratorError::Compile(describe(&error));
        let missing_key = match missing_key {
            MissingKey::Invalid => gotmpl::MissingKey::Invalid,
            MissingKey::Zero => gotmpl::MissingKey::ZeroValue,
            MissingKey::Error => gotmpl::MissingKey::Error,
        };
        let template = || {
            Template::new(guard::BODY)
                .missing_key(missing_key)
                .max_range_iters(MAX_ITERATIONS)
                .funcs(functions::all().clone())
        };
        let source = documents::mark(text);
        let parsed = template().parse(&source).map_err(failed)?;
        let end = template().parse(&format!("{source}{SENTINEL}")).map_err(failed)?;
        if !calls::ends_with(&end, SENTINEL) {
            return Err(GeneratorError::Compile("the actions and {{end}} do not match".to_owned()));
        }
        calls::check(&parsed).map_err(GeneratorError::Compile)?;
        Ok(Self { template: guard::protect(parsed) })
    }

    /// Renders the template. Returns the objects with their numbers among the documents; documents
    /// without `apiVersion` and `kind` are skipped.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded, or if the output is no YAML.
    pub(crate) fn render(&self, context: &Context) -> Result<Vec<(usize, Value)>, GeneratorError> {
        let deadline = Deadline::start(TIME_LIMIT);
        let mut output = BoundedText::default();
        let rendered = self.template.execute_template_fmt(&mut output, MAIN, &context.0);
        if deadline.is_over() {
            return Err(GeneratorError::Time);
        }
        if output.is_full() {
            return Err(GeneratorError::Output);
        }
        rendered.map_err(|error| GeneratorError::Render(describe(&error)))?;
        documents::objects(&output.into_text())
    }
}

/// The values of a template.
#[derive(Clone, Debug)]
pub(crate) struct Context(TemplateValue);

impl Context {
    /// Converts a JSON object.
    pub(crate) fn new(values: &Value) -> Self {
        Self(template_value(values))
    }
}

/// Converts a JSON value. NUL characters are replaced, because [`documents`] marks separators with
/// them.
fn template_value(value: &Value) -> TemplateValue {
    match value {
        Value::Null => TemplateValue::Nil,
        Value::Bool(value) => TemplateValue::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => TemplateValue::Int(number),
            (_, Some(number), _) => TemplateValue::Uint(number),
            (.., number) => TemplateValue::Float(number.unwrap_or_default()),
        },
        Value::String(text) => TemplateValue::String(documents::without_marks(text).into()),
        Value::Array(items) => {
            TemplateValue::List(items.iter().map(template_value).collect::<Vec<_>>().into())
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|(key, value)| (documents::without_marks(key).into(), template_value(value)));
            TemplateValue::Map(Arc::new(fields.collect()))
        }
    }
}

/// Returns the message of an error without quoted values.
fn describe(error: &TemplateError) -> String {
    let text = error.to_string();
    text.chars().filter(|character| *character != documents::MARK).take(512).collect()
}

#[cfg(test)]
mod tests;
