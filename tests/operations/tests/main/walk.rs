//! Random changes of the fields of a kind.

use std::collections::BTreeSet;

use operations::{Field, fields};
use serde_json::Value;

use crate::subject::Subject;

/// Default number of changes. Small enough for every test run.
const OPERATIONS: usize = 24;

/// Maximum number of values of a field.
const VALUES_PER_FIELD: usize = 6;

/// A field with valid values that differ from the default.
struct Step {
    field: Field,
    values: Vec<Value>,
}

/// A change: a field and its new value. `None` removes the field.
type Operation<'s> = (&'s Field, Option<&'s Value>);

/// Changes an object repeatedly, and compares it with a new one after each change. `unreached`
/// lists the fields without a valid value.
pub(crate) async fn walk(subject: &Subject, unreached: &[String]) {
    let (steps, missed) = steps(subject).await;
    let containers = containers(&steps);
    assert_eq!(missed, unreached, "fields without a valid value");
    let count = from_environment("ENSEMBLE_OPERATIONS").unwrap_or(OPERATIONS);
    let seed = from_environment("ENSEMBLE_OPERATIONS_SEED").unwrap_or(1);
    let mut rng = fastrand::Rng::with_seed(u64::try_from(seed).unwrap());
    let long_lived = name(&mut rng);
    subject.create(&long_lived, &subject.base).await.unwrap();
    let (mut made, mut planned) = (0, Vec::new());
    while made < count {
        if planned.is_empty() {
            planned = plan(&steps, &containers, &mut rng);
        }
        let (field, value) = planned.pop().expect("a plan has operations");
        let Some(spec) = subject.change(&long_lived, &field.patch(value)).await else { continue };
        let new = name(&mut rng);
        subject.create(&new, &spec).await.unwrap();
        let change = format!("{} = {}", field.name(), value.cloned().unwrap_or_default());
        subject.until_equal(&long_lived, &new, &change).await;
        subject.delete(&new).await;
        made += 1;
    }
    subject.delete(&long_lived).await;
    println!("{made} changes of {} fields, each compared with a new object (seed {seed})", steps.len());
}

fn from_environment(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn name(rng: &mut fastrand::Rng) -> String {
    let suffix: String = (0..6).map(|_| rng.lowercase()).collect();
    // // The name must be unique among runs on the same cluster.
    format!("op-{suffix}{:x}", std::process::id())
}

/// Returns the fields of the schema with their valid values, and the names of fields without one.
async fn steps(subject: &Subject) -> (Vec<Step>, Vec<String>) {
    let base = subject.admitted(&subject.base).await.expect("the base must be valid");
    let (mut steps, mut missed) = (Vec::new(), Vec::new());
    for field in fields(&subject.schema) {
        let mut seen = vec![base.clone()];
        let mut values = Vec::new();
        for value in &field.values {
            if values.len() == VALUES_PER_FIELD {
                break;
            }
            let mut spec = subject.base.clone();
            merge(&mut spec, &field.patch(Some(value)));
            if let Some(admitted) = subject.admitted(&spec).await.filter(|admitted| !seen.contains(admitted))
            {
                seen.push(admitted);
                values.push(value.clone());
            }
        }
        if values.is_empty() {
            missed.push(field.name());
        } else {
            steps.push(Step { field, values });
        }
    }
    (steps, missed)
}

/// Returns the objects that contain the fields. They are removed as a whole and reappear when one
/// of their fields is set. The API server rejects the removal of required objects.
fn containers(steps: &[Step]) -> Vec<Field> {
    let paths = steps.iter().map(|step| &step.field.path);
    let within: BTreeSet<_> =
        paths.flat_map(|path| (1..path.len()).map(|length| path[..length].to_vec())).collect();
    within.into_iter().map(|path| Field { path, values: Vec::new() }).collect()
}

/// Returns one round of operations, last operation first. In random order: for each field two
/// values, its removal, and the first value again, and in between the removal of each object.
fn plan<'s>(steps: &'s [Step], containers: &'s [Field], rng: &mut fastrand::Rng) -> Vec<Operation<'s>> {
    let mut groups: Vec<Vec<Operation<'s>>> = containers.iter().map(|whole| vec![(whole, None)]).collect();
    for Step { field, values } in steps {
        let first = rng.choice(values);
        let second = rng.choice(values);
        let stays = if rng.bool() { first } else { None };
        groups.push(
            [(field, first), (field, second), (field, None), (field, stays)].into_iter().rev().collect(),
        );
    }
    rng.shuffle(&mut groups);
    groups.concat()
}

/// Applies a merge patch.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
