//! The upgrade of the data to another major version, and the statistics that it does not transfer.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use postgres_model::{
    instance::{MajorVersions, Observed, Plan, Task},
    report::UpgradeReport,
};
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use super::Instance;
use crate::{
    control_data,
    programs::Programs,
    tasks::RunningTask,
    upgrade::{Upgrade, data_version},
};

/// Parameter with libraries that extensions can need.
const LIBRARIES: &str = "shared_preload_libraries";
/// First major version to which `pg_upgrade` transfers most statistics.
const FIRST_WITH_STATISTICS: u16 = 18;
/// Time between two attempts to collect statistics.
const RETRY: Duration = Duration::from_mins(1);

impl Instance {
    pub(super) fn versions(&self) -> Result<MajorVersions> {
        // Both versions are known in a Pod for an upgrade only, and matter there only.
        let data = self.previous.as_ref().map(|_| data_version(&self.volume.data())).transpose()?;
        Ok(MajorVersions {
            programs: self.server.fixed.major_version,
            data: data.flatten(),
            upgrade_failed: self.upgrade_attempts.failure().is_some(),
        })
    }

    /// Returns the programs that can read a data directory.
    pub(super) fn programs_for(&self, data: &Path) -> Result<&Programs> {
        let Some(previous) = &self.previous else { return Ok(&self.server.programs) };
        let is_former = data_version(data)? == Some(previous.major_version);
        Ok(if is_former { &previous.programs } else { &self.server.programs })
    }

    pub(super) fn upgrade(&mut self) -> Result<()> {
        let previous = self.previous.as_ref().context("the Pod has no programs of the former version")?;
        self.upgrade_attempts.begin()?;
        self.volume.clear_partial()?;
        let upgrade = Upgrade {
            programs: self.server.programs.clone(),
            major_version: self.server.fixed.major_version,
            previous: previous.programs.clone(),
            data: self.volume.data(),
            partial: self.volume.partial(),
            scratch: self.volume.root().join("upgrade"),
            sockets: self.socket.clone(),
            libraries: self.parameters.accepted().get(LIBRARIES).cloned(),
        };
        info!(from = previous.major_version, to = upgrade.major_version, "upgrading the data");
        self.task = Some(RunningTask::start(Task::Upgrade, upgrade.run()));
        Ok(())
    }

    /// Replaces the data directory by the upgraded one.
    pub(super) async fn complete_upgrade(&mut self) -> Result<()> {
        let upgraded = control_data::read(&self.server.programs, &self.volume.partial()).await?;
        self.volume.update(|state| state.upgraded = Some(upgraded.system_identifier))?;
        Ok(self.volume.finish_upgrade()?)
    }

    /// Notes why the data could not be upgraded, after they are usable again.
    pub(super) fn upgrade_failed(&mut self, reason: &anyhow::Error) {
        let noted = self.volume.restore_control_file().map_err(anyhow::Error::from);
        let noted = noted.and_then(|()| self.upgrade_attempts.fail(format!("{reason:#}")));
        if let Err(error) = noted {
            error!(error = format!("{error:#}"), "cannot note why the upgrade failed; trying again");
        }
    }

    /// Returns what the member reports about the upgrade that it is asked for.
    pub(super) fn upgrade_report(&self, plan: &Plan, observed: &Observed) -> Option<UpgradeReport> {
        observed.cluster.as_ref()?.upgrade?;
        let failure = self.upgrade_attempts.failure().map(str::to_owned);
        let failure = failure.or_else(|| plan.problem.map(|problem| problem.to_string()));
        Some(UpgradeReport { data_version: observed.versions.data?, failure })
    }

    /// Has the primary collect statistics once after an upgrade. Without them, it plans queries badly.
    pub(super) fn consider_statistics(&mut self, is_primary: bool) {
        let is_done = self.analysis.as_ref().is_some_and(AbortOnDropHandle::is_finished);
        if is_done || !is_primary {
            self.analysis = None;
        }
        if is_done {
            match self.volume.update(|state| state.lacks_statistics = false) {
                Ok(()) => info!("PostgreSQL has statistics"),
                Err(error) => {
                    warn!(%error, "cannot note that PostgreSQL has statistics; collecting them again");
                }
            }
        } else if is_primary && self.volume.state().lacks_statistics && self.analysis.is_none() {
            info!("collecting the statistics that pg_upgrade does not transfer");
            let programs = self.server.programs.clone();
            let mut arguments = vec![format!("--host={}", self.socket.display())];
            arguments.extend(["--username=postgres", "--all", "--analyze-in-stages"].map(str::to_owned));
            if self.server.fixed.major_version >= FIRST_WITH_STATISTICS {
                arguments.push("--missing-stats-only".to_owned());
            }
            self.analysis = Some(AbortOnDropHandle::new(tokio::spawn(collect(programs, arguments))));
        }
    }
}

/// Collects statistics, until that succeeds.
async fn collect(programs: Programs, arguments: Vec<String>) {
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    while let Err(error) = programs.output("vacuumdb", &arguments).await {
        warn!(%error, "cannot collect statistics; trying again");
        sleep(RETRY).await;
    }
}
