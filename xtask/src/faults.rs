//! `faults`: everything that may go wrong between the manager and the API server, one thing at a time.

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
    workload::CONTROLLERS,
};

/// Strikes at every write and notification of the controllers, and judges what comes of it.
#[derive(Args)]
pub(crate) struct Faults {
    /// The controllers; all if none is named
    #[arg(long, value_delimiter = ',')]
    controllers: Vec<String>,

    /// The classes of faults, such as F1,F4; all if none is named
    #[arg(long, value_delimiter = ',')]
    classes: Vec<Class>,

    /// One run by its name, such as podset/scale-up/F1/w7
    #[arg(long)]
    only: Option<RunId>,

    /// A part of the runs: 2/3 is the second of three
    #[arg(long, value_parser = shard, default_value = "1/1")]
    shard: (usize, usize),

    /// Only print the names of the runs
    #[arg(long)]
    list: bool,

    /// How long a run may take until all is as it should be, in seconds
    #[arg(long, default_value_t = 60)]
    patience: u64,

    /// What part of 1 s, 5 s and 30 s slow requests take longer
    #[arg(long, default_value_t = 0.1)]
    latency: f64,

    /// Run nothing, and put results together that were written by --output; of a run that is in several, the last counts
    #[arg(long, value_delimiter = ',')]
    join: Vec<PathBuf>,

    /// Where to write the result as JSON, and the table as Markdown beside it
    #[arg(long)]
    output: Option<PathBuf>,
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let read = || {
        let (part, parts) = text.split_once('/')?;
        let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
        (1..=parts).contains(&part).then_some((part, parts))
    };
    read().ok_or_else(|| "use a part and how many there are, such as 2/3".to_owned())
}

impl Faults {
    pub(crate) async fn run(self) -> Result<()> {
        if !self.join.is_empty() {
            let mut verdicts = BTreeMap::new();
            for path in &self.join {
                let text = std::fs::read_to_string(path);
                let runs = read(&text.with_context(|| format!("read {}", path.display()))?)?;
                verdicts.extend(runs.into_iter().map(|run| (run.id.clone(), run)));
            }
            return self.tell(&verdicts.into_values().collect::<Vec<_>>());
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
        ensure!(!verdicts.is_empty(), "no such run is planned; `cargo xtask faults --list` names them");
        self.tell(&verdicts)
    }

    fn tell(&self, verdicts: &[Verdict]) -> Result<()> {
        println!("\n{}\n{}", table(verdicts), summary(verdicts));
        if let Some(path) = &self.output {
            let text = serde_json::to_string_pretty(&document(verdicts))?;
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
            let page = path.with_extension("md");
            std::fs::write(&page, format!("{}\n{}\n", table(verdicts), summary(verdicts)))
                .with_context(|| format!("write {}", page.display()))?;
        }
        let bad = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
        if bad > 0 {
            bail!(
                "{bad} runs are not as they should be; each is named above with the command that repeats it"
            );
        }
        Ok(())
    }

    fn selection(&self) -> Result<Selection> {
        let mut selection = Selection::all();
        for name in &self.controllers {
            ensure!(
                CONTROLLERS.contains(&name.as_str()),
                "there is no controller {name:?}; known are {}",
                CONTROLLERS.join(", ")
            );
        }
        if !self.controllers.is_empty() {
            selection.controllers.retain(|known| self.controllers.iter().any(|name| name == known));
        }
        if !self.classes.is_empty() {
            selection.classes.retain(|class| self.classes.contains(class));
        } else if let Err(missing) = clock::ahead(0) {
            println!("left out: {missing}");
            selection.classes.retain(|class| !class.is_about_clocks());
        }
        if let Some(only) = &self.only {
            selection.classes = vec![only.class];
        }
        selection.only.clone_from(&self.only);
        selection.shard = self.shard;
        selection.patience = Duration::from_secs(self.patience);
        selection.latency = self.latency;
        Ok(selection)
    }
}
