//! The text that Prometheus reads.

use std::fmt;

use postgres_model::metrics::{Kind, METRICS};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::Sample;

/// Content type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the samples as a text. Prometheus requires that each combination of labels occurs once.
pub(super) fn encode(samples: Vec<Sample>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples(samples)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Samples(Vec<Sample>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let (stem, kind) = match metric.kind {
                Kind::Counter => (metric.name.trim_end_matches("_total"), MetricType::Counter),
                Kind::Gauge => (metric.name, MetricType::Gauge),
            };
            let help = format!("{}.", metric.help);
            let mut family = encoder.encode_descriptor(stem, &help, None, kind)?;
            if metric.labels.is_empty() {
                let sample = self.0.iter().find(|sample| sample.metric == metric);
                sample.map_or(Ok(()), |sample| sample.encode(family))?;
                continue;
            }
            for sample in self.0.iter().filter(|sample| sample.metric == metric) {
                let names = metric.labels.iter().map(|(name, _)| *name);
                let labels: Vec<_> = names.zip(sample.labels.iter().map(String::as_str)).collect();
                sample.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self.metric.kind {
            Kind::Counter => ConstCounter::new(self.value).encode(encoder),
            Kind::Gauge => ConstGauge::new(self.value).encode(encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use postgres_model::metrics::{CONNECTIONS, FENCES, UP};

    use super::*;

    #[test]
    fn text_has_types_help_and_escaped_labels() {
        let connections = Sample::labelled(&CONNECTIONS, &["a\"b\nc"], 2.0);
        let text = encode(vec![connections, Sample::new(&FENCES, 3.0), Sample::new(&UP, 1.0)]).unwrap();
        for expected in [
            "# HELP ensemble_postgres_up Whether PostgreSQL answers queries, 1 or 0.\n",
            "# TYPE ensemble_postgres_up gauge\nensemble_postgres_up 1.0\n",
            "# TYPE ensemble_postgres_fences counter\nensemble_postgres_fences_total 3.0\n",
            "ensemble_postgres_connections{state=\"a\\\"b\\nc\"} 2.0\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
