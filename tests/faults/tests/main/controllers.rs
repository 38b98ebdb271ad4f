//! Executes a part of the matrix for every controller: a crash after each write, and a conflict at
//! each write.

use faults::{
    matrix::run,
    report::{failure_line, summary, table},
    selection::Selection,
    workload::{self, CONTROLLERS, Workload},
};

use crate::support::program;

/// One of this number of shards is executed here; `cargo xtask faults` executes all.
const PARTS: usize = 8;

/// The workloads of PostgresClusters that are executed here. Each run creates a cluster, member by member.
const POSTGRES: [&str; 3] = ["create-single", "scale-up", "failover"];

/// Returns the names of the workloads that are executed here.
fn workloads() -> Vec<String> {
    let all = CONTROLLERS.iter().flat_map(|controller| workload::of(controller));
    let selected =
        all.filter(|workload| workload.controller != "postgres" || POSTGRES.contains(&workload.name));
    selected.map(Workload::full_name).collect()
}

#[tokio::test]
async fn controllers_converge_after_crashes_and_conflicts() {
    let classes = ["F1", "F4"].map(|class| class.parse().unwrap());
    let selection =
        Selection { workloads: workloads(), classes: classes.into(), shard: (1, PARTS), ..Selection::all() };
    let verdicts = run(&program(), &selection).await.unwrap();
    println!("{}\n{}", table(&verdicts), summary(&verdicts));
    let bad: Vec<_> = verdicts.iter().filter(|verdict| !verdict.is_good()).map(failure_line).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    for controller in selection.controllers {
        let injected = verdicts.iter().filter(|run| run.id.controller == controller && run.injected).count();
        assert!(injected > 5, "{controller}: {injected}");
    }
}
