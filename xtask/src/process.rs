//! What a process costs, as `/proc` tells it.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// The memory that a process has in use, in MiB.
///
/// # Errors
/// Where there is no `/proc`, or the process is gone.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

/// The most memory that a process ever had in use, in MiB. Errors as in [`resident`].
pub(crate) fn peak(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// The processor time that the living threads of a process have had. Errors as in [`resident`].
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let folder = format!("/proc/{pid}/task");
    let mut total = 0;
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        // A thread may end while we look.
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
    fn this_process_uses_memory_and_time() {
        let pid = std::process::id();
        let began = cpu(pid).unwrap();
        while cpu(pid).unwrap() == began {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        // In this order: other tests of this process may need more at any moment.
        let resident = resident(pid).unwrap();
        assert!(resident > 1.0);
        assert!(peak(pid).unwrap() >= resident);
    }
}
