//! What there is to know about a metric before it measures anything.

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// The name without the unit and without what the type appends.
    pub(super) stem: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it is measured in, if not in things.
    pub unit: Option<Unit>,
    /// What tells its series apart, in the order in which they are written.
    pub labels: &'static [Label],
    /// What it says, as a sentence without its full stop.
    pub help: &'static str,
    /// The upper bounds of a histogram's buckets.
    pub bounds: &'static [f64],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from the start of the process.
    Counter,
    /// Grows and falls.
    Gauge,
    /// How many observations lay below each bound, their sum and their number.
    Histogram,
    /// Always 1; its labels say something.
    Info,
}

/// What a metric is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A label of a metric.
#[derive(Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What it can say.
    pub values: Values,
}

/// What a label can say.
#[derive(Debug)]
pub enum Values {
    /// The name of a controller.
    Controllers,
    /// One of these.
    These(fn() -> Vec<&'static str>),
    /// What this sentence says; there are few of them.
    Few(&'static str),
}

impl Kind {
    /// The word for it in OpenMetrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

impl Unit {
    /// Its name.
    pub fn word(self) -> &'static str {
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

    pub(super) const fn counter(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Counter, labels, help)
    }

    pub(super) const fn gauge(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Gauge, labels, help)
    }

    pub(super) const fn info(stem: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(stem, Kind::Info, labels, help)
    }

    /// Of times, in seconds.
    pub(super) const fn histogram(
        stem: &'static str,
        labels: &'static [Label],
        bounds: &'static [f64],
        help: &'static str,
    ) -> Self {
        Self { bounds, ..Self::new(stem, Kind::Histogram, labels, help).of(Unit::Seconds) }
    }

    pub(super) const fn of(self, unit: Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// The name by which the metric is known: the one that is asked for, except that a histogram's series append
    /// `_bucket`, `_sum` and `_count` to it.
    pub fn name(&self) -> String {
        let family = self.family();
        match self.kind {
            Kind::Counter => format!("{family}_total"),
            Kind::Info => format!("{family}_info"),
            Kind::Gauge | Kind::Histogram => family,
        }
    }

    /// What it says, as a sentence.
    pub fn sentence(&self) -> String {
        format!("{}.", self.help)
    }

    /// The names of its series.
    pub fn series(&self) -> Vec<String> {
        let name = self.name();
        match self.kind {
            Kind::Histogram => ["bucket", "sum", "count"].map(|part| format!("{name}_{part}")).into(),
            _ => vec![name],
        }
    }

    /// The name as `# TYPE` gives it.
    pub fn family(&self) -> String {
        match self.unit {
            Some(unit) => format!("{}_{}", self.stem, unit.word()),
            None => self.stem.to_owned(),
        }
    }
}
