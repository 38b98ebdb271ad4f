use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn render_with(template: &str, missing_key: MissingKey, values: Value) -> Result<Vec<Value>, GeneratorError> {
    let objects = Generator::compile(template, missing_key)?.render(&Context::new(&values))?;
    Ok(objects.into_iter().map(|(_, object)| object).collect())
}

fn render(template: &str, values: Value) -> Result<Vec<Value>, GeneratorError> {
    render_with(template, MissingKey::Zero, values)
}

/// Renders one ConfigMap with the result of an expression.
fn evaluate(expression: &str, values: Value) -> Value {
    let template = format!("apiVersion: v1\nkind: ConfigMap\nvalue: {expression}");
    render(&template, values).unwrap_or_else(|error| panic!("{expression}: {error}"))[0]["value"].clone()
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn renders_several_documents_and_skips_those_without_kind() {
    let template =
        format!("---\n{}---\n# only a comment\n---\nother: 1\n--- \n{}", config_map("a"), config_map("b"));
    let numbers =
        Generator::compile(&template, MissingKey::Zero).unwrap().render(&Context::new(&json!({}))).unwrap();
    let numbers: Vec<_> =
        numbers.iter().map(|(number, object)| (*number, object["metadata"]["name"].clone())).collect();
    assert_eq!(numbers, [(0, json!("a")), (3, json!("b"))]);
    let json = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{.x}}"}}"#;
    assert_eq!(render(json, json!({ "x": "c" })).unwrap()[0]["metadata"]["name"], "c");
}

#[test]
fn uses_fields_conditions_loops_and_lengths() {
    let values = json!({
        "tenant": { "metadata": { "name": "oil" } },
        "secrets": [{ "metadata": { "name": "a" } }, { "metadata": { "name": "b" } }],
    });
    assert_eq!(evaluate("{{ .tenant.metadata.name }}", values.clone()), "oil");
    assert_eq!(evaluate("{{ len .secrets }}", values.clone()), 2);
    assert_eq!(
        evaluate("{{ if .secrets }}yes{{ else }}no{{ end }}x", json!({})),
        "nox",
        "a missing list is empty"
    );
    assert_eq!(evaluate("{{ (index .secrets 1).metadata.name | upper }}", values.clone()), "B");
    let loops = "{{ range .secrets }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: {{ .metadata.name }} }\n{{ end }}";
    assert_eq!(render(loops, values).unwrap().len(), 2);
}

#[test]
fn missing_keys_print_no_value_or_fail() {
    let template = format!("{}data: {{ a: '{{{{ .x.y }}}}' }}", config_map("a"));
    for missing_key in [MissingKey::Zero, MissingKey::Invalid] {
        let objects = render_with(&template, missing_key, json!({ "x": {} })).unwrap();
        assert_eq!(objects[0]["data"]["a"], "<no value>");
    }
    let error = render_with(&template, MissingKey::Error, json!({ "x": {} })).unwrap_err();
    assert!(matches!(&error, GeneratorError::Render(message) if message.contains('y')), "{error}");
}

