//! A part of the whole, for every controller: a crash after each write, and a conflict at each.

use faults::{
    asked::Asked,
    matrix::run,
    report::{complaint, summary, table},
};

use crate::support::program;

/// One of so many runs is tried here; `cargo xtask faults` tries all.
const PARTS: usize = 8;

#[tokio::test]
async fn crashes_after_writes_and_conflicts_leave_nothing_undone_and_nothing_done_twice() {
    let classes = ["F1", "F4"].map(|class| class.parse().unwrap());
    let asked = Asked { classes: classes.into(), shard: (1, PARTS), ..Asked::everything() };
    let verdicts = run(&program(), &asked).await.unwrap();
    println!("{}\n{}", table(&verdicts), summary(&verdicts));
    let bad: Vec<_> = verdicts.iter().filter(|verdict| !verdict.is_good()).map(complaint).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    for controller in asked.controllers {
        let struck = verdicts.iter().filter(|run| run.id.controller == controller && run.struck).count();
        assert!(struck > 5, "{controller}: {struck}");
    }
}
