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
    }
}
