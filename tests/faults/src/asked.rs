//! What is asked for.

use std::time::Duration;

use crate::{
    class::Class,
    id::RunId,
    plan::Planned,
    workload::{self, Workload},
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The controllers.
    pub controllers: Vec<&'static str>,
    /// The classes of faults.
    pub classes: Vec<Class>,
    /// The one run, if it is one.
    pub only: Option<RunId>,
    /// Which part of how many of the runs: the first is 1.
    pub shard: (usize, usize),
    /// How long a run may take until it is as it should be.
    pub patience: Duration,
    /// What part of 1 s, 5 s and 30 s slow requests take longer.
    pub latency: f64,
}

impl Asked {
    /// Everything.
    pub fn everything() -> Self {
        Self {
            controllers: workload::CONTROLLERS.into(),
            classes: Class::all().collect(),
            only: None,
            shard: (1, 1),
            patience: Duration::from_mins(1),
            latency: 0.1,
        }
    }

    /// Whether a workload is needed.
    pub fn wants(&self, workload: &Workload) -> bool {
        let only = self.only.as_ref();
        self.controllers.contains(&workload.controller)
            && only.is_none_or(|id| id.controller == workload.controller && id.workload == workload.name)
    }

    /// The runs of a plan that are asked for.
    pub fn pick(&self, planned: Vec<Planned>) -> Vec<Planned> {
        if let Some(only) = &self.only {
            return planned.into_iter().filter(|run| run.id == *only).collect();
        }
        planned.into_iter().filter(|run| is_in(&run.id.to_string(), self.shard)).collect()
    }
}

/// Whether a name is in a part. It always is in the same, whatever other names there are.
fn is_in(name: &str, (part, parts): (usize, usize)) -> bool {
    let sum = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % parts.max(1) == part.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_in_one_part_and_the_parts_are_about_equal() {
        let names: Vec<_> = (1..=300).map(|nth| format!("podset/create/F1/w{nth}")).collect();
        for name in &names {
            assert_eq!((1..=3).filter(|part| is_in(name, (*part, 3))).count(), 1, "{name}");
        }
        for part in 1..=3 {
            let size = names.iter().filter(|name| is_in(name, (part, 3))).count();
            assert!((70..=130).contains(&size), "{part}: {size}");
        }
    }
}
