//! The way through the fields of a kind.

use std::collections::BTreeSet;

use operations::{Field, fields};
use serde_json::Value;

use crate::subject::Subject;

/// How many changes are made unless it is said otherwise: enough to notice, few enough for every run of the tests.
const OPERATIONS: usize = 24;

/// How many values of a field are used.
const ENOUGH: usize = 6;

/// A field with the values that the API server takes for it, each of which makes a difference.
struct Step {
    field: Field,
    values: Vec<Value>,
}

/// One change: a field, and what it is set to; nothing takes it away.
type Operation<'s> = (&'s Field, Option<&'s Value>);

/// Changes an object again and again, and each time compares it with a new one. `unreached` are the fields for which no
/// value was found.
pub(crate) async fn walk(subject: &Subject, unreached: &[String]) {
    let (steps, missed) = steps(subject).await;
    let wholes = wholes(&steps);
    assert_eq!(missed, unreached, "fields without a value that the API server takes");
    let count = from_environment("ENSEMBLE_OPERATIONS").unwrap_or(OPERATIONS);
    let seed = from_environment("ENSEMBLE_OPERATIONS_SEED").unwrap_or(1);
    let mut lot = fastrand::Rng::with_seed(u64::try_from(seed).unwrap());
    let long_lived = name(&mut lot);
    subject.create(&long_lived, &subject.base).await.unwrap();
    let (mut made, mut planned) = (0, Vec::new());
    while made < count {
        if planned.is_empty() {
            planned = plan(&steps, &wholes, &mut lot);
        }
        let (field, value) = planned.pop().expect("a plan has operations");
        let Some(spec) = subject.change(&long_lived, &field.patch(value)).await else { continue };
        let new = name(&mut lot);
        subject.create(&new, &spec).await.unwrap();
        let change = format!("{} = {}", field.name(), value.cloned().unwrap_or_default());
        subject.until_alike(&long_lived, &new, &change).await;
        subject.delete(&new).await;
        made += 1;
    }
    subject.delete(&long_lived).await;
    println!("{made} changes of {} fields, each like a new object (seed {seed})", steps.len());
}

fn from_environment(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn name(lot: &mut fastrand::Rng) -> String {
    let drawn: String = (0..6).map(|_| lot.lowercase()).collect();
    // Also apart from those of other runs on the same cluster.
    format!("op-{drawn}{:x}", std::process::id())
}

/// The fields of the schema with their values, and the names of those for which there is none.
async fn steps(subject: &Subject) -> (Vec<Step>, Vec<String>) {
    let base = subject.admitted(&subject.base).await.expect("the base makes sense");
    let (mut steps, mut missed) = (Vec::new(), Vec::new());
    for field in fields(&subject.schema) {
        let mut seen = vec![base.clone()];
        let mut values = Vec::new();
        for value in &field.values {
            if values.len() == ENOUGH {
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

/// The objects that the fields lie in, without values of their own: they are taken away as a whole, and come back with
/// the next field that is set in them. The API server refuses it of those that must be there.
fn wholes(steps: &[Step]) -> Vec<Field> {
    let paths = steps.iter().map(|step| &step.field.path);
    let within: BTreeSet<_> =
        paths.flat_map(|path| (1..path.len()).map(|length| path[..length].to_vec())).collect();
    within.into_iter().map(|path| Field { path, values: Vec::new() }).collect()
}

/// One round, last operation first: of each field, by lot, two values, nothing, and the first value again; and between
/// these each object as a whole. What one leaves the next finds.
fn plan<'s>(steps: &'s [Step], wholes: &'s [Field], lot: &mut fastrand::Rng) -> Vec<Operation<'s>> {
    let mut groups: Vec<Vec<Operation<'s>>> = wholes.iter().map(|whole| vec![(whole, None)]).collect();
    for Step { field, values } in steps {
        let first = lot.choice(values);
        let second = lot.choice(values);
        let stays = if lot.bool() { first } else { None };
        groups.push(
            [(field, first), (field, second), (field, None), (field, stays)].into_iter().rev().collect(),
        );
    }
    lot.shuffle(&mut groups);
    groups.concat()
}

/// Merges a patch, as the API server does.
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
