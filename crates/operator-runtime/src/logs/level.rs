//! Log filter that can be changed at run time.

use std::{fmt, sync::Arc};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tracing::{enabled, info, level_filters::LevelFilter};
use tracing_subscriber::{EnvFilter, Registry, reload};

/// kube logs every failed attempt of a request without naming it, and prints the whole body of a
/// response that it cannot parse, which may be a Secret. The callers log failures once. A filter
/// that names these targets enables them again.
const QUIET: &str = "kube_client::client=error,kube_client::client::builder=off,kube_runtime::watcher=error";

/// The current log filter. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Level {
    /// The filter as it was set. Locked during a change, so that it always matches the active one.
    filter: Arc<Mutex<String>>,
    handle: reload::Handle<EnvFilter, Registry>,
}

/// Creates a log filter and the handle that changes it.
///
/// # Errors
/// Returns an error if the filter is invalid.
pub(super) fn adjustable(filter: &str) -> Result<(reload::Layer<EnvFilter, Registry>, Level)> {
    let (layer, handle) = reload::Layer::new(parse(filter)?);
    Ok((layer, Level { filter: Arc::new(Mutex::new(filter.to_owned())), handle }))
}

impl Level {
    /// Returns the current filter as it was set.
    pub fn get(&self) -> String {
        self.filter.lock().clone()
    }

    /// Sets and logs a new filter. Setting the current one again has no effect.
    ///
    /// # Errors
    /// Returns an error if the filter is invalid. The previous one stays active.
    pub fn set(&self, filter: &str) -> Result<()> {
        let parsed = parse(filter)?;
        let mut current = self.filter.lock();
        if *current == filter {
            return Ok(());
        }
        let previous = std::mem::replace(&mut *current, filter.to_owned());
        // Log the change once, with the first of the two filters that allows it.
        let is_logged = enabled!(tracing::Level::INFO);
        let log_change = || info!(from = previous, to = filter, "the log level has changed");
        if is_logged {
            log_change();
        }
        self.handle.reload(parsed).context("cannot change the log level: logging has ended")?;
        if !is_logged {
            log_change();
        }
        Ok(())
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Level").field(&self.get()).finish()
    }
}

fn parse(filter: &str) -> Result<EnvFilter> {
    // A directive without `=` is a target, so a misspelt level would disable all logs.
    for directive in filter.split(',').map(str::trim) {
        let is_level = !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
        if !is_level && !directive.contains(['=', '[']) {
            bail!(
                "`{directive}` is no log level; use off, error, warn, info, debug or trace, or directives such as \
                 info,kube=debug"
            );
        }
    }
    EnvFilter::try_new(format!("{QUIET},{filter}"))
        .with_context(|| format!("`{filter}` is no log filter; use a level such as info, or info,kube=debug"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use tracing::{debug, subscriber::with_default};
    use tracing_subscriber::{Layer, layer::SubscriberExt};

    use super::*;

    /// Destination of log lines in a test.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        fn lines(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the log lines that are written while `work` runs, starting with this filter.
    fn logged(filter: &str, work: impl FnOnce(&Level)) -> Vec<String> {
        let log = Log::default();
        let writer = log.clone();
        let (filter, level) = adjustable(filter).unwrap();
        let lines = tracing_subscriber::fmt::layer().without_time().with_target(false);
        let lines = lines.with_ansi(false).with_writer(move || writer.clone()).with_filter(filter);
        with_default(tracing_subscriber::registry().with(lines), || work(&level));
        log.lines()
    }

    #[test]
    fn new_level_applies_and_is_logged_once() {
        let lines = logged("info", |level| {
            debug!("before");
            level.set("debug").unwrap();
            assert_eq!(level.get(), "debug");
            debug!("between");
            level.set("debug").unwrap();
            level.set("warn").unwrap();
            info!("after");
            level.set("info").unwrap();
        });
        let changed =
            |from: &str, to: &str| format!(" INFO the log level has changed from=\"{from}\" to=\"{to}\"");
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(
            lines,
            [&changed("info", "debug"), "DEBUG between", &changed("debug", "warn"), &changed("warn", "info")]
        );
    }

    #[test]
    fn invalid_filter_keeps_current_one() {
        let lines = logged("info", |level| {
            for (invalid, expected) in [
                ("verbose", "`verbose` is no log level; use off, error"),
                ("", "`` is no log level"),
                ("info,kube=loud", "`info,kube=loud` is no log filter"),
            ] {
                let error = format!("{:#}", level.set(invalid).unwrap_err());
                assert!(error.contains(expected), "{invalid}: {error}");
            }
            assert_eq!(level.get(), "info");
            info!("unchanged");
        });
        assert_eq!(lines, [" INFO unchanged"]);
    }

    #[test]
    fn accepts_levels_and_directives() {
        for filter in ["info", "WARN", "off", "info,kube=debug", "warn,podset[reconcile{name=a}]=trace"] {
            parse(filter).unwrap();
        }
    }
}
