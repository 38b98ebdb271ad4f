//! Which parameters of the spec PostgreSQL accepts.
//!
//! A server with an invalid value in its configuration does not start. So new parameters are checked by
//! `postgres -C` first, and those that it refuses are reported and not used.

use std::{fs, io, path::Path, time::Duration};

use anyhow::{Context, Result};
use postgres_model::{
    instance::Moment,
    parameters::{Parameters, fingerprint},
    report::shortened,
};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{
    clock::now,
    configuration::line,
    durable,
    programs::{ProgramError, Programs},
};

/// Keeps the accepted parameters on the volume.
const FILE: &str = "parameters.json";
/// Configuration that is checked.
const CANDIDATE: &str = "parameters.candidate.conf";
/// How long PostgreSQL may take to reload its configuration.
const RELOAD: Duration = Duration::from_secs(1);
/// How long a check may take.
const CHECK: Duration = Duration::from_secs(5);

/// The last parameters that PostgreSQL accepted.
#[derive(Debug, Default)]
pub(crate) struct AcceptedParameters {
    accepted: Parameters,
    refused: Option<Refused>,
    /// Fingerprint of the parameters that were considered last, and when.
    considered: Option<(u64, Moment)>,
    /// Fingerprint of the last ones whose effect PostgreSQL has told.
    settled: Option<u64>,
}

#[derive(Debug)]
struct Refused {
    parameters: Parameters,
    reason: String,
}

impl AcceptedParameters {
    /// Reads those of an earlier run.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn read(volume: &Path) -> Result<Self> {
        let path = volume.join(FILE);
        let accepted = match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .with_context(|| format!("{} is damaged; delete it", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Parameters::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Ok(Self { accepted, ..Self::default() })
    }

    /// Returns the parameters to use.
    pub(crate) fn accepted(&self) -> &Parameters {
        &self.accepted
    }

    /// Returns why the last parameters are not used.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refused.as_ref().map(|refused| refused.reason.as_str())
    }

    /// Returns the fingerprint of the last parameters whose effect PostgreSQL has told: whether it
    /// has to restart for them. `asked` is when it was asked last.
    pub(crate) fn settle(&mut self, asked: Moment) -> Option<u64> {
        if let Some((fingerprint, at)) = self.considered
            && asked >= at + RELOAD
        {
            self.settled = Some(fingerprint);
        }
        self.settled
    }

    /// Accepts or refuses parameters. Does nothing if they are known.
    ///
    /// # Errors
    /// Returns an error if they cannot be checked.
    pub(crate) async fn consider(
        &mut self,
        wanted: &Parameters,
        programs: &Programs,
        volume: &Path,
    ) -> Result<()> {
        if *wanted == self.accepted {
            self.refused = None;
        } else if self.refused.as_ref().is_none_or(|refused| refused.parameters != *wanted) {
            match check(wanted, programs, volume).await? {
                Ok(()) => self.accept(wanted, volume)?,
                Err(reason) => {
                    warn!(reason, "PostgreSQL refuses the parameters of the spec");
                    self.refused = Some(Refused { parameters: wanted.clone(), reason });
                }
            }
        }
        let fingerprint = fingerprint(wanted);
        if self.considered.is_none_or(|(known, _)| known != fingerprint) {
            self.considered = Some((fingerprint, now()));
        }
        Ok(())
    }

    fn accept(&mut self, wanted: &Parameters, volume: &Path) -> Result<()> {
        let json = serde_json::to_vec(wanted).context("cannot serialize the parameters")?;
        let path = volume.join(FILE);
        durable::write(&path, &json, 0o600).with_context(|| format!("cannot write {}", path.display()))?;
        info!("PostgreSQL accepts the parameters of the spec");
        (self.accepted, self.refused) = (wanted.clone(), None);
        Ok(())
    }
}

/// Returns why PostgreSQL refuses parameters, if it does.
async fn check(wanted: &Parameters, programs: &Programs, volume: &Path) -> Result<Result<(), String>> {
    let path = volume.join(CANDIDATE);
    let text: String = wanted.iter().map(|(name, value)| line(name, value)).collect();
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let file = format!("config_file={}", path.display());
    let args = ["-D".as_ref(), volume.as_os_str(), "-c".as_ref(), file.as_ref()];
    let args: Vec<_> = args.into_iter().chain(["-C".as_ref(), "port".as_ref()]).collect();
    let output = timeout(CHECK, programs.output("postgres", &args)).await;
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    match output.context("postgres does not check the parameters")? {
        Ok(_) => Ok(Ok(())),
        Err(ProgramError::Failed { message, .. }) => Ok(Err(reason(&message))),
        Err(error) => Err(error.into()),
    }
}

/// Returns what PostgreSQL says about parameters, without times, numbers of processes, and files.
fn reason(message: &str) -> String {
    let parts = message.split("; ").filter_map(|part| part.split_once("LOG:  "));
    let parts: Vec<_> = parts.map(|(_, text)| text.split(" in file ").next().unwrap_or(text)).collect();
    shortened(if parts.is_empty() { message.to_owned() } else { parts.join("; ") })
}

#[cfg(test)]
mod tests {
    use postgres_model::report::MAX_PROBLEM;

    use super::*;

    #[test]
    fn reason_is_what_postgresql_says_about_the_parameters() {
        let message = "2026-11-24 10:00:00.000 GMT [7] LOG:  invalid value for parameter \"work_mem\": \"lots\"; \
                       2026-11-24 10:00:00.000 GMT [7] LOG:  unrecognized configuration parameter \"x\" in file \
                       \"/v/parameters.candidate.conf\" line 2; 2026-11-24 10:00:00.000 GMT [7] FATAL:  \
                       configuration file \"/v/parameters.candidate.conf\" contains errors";
        assert_eq!(
            reason(message),
            "invalid value for parameter \"work_mem\": \"lots\"; unrecognized configuration parameter \"x\""
        );
        assert_eq!(reason("something else"), "something else");
        assert_eq!(reason(&"ä".repeat(MAX_PROBLEM)).len(), MAX_PROBLEM);
    }

    #[test]
    fn accepted_parameters_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AcceptedParameters::read(folder.path()).unwrap().accepted().is_empty());
        let parameters = Parameters::from([("work_mem".to_owned(), "8MB".to_owned())]);
        AcceptedParameters::default().accept(&parameters, folder.path()).unwrap();
        assert_eq!(*AcceptedParameters::read(folder.path()).unwrap().accepted(), parameters);
        fs::write(folder.path().join(FILE), "{").unwrap();
        let error = AcceptedParameters::read(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("parameters.json is damaged; delete it"), "{error}");
    }
}
