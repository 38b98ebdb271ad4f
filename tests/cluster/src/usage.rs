//! Memory and CPU time of a process, from `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// Returns the resident memory of a process in MiB.
///
/// # Errors
/// Returns an error if there is no `/proc`, or if the process has ended.
pub fn resident(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

/// Returns the peak resident memory of a process in MiB. Errors as in [`resident`].
pub fn peak(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// Returns the CPU time of the running threads of a process. Errors as in [`resident`].
pub fn cpu(pid: u32) -> Result<Duration> {
    let folder = format!("/proc/{pid}/task");
    let mut total = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // The thread may have ended.
        let times = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        total += times.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(Duration::from_nanos(total))
}

/// Returns the time since a process has started, to a hundredth of a second. Errors as in
/// [`resident`].
pub fn age(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name of the program can contain spaces.
    let started = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(START_TIME));
    let started: f64 = started.with_context(|| format!("{path} has no start time"))?.parse()?;
    let uptime = fs::read_to_string("/proc/uptime").context("cannot read /proc/uptime")?;
    let uptime: f64 = uptime.split(' ').next().context("/proc/uptime is empty")?.parse()?;
    Ok(Duration::from_secs_f64((uptime - started / TICKS).max(0.0)))
}

/// Index of the start time among the fields of `/proc/PID/stat` that follow the name.
const START_TIME: usize = 19;
/// Ticks of a second in `/proc`, on all platforms of Linux.
const TICKS: f64 = 100.0;

fn status(pid: u32, field: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    let kibibytes: f64 = kibibytes.with_context(|| format!("{path} has no {field}"))?.trim().parse()?;
    Ok(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_uses_memory_and_cpu() {
        let pid = std::process::id();
        let began = cpu(pid).unwrap();
        while cpu(pid).unwrap() == began {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        // Read `resident` first: other tests of this process may allocate at any time.
        let resident = resident(pid).unwrap();
        assert!(resident > 1.0);
        assert!(peak(pid).unwrap() >= resident);
        assert!(age(pid).unwrap() < Duration::from_hours(1));
    }
}
