//! Definitions of metrics.

/// Definition of a metric.
#[derive(Debug)]
pub struct Metric {
    /// Name without the unit and without the suffix of the type.
    pub(super) stem: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit; `None` for counts.
    pub unit: Option<Unit>,
    /// Labels in the order in which they are written.
    pub labels: &'static [Label],
    /// Help text without a full stop.
    pub help: &'static str,
    /// Upper bounds of a histogram's buckets.
    pub bounds: &'static [f64],
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Increases from the start of the process.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts observations in buckets, with their sum and number.
    Histogram,
    /// Always 1; the labels carry the information.
    Info,
}

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Label of a metric.
#[derive(Debug)]
pub struct Label {
    /// Name.
    pub name: &'static str,
    /// Possible values.
    pub values: Values,
}

/// Possible values of a label.
#[derive(Debug)]
pub enum Values {
    /// The name of a controller.
    Controllers,
    /// One of these values.
    These(fn() -> Vec<&'static str>),
    /// Few values, as this text describes.
    Few(&'static str),
}

impl Kind {
    /// Returns the name of the type in OpenMetrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

impl Unit {
    /// Returns the name of the unit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
        }
    }
}

impl Metric {
    const fn new(stem: &'static str, kind: Kind, labels: &'static [Label], help: &'static str) -> Self {
        Self { stem, kind, unit: None, labels, help, bounds: &[] }
    }

    /// Creates a counter.
    pub const fn counter(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Counter, labels, help)
    }

    /// Creates a gauge.
    pub const fn gauge(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Gauge, labels, help)
    }

    /// Creates information about the process.
    pub const fn info(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Info, labels, help)
    }

    /// Creates a histogram of durations in seconds.
    pub const fn histogram(
        stem: &'static str,
        labels: &'static [Label],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self { bounds, ..Self::new(stem, Kind::Histogram, labels, help).of(Unit::Seconds) }
    }

    /// Creates the same metric with a unit.
    #[must_use]
    pub const fn of(self, unit: Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// Returns the name of the metric. The series of a histogram append `_bucket`, `_sum`, and
    /// `_count` to it.
    pub fn name(&self) -> String {
        let family = self.family();
        match self.kind {
            Kind::Counter => format!("{family}_total"),
            Kind::Info => format!("{family}_info"),
            Kind::Gauge | Kind::Histogram => family,
        }
    }

    /// Returns the help text as a sentence.
    pub fn sentence(&self) -> String {
        format!("{}.", self.help)
    }

    /// Returns the names of the series.
    pub fn series(&self) -> Vec<String> {
        let name = self.name();
        match self.kind {
            Kind::Histogram => ["bucket", "sum", "count"].map(|part| format!("{name}_{part}")).into(),
            _ => vec![name],
        }
    }

    /// Returns the name in the `# TYPE` line.
    pub fn family(&self) -> String {
        match self.unit {
            Some(unit) => format!("{}_{}", self.stem, unit.as_str()),
            None => self.stem.to_owned(),
        }
    }
}
