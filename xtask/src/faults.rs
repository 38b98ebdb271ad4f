//! `cargo xtask faults`: injects faults between the manager and the API server, one at a time.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use cluster::program::build_manager;
use faults::{
    class::Class,
    clock,
    id::RunId,
    matrix,
    report::{document, read, summary, table},
    run::Verdict,
    selection::Selection,
    workload::{CONTROLLERS, Workload, of},
};

/// Injects a fault at each write and each watch event of the controllers, and checks the result.
#[derive(Args)]
pub(crate) struct Faults {
    /// Controllers to test, all by default
    #[arg(long, value_delimiter = ',')]
    controllers: Vec<String>,

    /// Workloads to test, such as podset/create,tenant/join, all of the controllers by default
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,

    /// Classes of faults, such as F1,F4, all by default
    #[arg(long, value_delimiter = ',')]
    classes: Vec<Class>,

    /// Name of a single run, such as podset/scale-up/F1/w7
    #[arg(long)]
    only: Option<RunId>,

    /// Part of the runs, such as 2/3 for the second of three
    #[arg(long, value_parser = shard, default_value = "1/1")]
    shard: (usize, usize),

    /// Print the names of the runs without running them
    #[arg(long)]
    list: bool,

    /// Timeout of a run in seconds
    #[arg(long, default_value_t = 60)]
    timeout: u64,

    /// Factor for the latencies of 1 s, 5 s, and 30 s of slow requests
    #[arg(long, default_value_t = 0.1)]
    latency: f64,

    /// Merge results of --output without running anything; for runs in several results, the last
    /// one counts
    #[arg(long, value_delimiter = ',')]
    join: Vec<PathBuf>,

    /// File for the result as JSON; the table is written beside it as Markdown
    #[arg(long)]
    output: Option<PathBuf>,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let read = || {
        let (part, parts) = text.split_once('/')?;
        let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
        (1..=parts).contains(&part).then_some((part, parts))
    };
    read().ok_or_else(|| "use a part and the number of parts, such as 2/3".to_owned())
}

impl Faults {
    pub(crate) async fn run(self) -> Result<()> {
        if !self.join.is_empty() {
            let mut verdicts = BTreeMap::new();
            for path in &self.join {
                let text = std::fs::read_to_string(path);
                let runs = read(&text.with_context(|| format!("cannot read {}", path.display()))?)?;
                verdicts.extend(runs.into_iter().map(|run| (run.id.clone(), run)));
            }
            return self.report(&verdicts.into_values().collect::<Vec<_>>());
        }
        let selection = self.selection()?;
        println!("building the manager ...");
        let program = build_manager(false)?;
        if self.list {
            for planned in matrix::list(&program, &selection).await? {
                println!("{}  {}", planned.id, planned.description);
            }
            return Ok(());
        }
        let verdicts = matrix::run(&program, &selection).await?;
        ensure!(!verdicts.is_empty(), "no run matches; run `cargo xtask faults --list` to see their names");
        self.report(&verdicts)
    }

    /// Prints and writes the results.
    ///
    /// # Errors
    /// Returns an error if a run failed, or if a file cannot be written.
    fn report(&self, verdicts: &[Verdict]) -> Result<()> {
        println!("\n{}\n{}", table(verdicts), summary(verdicts));
        if let Some(path) = &self.output {
            let text = serde_json::to_string_pretty(&document(verdicts))?;
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
            let page = path.with_extension("md");
            std::fs::write(&page, format!("{}\n{}\n", table(verdicts), summary(verdicts)))
                .with_context(|| format!("cannot write {}", page.display()))?;
        }
        let failed = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
        if failed > 0 {
            bail!("{failed} runs failed; see above for the command that repeats each of them");
        }
        Ok(())
    }

    fn selection(&self) -> Result<Selection> {
        let mut selection = Selection::all();
        for name in &self.controllers {
            ensure!(
                CONTROLLERS.contains(&name.as_str()),
                "unknown controller {name:?}; use one of {}",
                CONTROLLERS.join(", ")
            );
        }
        let known = || CONTROLLERS.iter().flat_map(|controller| of(controller)).map(Workload::full_name);
        for name in &self.workloads {
            ensure!(
                known().any(|known| known == *name),
                "unknown workload {name:?}; use one of {}",
                known().collect::<Vec<_>>().join(", ")
            );
        }
        selection.workloads.clone_from(&self.workloads);
        if !self.controllers.is_empty() {
            selection.controllers.retain(|known| self.controllers.iter().any(|name| name == known));
        }
        if !self.classes.is_empty() {
            selection.classes.retain(|class| self.classes.contains(class));
        } else if let Err(missing) = clock::ahead(0) {
            println!("skipping the runs with clock faults: {missing}");
            selection.classes.retain(|class| !class.is_about_clocks());
        }
        if let Some(only) = &self.only {
            selection.classes = vec![only.class];
        }
        selection.only.clone_from(&self.only);
        selection.shard = self.shard;
        selection.patience = Duration::from_secs(self.timeout);
        selection.latency = self.latency;
        Ok(selection)
    }
}
