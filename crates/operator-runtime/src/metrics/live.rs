//! Metrics that are read when they are scraped: queue depth, cache sizes, and the gauges and
//! histograms that controllers define.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Formatter},
};

use operator_core::metrics::{GaugeSamples, Histogram as Definition};
use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge, histogram::Histogram},
};

use super::{
    metric::Metric,
    reference::{INFORMER_OBJECTS, QUEUE_DEPTH},
};

/// Returns the number of objects in a queue.
type Depth = Box<dyn Fn() -> usize + Send + Sync>;
/// Returns the kind and the number of cached objects.
type Objects = Box<dyn Fn() -> Vec<(String, usize)> + Send + Sync>;

/// Returns the values of the gauges that a controller defines.
type Read = Box<dyn Fn() -> Vec<GaugeSamples> + Send + Sync>;

/// Sources of the metrics.
#[derive(Default)]
pub(super) struct Live {
    queues: RwLock<BTreeMap<&'static str, Depth>>,
    informers: RwLock<Vec<Objects>>,
    gauges: RwLock<BTreeMap<&'static str, Read>>,
    /// Histograms that controllers define, by name.
    histograms: RwLock<BTreeMap<&'static str, (&'static Definition, Histogram)>>,
}

impl Live {
    /// Sets the queue of a controller and replaces the one of its previous run.
    pub(super) fn queue(&self, controller: &'static str, depth: Depth) {
        self.queues.write().insert(controller, depth);
    }

    pub(super) fn informers(&self, objects: Objects) {
        self.informers.write().push(objects);
    }

    /// Sets the gauges of a controller and replaces those of its previous run.
    pub(super) fn gauges(&self, controller: &'static str, read: Read) {
        self.gauges.write().insert(controller, read);
    }

    /// Returns a histogram of a controller. The next run of the controller has the same one.
    pub(super) fn histogram(&self, definition: &'static Definition) -> Histogram {
        let mut histograms = self.histograms.write();
        let new = || (definition, Histogram::new(definition.bounds.iter().copied()));
        histograms.entry(definition.name).or_insert_with(new).1.clone()
    }

    fn depths(&self) -> BTreeMap<String, usize> {
        self.queues.read().iter().map(|(controller, depth)| ((*controller).to_owned(), depth())).collect()
    }

    /// Several informers can cache one kind, each with its own selector.
    fn objects(&self) -> BTreeMap<String, usize> {
        let mut sums = BTreeMap::new();
        for (kind, count) in self.informers.read().iter().flat_map(|objects| objects()) {
            *sums.entry(kind).or_default() += count;
        }
        sums
    }
}

impl Debug for Live {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("depths", &self.depths()).finish_non_exhaustive()
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        gauges(&mut encoder, &QUEUE_DEPTH, self.depths())?;
        gauges(&mut encoder, &INFORMER_OBJECTS, self.objects())?;
        let readings: Vec<_> = self.gauges.read().values().flat_map(|read| read()).collect();
        readings.into_iter().try_for_each(|reading| encode_reading(&mut encoder, reading))?;
        self.histograms.read().values().try_for_each(|(definition, histogram)| {
            let help = format!("{}.", definition.help);
            let family = encoder.encode_descriptor(definition.name, &help, None, MetricType::Histogram)?;
            histogram.encode(family)
        })
    }
}

/// Encodes a gauge for each value of its only label.
fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &'static Metric,
    values: BTreeMap<String, usize>,
) -> fmt::Result {
    let label = metric.labels.first().map_or("", |label| label.name);
    let mut gauges = encoder.encode_descriptor(metric.stem, &metric.sentence(), None, MetricType::Gauge)?;
    for (label_value, value) in values {
        let labels = [(label, label_value)];
        ConstGauge::new(u64::try_from(value).unwrap_or(u64::MAX)).encode(gauges.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Encodes a gauge that a controller defines.
fn encode_reading(
    encoder: &mut DescriptorEncoder<'_>,
    GaugeSamples { gauge, series }: GaugeSamples,
) -> fmt::Result {
    let help = format!("{}.", gauge.help);
    let mut gauges = encoder.encode_descriptor(gauge.name, &help, None, MetricType::Gauge)?;
    for (label_values, value) in series {
        let labels: Vec<_> = gauge.labels.iter().map(|(name, _)| *name).zip(label_values).collect();
        ConstGauge::new(value).encode(gauges.encode_family(&labels)?)?;
    }
    Ok(())
}