#[test]
fn functions_have_the_arguments_and_results_of_sprig() {
    let values = || json!({ "s": "Hello", "l": ["a", "b", "a"], "m": { "a": 1, "b": { "c": 2 } }, "n": 3 });
    for (expression, expected) in [
        ("{{ .missing | default \"x\" }}", json!("x")),
        ("{{ .s | default \"x\" }}", json!("Hello")),
        ("{{ empty .missing }}", json!(true)),
        ("{{ coalesce .missing \"\" .s }}", json!("Hello")),
        ("{{ ternary \"a\" \"b\" true }}", json!("a")),
        ("{{ quote .n }}", json!("3")),
        ("{{ squote .s }}", json!("Hello")),
        ("{{ .s | upper }}/{{ .s | lower }}", json!("HELLO/hello")),
        ("{{ trim \"  a \" }}", json!("a")),
        ("{{ trimAll \"$\" \"$a$\" }}", json!("a")),
        ("{{ trimSuffix \"lo\" .s }}{{ trimPrefix \"He\" .s }}", json!("Helllo")),
        ("{{ replace \"l\" \"L\" .s }}", json!("HeLLo")),
        ("{{ contains \"ell\" .s }}", json!(true)),
        ("{{ hasPrefix \"He\" .s }}", json!(true)),
        ("{{ hasSuffix \"He\" .s }}", json!(false)),
        ("{{ (split \"$\" \"a$b\")._1 }}", json!("b")),
        ("{{ splitList \",\" \"a,b\" | last }}", json!("b")),
        ("{{ join \"-\" .l }}", json!("a-b-a")),
        ("{{ b64enc .s }}", json!("SGVsbG8=")),
        ("{{ b64dec \"SGVsbG8=\" }}", json!("Hello")),
        ("{{ sha256sum \"\" }}", json!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        ("{{ toJson .m }}", json!({ "a": 1, "b": { "c": 2 } })),
        ("{{ (fromJson \"{\\\"a\\\": [1]}\").a | toJson }}", json!([1])),
        ("{{ toYaml .m | nindent 2 }}", json!({ "a": 1, "b": { "c": 2 } })),
        ("{{ (fromYaml \"a: 1\").a }}", json!(1)),
        ("{{ list 1 2 | toJson }}", json!([1, 2])),
        ("{{ dict \"a\" 1 | toJson }}", json!({ "a": 1 })),
        ("{{ get .m \"a\" }}", json!(1)),
        ("{{ hasKey .m \"x\" }}", json!(false)),
        ("{{ keys .m | toJson }}", json!(["a", "b"])),
        (
            "{{ merge (dict \"a\" 9) .m (dict \"b\" (dict \"d\" 4)) | toJson }}",
            json!({ "a": 9, "b": { "c": 2, "d": 4 } }),
        ),
        ("{{ first .l }}", json!("a")),
        ("{{ uniq .l | toJson }}", json!(["a", "b"])),
        ("{{ int \"4\" }}", json!(4)),
        ("{{ add 1 2 3 }}", json!(6)),
        ("{{ sub .n 1 }}", json!(2)),
        ("{{ mul 2 .n }}", json!(6)),
        ("{{ printf \"%s-%03d\" .s .n }}", json!("Hello-003")),
        ("{{ print .s .n }}", json!("Hello3")),
    ] {
        assert_eq!(evaluate(expression, values()), expected, "{expression}");
    }
}

#[test]
fn unknown_functions_and_bad_syntax_do_not_compile() {
    for (template, text) in [
        ("{{ env \"HOME\" }}", "env"),
        ("{{ expandenv \"$HOME\" }}", "expandenv"),
        ("{{ getHostByName \"x\" }}", "getHostByName"),
        ("{{ randAlpha 3 }}", "randAlpha"),
        ("{{ genPrivateKey \"rsa\" }}", "genPrivateKey"),
        ("{{ now }}", "now"),
        ("{{ .x", "unclosed"),
        ("{{ if .x }}", "do not match"),
        ("{{ end }}", "do not match"),
        ("{{ range .x }}{{ if .y }}{{ end }}", "do not match"),
        ("a{{ if .x }}{{ end }}{{ end }}b", "do not match"),
        ("{{ else }}", ""),
        ("{{ define \"a\" }}", ""),
        ("{{ template \"missing\" }}{{", ""),
    ] {
        let error = Generator::compile(template, MissingKey::Zero).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(text)), "{template}: {error:?}");
    }
}

#[test]
fn values_never_add_documents_or_fields() {
    let hostile =
        "x\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: { name: evil }";
    let values = json!({ "tenant": { "note": hostile }, "line": "--- {kind: ClusterRole}", "nul": "\u{0}a" });
    let template = |value: &str| format!("{}data:\n  note: {value}\n", config_map("a"));
    for value in
        ["{{ .tenant.note }}", "{{ .tenant.note | upper | lower }}", "{{ printf \"%s\" .tenant.note }}"]
    {
        let objects = render(&template(value), values.clone()).unwrap();
        assert_eq!(objects.len(), 1, "{value}");
        assert!(objects[0]["data"]["note"].as_str().unwrap().contains("---\n"), "{value}");
        assert_eq!(objects[0].as_object().unwrap().len(), 4, "{value}: {objects:?}");
    }
    let block = render(&template("|\n{{ .tenant.note | indent 4 }}"), values.clone()).unwrap();
    assert_eq!(block[0]["data"]["note"].as_str().unwrap().trim_end(), hostile);
    let fields = json!({ "tenant": { "note": "x\n  namespace: kube-system" } });
    assert_eq!(
        render(&template("{{ .tenant.note }}"), fields).unwrap()[0]["data"].as_object().unwrap().len(),
        1
    );
    for value in ["{{ .tenant.note | indent 0 }}", "{{ .tenant.note | nindent 0 }}", "\n{{ .line }}"] {
        let error = render(&template(value), values.clone()).unwrap_err();
        assert!(
            matches!(error, GeneratorError::Separator(0) | GeneratorError::Yaml { .. }),
            "{value}: {error}"
        );
    }
    assert_eq!(render(&template("{{ .nul }}"), values).unwrap()[0]["data"]["note"], "\u{fffd}a");
}

