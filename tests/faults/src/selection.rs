//! Selects the runs of a matrix.

use std::time::Duration;

use crate::{
    class::Class,
    id::RunId,
    plan::Planned,
    workload::{self, Workload},
};

/// Selection of runs.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The controllers.
    pub controllers: Vec<&'static str>,
    /// Names of the workloads, such as `podset/create`; all of the controllers if empty.
    pub workloads: Vec<String>,
    /// The fault classes.
    pub classes: Vec<Class>,
    /// The single run to execute, if set.
    pub only: Option<RunId>,
    /// The shard and the number of shards. Shards are counted from 1.
    pub shard: (usize, usize),
    /// Timeout for a run to converge.
    pub patience: Duration,
    /// Fraction of the latencies of 1 s, 5 s, and 30 s in runs with slow requests.
    pub latency: f64,
}

impl Selection {
    /// Selects all runs.
    pub fn all() -> Self {
        Self {
            controllers: workload::CONTROLLERS.clone(),
            workloads: Vec::new(),
            classes: Class::all().collect(),
            only: None,
            shard: (1, 1),
            patience: Duration::from_mins(1),
            latency: 0.1,
        }
    }

    /// Returns whether a run of the workload may be selected.
    pub fn includes(&self, workload: &Workload) -> bool {
        let only = self.only.as_ref();
        self.controllers.contains(&workload.controller)
            && (self.workloads.is_empty() || self.workloads.contains(&workload.full_name()))
            && only.is_none_or(|id| id.controller == workload.controller && id.workload == workload.name)
    }

    /// Filters planned runs.
    pub fn filter(&self, planned: Vec<Planned>) -> Vec<Planned> {
        if let Some(only) = &self.only {
            return planned.into_iter().filter(|run| run.id == *only).collect();
        }
        planned.into_iter().filter(|run| is_in(&run.id.to_string(), self.shard)).collect()
    }
}

/// Returns whether a name belongs to a shard. The result depends only on the name.
fn is_in(name: &str, (part, parts): (usize, usize)) -> bool {
    let sum = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % parts.max(1) == part.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_workloads_by_name() {
        let selection = Selection { workloads: vec!["podset/create".to_owned()], ..Selection::all() };
        let all = workload::CONTROLLERS.iter().flat_map(|controller| workload::of(controller));
        let selected: Vec<_> = all.filter(|workload| selection.includes(workload)).collect();
        assert_eq!(
            selected.iter().map(|workload| workload.full_name()).collect::<Vec<_>>(),
            ["podset/create"]
        );
    }

    #[test]
    fn every_name_is_in_one_shard_of_similar_size() {
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
