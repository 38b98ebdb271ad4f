//! Metrics with labels.

use std::borrow::Cow;

use prometheus_client::{
    encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::{Metric as Registered, Registry, Unit as RegisteredUnit},
};

use super::metric::{Label, Metric, Unit};

/// Value of a label.
pub type LabelValue = Cow<'static, str>;

/// A metric with one series for each combination of label values.
pub struct Measure<M, const N: usize> {
    labels: &'static [Label],
    family: Family<Labels<N>, M, First>,
}

/// Labels of one series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels<const N: usize>([(&'static str, LabelValue); N]);

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(name, value)| (*name, value.as_ref()).encode(encoder.encode_label()))
    }
}

/// Creates the initial value of a series.
#[derive(Clone, Copy)]
pub struct First {
    bounds: &'static [f64],
}

impl MetricConstructor<Counter> for First {
    fn new_metric(&self) -> Counter {
        Counter::default()
    }
}

impl MetricConstructor<Gauge> for First {
    fn new_metric(&self) -> Gauge {
        Gauge::default()
    }
}

impl MetricConstructor<Histogram> for First {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.bounds.iter().copied())
    }
}

impl<M: Clone, const N: usize> Measure<M, N>
where
    First: MetricConstructor<M>,
    Family<Labels<N>, M, First>: Registered,
{
    /// Registers a metric with `N` labels.
    pub fn new(registry: &mut Registry, metric: &'static Metric) -> Self {
        let family = Family::new_with_constructor(First { bounds: metric.bounds });
        register(registry, metric, family.clone());
        Self { labels: metric.labels, family }
    }

    /// Returns the series with these label values, in the order of the metric's labels.
    pub fn with(&self, values: [LabelValue; N]) -> M {
        let mut labels = self.labels.iter();
        let labels = values.map(|value| (labels.next().map_or("", |label| label.name), value));
        self.family.get_or_create_owned(&Labels(labels))
    }
}

/// Registers a metric with its name and unit.
pub(super) fn register(registry: &mut Registry, metric: &'static Metric, registered: impl Registered) {
    match metric.unit {
        None => registry.register(metric.stem, metric.help, registered),
        Some(unit) => registry.register_with_unit(metric.stem, metric.help, unit.into(), registered),
    }
}

impl From<Unit> for RegisteredUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Seconds => Self::Seconds,
            Unit::Bytes => Self::Bytes,
        }
    }
}
