//! Files of a new controller, from `xtask/templates/controller`.

use anyhow::{Context, Result, bail};

use super::{File, names::Names};

/// Paths relative to the workspace and texts, both with placeholders.
const TEMPLATES: [(&str, &str); 13] = [
    ("crates/{{name}}/Cargo.toml", include_str!("../../templates/controller/Cargo.toml.in")),
    ("crates/{{name}}/src/lib.rs", include_str!("../../templates/controller/src/lib.rs.in")),
    ("crates/{{name}}/src/api.rs", include_str!("../../templates/controller/src/api.rs.in")),
    ("crates/{{name}}/src/build.rs", include_str!("../../templates/controller/src/build.rs.in")),
    ("crates/{{name}}/src/status.rs", include_str!("../../templates/controller/src/status.rs.in")),
    ("crates/{{name}}/src/reconcile.rs", include_str!("../../templates/controller/src/reconcile.rs.in")),
    ("crates/{{name}}/tests/main/main.rs", include_str!("../../templates/controller/tests/main.rs.in")),
    ("crates/{{name}}/tests/main/support.rs", include_str!("../../templates/controller/tests/support.rs.in")),
    ("crates/{{name}}/tests/main/message.rs", include_str!("../../templates/controller/tests/message.rs.in")),
    (
        "crates/{{name}}/tests/main/ownership.rs",
        include_str!("../../templates/controller/tests/ownership.rs.in"),
    ),
    (
        "crates/{{name}}/tests/main/validation.rs",
        include_str!("../../templates/controller/tests/validation.rs.in"),
    ),
    ("crates/{{name}}/tests/main/no_op.rs", include_str!("../../templates/controller/tests/no_op.rs.in")),
    ("samples/{{name}}.yaml", include_str!("../../templates/controller/sample.yaml.in")),
];

/// Returns the files of a controller with these names.
pub(super) fn files(names: &Names) -> Result<Vec<File>> {
    let values = values(names);
    let fill = |text| fill(text, &values);
    TEMPLATES.iter().map(|(path, text)| Ok(File { path: fill(path)?, text: fill(text)? })).collect()
}

/// Returns whether the templates use an identifier, so that a kind of that name would not compile.
pub(super) fn uses(identifier: &str) -> bool {
    let code =
        TEMPLATES.iter().flat_map(|(_, text)| text.lines()).filter(|line| !line.trim().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .any(|used| used == identifier)
}

fn values(names: &Names) -> [(&'static str, String); 7] {
    let Names { group, version, kind, plural, short_name, name } = names;
    let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    let short_name = short_name.as_ref().map(|short| format!("\n    shortname = \"{short}\","));
    [
        ("group", group.clone()),
        ("version", version.clone()),
        ("kind", kind.clone()),
        ("a_kind", format!("{article} {kind}")),
        ("plural", plural.clone()),
        ("short_name", short_name.unwrap_or_default()),
        ("name", name.clone()),
    ]
}

/// Replaces each placeholder `{{name}}` with its value.
fn fill(text: &str, values: &[(&str, String)]) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("a placeholder is not closed with `}}`")?;
        let Some((_, value)) = values.iter().find(|(known, _)| *known == name) else {
            bail!("unknown placeholder {name:?}");
        };
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str, kind: &str, short_name: Option<&str>) -> String {
        let names = Names::new("app.example.com", "v1alpha1", kind, None, short_name).unwrap();
        let file = files(&names).unwrap().into_iter().find(|file| file.path == path);
        file.expect("the file exists").text
    }

    #[test]
    fn fills_placeholders() {
        let sample = text_of("samples/greeting.yaml", "Greeting", None);
        assert!(sample.contains("apiVersion: app.example.com/v1alpha1\nkind: Greeting\n"), "{sample}");
        assert!(fill("{{what}}", &[]).unwrap_err().to_string().contains("\"what\""));
    }

    #[test]
    fn short_name_is_optional() {
        let api = |short_name| text_of("crates/app/src/api.rs", "App", short_name);
        assert!(api(Some("ap")).contains("    plural = \"apps\",\n    shortname = \"ap\",\n    category"));
        assert!(api(None).contains("    plural = \"apps\",\n    category"));
        assert!(api(None).contains("/// Observed state of an App."));
    }

    #[test]
    fn uses_finds_identifiers_in_code() {
        assert!(["ConfigMap", "Error", "Fixture", "Condition", "String"].iter().all(|word| uses(word)));
        assert!(!uses("Greeting"));
        assert!(!uses("Kubernetes"), "comments do not count");
    }
}