#[test]
fn limits_time_output_and_documents() {
    let doubling = "{{ $s := \"x\" }}{{ range 60 }}{{ $s = print $s $s }}{{ end }}";
    let endless = "{{ range 50000 }}{{ range 50000 }}{{ end }}{{ end }}";
    let lists = "{{ $l := list 1 }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ len $l }}";
    let mut calls = "{{ define \"t0\" }}{{ end }}".to_owned();
    for level in 1..60 {
        let before = level - 1;
        calls += "{{ define \"t_LEVEL\" }}{{ template \"t_BEFORE\" }}{{ template \"t_BEFORE\" }}{{ end }}"
            .replace("_LEVEL", &level.to_string())
            .replace("_BEFORE", &before.to_string())
            .as_str();
    }
    calls.push_str("{{ template \"t59\" }}");
    let recursion = "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}";
    let wide = "{{ range 100 }}{{ printf \"%60000d%60000d\" 1 2 }}{{ end }}";
    let padded = "{{ printf (printf \"%s%s%s%s\" .f .f .f .f) 1 }}";
    let values = json!({ "f": "%65000d".repeat(100) });
    for template in [doubling, endless, lists, &calls, recursion, wide, padded] {
        let start = Instant::now();
        let error = render(template, values.clone()).expect_err(template);
        assert!(start.elapsed() < TIME_LIMIT * 3, "{template}: {error}");
    }
    let output = "{{ range 2000 }}{{ $.x }}{{ end }}";
    assert_eq!(render(output, json!({ "x": "y".repeat(1000) })), Err(GeneratorError::Output));
    let documents = "{{ range 300 }}\n---\napiVersion: v1\nkind: ConfigMap\n{{ end }}";
    assert_eq!(render(documents, json!({})), Err(GeneratorError::Documents));
    assert_eq!(render("- 1", json!({})), Err(GeneratorError::NotAnObject(0)));
}

#[test]
fn errors_do_not_quote_values() {
    let secret = json!({ "secret": "hunter2: [", "list": ["hunter2"] });
    for template in [
        "apiVersion: v1\nkind: Secret\nvalue: {{ .secret }}",
        "{{ fromJson .secret }}",
        "{{ fromYaml .secret }}",
        "{{ b64dec .secret }}",
        "{{ index .list .secret }}",
        "{{ .secret.x }}",
        "{{ join .secret .secret }}",
        "{{ slice .list 5 }}",
        "{{ lt .secret 1 }}",
    ] {
        let error = render(template, secret.clone()).expect_err(template).to_string();
        assert!(!error.contains("hunter2"), "{template}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_template_panics(template in "([{}]{2}[-. a-z$\"|:=()0-9]{0,12}[}]{2}|[-a-z:\n ]{0,6}){0,6}", value in ".{0,12}") {
        let _ = render(&template, json!({ "a": value, "b": [1, { "c": null }] }));
    }

    #[test]
    fn a_value_stays_one_string(value in "[-a-z: \n{}\\[\\]'\"#&*!|>%@`]{0,40}") {
        let template = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: {{ .a | quote }}\n";
        let objects = render(template, json!({ "a": value.clone() })).unwrap();
        prop_assert_eq!(&objects[0]["data"]["a"], &Value::from(value));
    }

    #[test]
    fn an_unquoted_value_never_adds_an_object(value in "([-a-z: \n]|---|kind: X){0,12}") {
        let template = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: {{ .a }}\n  b: 1\n";
        if let Ok(objects) = render(template, json!({ "a": value })) {
            prop_assert_eq!(objects.len(), 1);
            prop_assert_eq!(objects[0].as_object().unwrap().len(), 3);
            prop_assert_eq!(objects[0]["data"].as_object().unwrap().len(), 2);
        }
    }
}
