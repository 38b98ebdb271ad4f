//! Alert rules.

use std::{collections::BTreeSet, fs, process::Command};

use go_tools::PROMTOOL;
use serde_json::{Value, json};

use crate::{path, query::check, read};

const TESTS: &str = "tests/monitoring/alerts";

/// Returns the rules that Prometheus loads: the `spec` of the PrometheusRule.
fn rules() -> Value {
    let manifest: Value = serde_saphyr::from_str(&read("deploy/monitoring/prometheusrule.yaml")).unwrap();
    manifest["spec"].clone()
}

fn alerts(rules: &Value) -> Vec<&Value> {
    let groups = rules["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect()
}

fn name(alert: &Value) -> &str {
    alert["alert"].as_str().unwrap()
}

/// Runs promtool in a folder with the rules and their tests.
fn run(args: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), rules().to_string()).unwrap();
    for test in fs::read_dir(path(TESTS)).unwrap() {
        let test = test.unwrap();
        fs::copy(test.path(), folder.path().join(test.file_name())).unwrap();
    }
    let output =
        Command::new(PROMTOOL.locate().unwrap()).current_dir(folder.path()).args(args).output().unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output_text));
}

#[test]
fn rules_are_valid() {
    run(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]);
}

#[test]
fn every_alert_passes_its_tests() {
    let rules = rules();
    let names: BTreeSet<_> = alerts(&rules).into_iter().map(name).collect();
    assert_eq!(names.len(), alerts(&rules).len(), "each alert must have a unique name");
    let files: BTreeSet<_> = fs::read_dir(path(TESTS))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap().trim_end_matches(".yaml").to_owned())
        .collect();
    assert_eq!(
        files.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        names,
        "one file of tests for each"
    );
    for name in &names {
        let (firing, silent) = count_tests(name);
        assert!(firing > 0 && silent > 0, "{name}: {firing} firing and {silent} silent tests");
    }
    let files: Vec<_> = names.iter().map(|name| format!("{name}.yaml")).collect();
    run(&["test", "rules"].into_iter().chain(files.iter().map(String::as_str)).collect::<Vec<_>>());
}

/// Returns the numbers of tests in which the alert fires and does not fire.
fn count_tests(name: &str) -> (usize, usize) {
    let tests: Value = serde_saphyr::from_str(&read(&format!("{TESTS}/{name}.yaml"))).unwrap();
    let mut counts = (0, 0);
    for test in tests["tests"].as_array().unwrap() {
        for query_test in test["promql_expr_test"].as_array().unwrap() {
            let query = format!("ALERTS{{alertname=\"{name}\", alertstate=\"firing\"}}");
            assert_eq!(query_test["expr"], json!(query));
            match query_test["exp_samples"].as_array().unwrap().len() {
                0 => counts.1 += 1,
                _ => counts.0 += 1,
            }
        }
        for series in test["input_series"].as_array().unwrap() {
            let series = series["series"].as_str().unwrap();
            if !series.starts_with("up{") {
                check(series);
            }
        }
    }
    counts
}

#[test]
fn every_alert_uses_existing_metrics() {
    for alert in alerts(&rules()) {
        check(alert["expr"].as_str().unwrap());
    }
}

#[test]
fn every_alert_has_summary_and_runbook() {
    for alert in alerts(&rules()) {
        let (name, annotations) = (name(alert), &alert["annotations"]);
        assert!(matches!(alert["labels"]["severity"].as_str(), Some("critical" | "warning")), "{name}");
        for annotation in ["summary", "description"] {
            assert!(
                annotations[annotation].as_str().is_some_and(|text| text.len() > 20),
                "{name}: {annotation}"
            );
        }
        let runbook = format!("docs/operations/runbooks/{name}.md");
        assert_eq!(annotations["runbook_url"], json!(runbook));
        let page = read(&runbook);
        assert!(page.starts_with(&format!("# {name}\n")), "{runbook}");
        for part in ["## Meaning", "## Diagnosis", "## Mitigation"] {
            assert!(page.contains(part), "{runbook}: no {part:?}");
        }
        assert!(page.contains("```console"), "{runbook}: no command to run");
    }
}

#[test]
fn every_runbook_has_an_alert_and_an_index_entry() {
    let rules = rules();
    let index = read("docs/operations/alerts.md");
    let mut pages: BTreeSet<_> = fs::read_dir(path("docs/operations/runbooks"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for alert in alerts(&rules) {
        let page = format!("{}.md", name(alert));
        assert!(index.contains(&format!("(runbooks/{page})")), "alerts.md has no link to {page}");
        pages.remove(&page);
    }
    assert_eq!(pages, BTreeSet::new(), "no alert links to these runbooks");
}
