//! The text that Prometheus reads.

use std::{collections::BTreeMap, fmt};

use postgres_model::metrics::{Kind, METRICS};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::{Sample, custom::CustomSample};

/// Content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the samples as a text. Prometheus requires that each combination of labels occurs once.
pub(super) fn encode(samples: Vec<Sample>, custom: Vec<CustomSample>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples(samples)));
    registry.register_collector(Box::new(CustomSamples(custom)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Samples(Vec<Sample>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let series = self.0.iter().filter(|sample| sample.metric == metric).map(|sample| {
                let names = metric.labels.iter().map(|(name, _)| *name);
                (names.zip(sample.labels.iter().map(String::as_str)).collect(), sample.value)
            });
            encode_family(&mut encoder, metric.name, metric.kind, metric.help, &series.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Samples of queries of users. All samples of a metric have the same kind.
#[derive(Debug)]
struct CustomSamples(Vec<CustomSample>);

impl Collector for CustomSamples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = BTreeMap::<_, (_, Vec<_>)>::new();
        for sample in &self.0 {
            let labels = sample.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let (_, series) = metrics.entry(&sample.metric).or_insert_with(|| (sample, Vec::new()));
            series.push((labels.collect(), sample.value));
        }
        for (metric, (first, series)) in metrics {
            encode_family(&mut encoder, metric, first.kind, &first.help, &series)?;
        }
        Ok(())
    }
}

/// Labels and value of a sample.
type Series<'a> = (Vec<(&'a str, &'a str)>, f64);

/// Writes a metric with its samples.
fn encode_family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    kind: Kind,
    help: &str,
    series: &[Series<'_>],
) -> fmt::Result {
    // The encoder adds the end to a counter.
    let (stem, metric_type) = match kind {
        Kind::Counter => (name.trim_end_matches("_total"), MetricType::Counter),
        Kind::Gauge => (name, MetricType::Gauge),
    };
    let mut family = encoder.encode_descriptor(stem, &format!("{help}."), None, metric_type)?;
    if let [(labels, value)] = series
        && labels.is_empty()
    {
        return encode_value(kind, *value, family);
    }
    for (labels, value) in series {
        encode_value(kind, *value, family.encode_family(labels)?)?;
    }
    Ok(())
}

fn encode_value(kind: Kind, value: f64, encoder: MetricEncoder<'_>) -> fmt::Result {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge => ConstGauge::new(value).encode(encoder),
    }
}

#[cfg(test)]
mod tests {
    use postgres_model::metrics::{CONNECTIONS, FENCES, UP};

    use super::*;

    #[test]
    fn text_has_types_help_and_escaped_labels() {
        let connections = Sample::labelled(&CONNECTIONS, &["a\"b\nc"], 2.0);
        let samples = vec![connections, Sample::new(&FENCES, 3.0), Sample::new(&UP, 1.0)];
        let orders = |state: &str, value| CustomSample {
            metric: "ensemble_postgres_custom_orders_seen_total".to_owned(),
            kind: Kind::Counter,
            help: "Orders".to_owned(),
            labels: vec![("state".to_owned(), state.to_owned())],
            value,
        };
        let size = CustomSample {
            metric: "ensemble_postgres_custom_shop_size".to_owned(),
            kind: Kind::Gauge,
            labels: Vec::new(),
            ..orders("", 5.0)
        };
        let text = encode(samples, vec![orders("new", 1.0), orders("a\"b", f64::NAN), size]).unwrap();
        for expected in [
            "# HELP ensemble_postgres_up Whether PostgreSQL answers queries, 1 or 0.\n",
            "# TYPE ensemble_postgres_up gauge\nensemble_postgres_up 1.0\n",
            "# TYPE ensemble_postgres_fences counter\nensemble_postgres_fences_total 3.0\n",
            "ensemble_postgres_connections{state=\"a\\\"b\\nc\"} 2.0\n",
            "# TYPE ensemble_postgres_custom_orders_seen counter\n\
             ensemble_postgres_custom_orders_seen_total{state=\"new\"} 1.0\n\
             ensemble_postgres_custom_orders_seen_total{state=\"a\\\"b\"} NaN\n",
            "\nensemble_postgres_custom_shop_size 5.0\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
