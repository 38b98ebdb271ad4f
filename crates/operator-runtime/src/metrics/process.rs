//! Resource usage of the process, under the standard names of Prometheus clients.

use std::fmt;

use procfs::{
    ProcResult,
    process::{LimitValue, Process as ProcProcess, Stat},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit as RegisteredUnit,
};

use super::{
    metric::Metric,
    reference::{
        PROCESS_CPU, PROCESS_FDS, PROCESS_MAX_FDS, PROCESS_RESIDENT, PROCESS_START, PROCESS_THREADS,
        PROCESS_VIRTUAL,
    },
};

/// Reads `/proc`. Without `/proc`, these metrics are missing.
#[derive(Debug)]
pub(super) struct Process {
    /// Clock ticks per second, the unit of times in `/proc`.
    ticks: f64,
    /// Boot time in seconds since 1970.
    boot: Option<u64>,
}

/// Values from `/proc`.
struct Sample {
    stat: Stat,
    fds: usize,
    max_fds: Option<u64>,
}

impl Process {
    pub(super) fn new() -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a hundred or so")]
        let ticks = procfs::ticks_per_second() as f64;
        Self { ticks, boot: procfs::boot_time_secs().ok() }
    }

    /// Converts clock ticks to seconds.
    #[allow(clippy::cast_precision_loss, reason = "exact for more years than machines last")]
    fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks
    }

    #[allow(clippy::cast_precision_loss, reason = "seconds since 1970 are exact")]
    fn encode_sample(&self, encoder: &mut DescriptorEncoder<'_>, sample: &Sample) -> fmt::Result {
        let Sample { stat, fds, max_fds } = sample;
        cpu(encoder, self.seconds(stat.utime + stat.stime))?;
        gauge(encoder, &PROCESS_RESIDENT, stat.rss.saturating_mul(procfs::page_size()))?;
        gauge(encoder, &PROCESS_VIRTUAL, stat.vsize)?;
        gauge(encoder, &PROCESS_FDS, u64::try_from(*fds).unwrap_or(u64::MAX))?;
        if let Some(limit) = *max_fds {
            gauge(encoder, &PROCESS_MAX_FDS, limit)?;
        }
        gauge(encoder, &PROCESS_THREADS, stat.num_threads)?;
        match self.boot {
            Some(boot) => gauge(encoder, &PROCESS_START, boot as f64 + self.seconds(stat.starttime)),
            None => Ok(()),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        match read() {
            Ok(sample) => self.encode_sample(&mut encoder, &sample),
            Err(_) => Ok(()),
        }
    }
}

fn read() -> ProcResult<Sample> {
    let process = ProcProcess::myself()?;
    let max_fds = match process.limits()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(limit),
        LimitValue::Unlimited => None,
    };
    Ok(Sample { stat: process.stat()?, fds: process.fd_count()?, max_fds })
}

fn cpu(encoder: &mut DescriptorEncoder<'_>, seconds: f64) -> fmt::Result {
    let metric = &PROCESS_CPU;
    let unit = RegisteredUnit::Seconds;
    let counter =
        encoder.encode_descriptor(metric.stem, &metric.sentence(), Some(&unit), MetricType::Counter)?;
    ConstCounter::new(seconds).encode(counter)
}

fn gauge<N>(encoder: &mut DescriptorEncoder<'_>, metric: &'static Metric, value: N) -> fmt::Result
where
    N: EncodeGaugeValue,
    ConstGauge<N>: EncodeMetric,
{
    let unit = metric.unit.map(RegisteredUnit::from);
    let gauge =
        encoder.encode_descriptor(metric.stem, &metric.sentence(), unit.as_ref(), MetricType::Gauge)?;
    ConstGauge::new(value).encode(gauge)
}
