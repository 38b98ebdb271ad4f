//! Tables of measurements.

use std::fmt::Write as _;

use super::{
    controller::Controller,
    measurement::{Measurement, pods_per_object},
};
use crate::figures::count;

/// Figure of a measurement.
pub(super) struct Figure {
    pub(super) label: &'static str,
    /// Part of the name of the plot's file.
    pub(super) file_name: &'static str,
    pub(super) of: fn(&Measurement) -> f64,
}

pub(super) const FIGURES: [Figure; 9] = [
    Figure { label: "all Pods created, s", file_name: "created", of: |measurement| measurement.created },
    Figure { label: "all ready, s", file_name: "ready", of: |measurement| measurement.ready },
    Figure {
        label: "requests per object",
        file_name: "requests",
        of: |measurement| total(measurement) / count(measurement.size),
    },
    Figure {
        label: "status writes per object",
        file_name: "status",
        of: |measurement| requests(measurement, "/status") / count(measurement.size),
    },
    Figure {
        label: "events per object",
        file_name: "events",
        of: |measurement| requests(measurement, "events") / count(measurement.size),
    },
    Figure {
        label: "CPU time per Pod, us",
        file_name: "cpu",
        of: |measurement| measurement.cpu * 1e6 / count(measurement.size * pods_per_object()),
    },
    Figure {
        label: "CPU time of API server and etcd per Pod, us",
        file_name: "control-plane",
        of: |measurement| measurement.control_plane * 1e6 / count(measurement.size * pods_per_object()),
    },
    Figure { label: "memory, peak, MiB", file_name: "peak", of: |measurement| measurement.peak },
    Figure { label: "memory, settled, MiB", file_name: "settled", of: |measurement| measurement.settled },
];

fn total(measurement: &Measurement) -> f64 {
    count(measurement.requests.values().sum())
}

/// Returns the number of requests whose name ends with `suffix`.
fn requests(measurement: &Measurement, suffix: &str) -> f64 {
    count(
        measurement
            .requests
            .iter()
            .filter(|(request, _)| request.ends_with(suffix))
            .map(|(_, times)| *times)
            .sum(),
    )
}

/// Returns one line about a measurement.
pub(super) fn line(measurement: &Measurement) -> String {
    let Measurement { controller, size, created, ready, cpu, peak, .. } = measurement;
    format!(
        "{:<10} {size:>5} objects: created {created:.1} s, ready {ready:.1} s, CPU {cpu:.2} s, peak {peak:.1} MiB, {:?}",
        controller.name(),
        measurement.requests
    )
}

/// Returns a Markdown table of the median of each size, figure, and controller.
///
/// Further columns contain the ratio of the first controller to each other one.
pub(super) fn table(measurements: &[Measurement]) -> String {
    let (controllers, sizes) = (controllers(measurements), sizes(measurements));
    let Some((first, peers)) = controllers.split_first() else { return String::new() };
    let mut table = String::from("| objects | |");
    for controller in &controllers {
        let _ = write!(table, " {} |", controller.name());
    }
    for peer in peers {
        let _ = write!(table, " {} / {} |", first.name(), peer.name());
    }
    table.push_str("\n|---|---|");
    table.push_str(&"---:|".repeat(controllers.len() + peers.len()));
    for size in sizes {
        for figure in &FIGURES {
            let _ = write!(table, "\n| {size} | {} |", figure.label);
            let median = |controller| median(measurements, controller, size, figure);
            for controller in &controllers {
                let _ = write!(table, " {:.1} |", median(*controller));
            }
            for peer in peers {
                let ratio = median(*first) / median(*peer);
                // The figure of the other controller may be zero.
                let _ = if ratio.is_finite() { write!(table, " {ratio:.2} |") } else { write!(table, " |") };
            }
        }
    }
    table.push('\n');
    table
}

/// Returns how figures grow with the number of objects, as exponents.
pub(super) fn growth(measurements: &[Measurement]) -> String {
    let sizes = sizes(measurements);
    if sizes.len() < 2 {
        return String::new();
    }
    let mut text = String::from("growth with the number of objects, as an exponent:\n");
    for controller in controllers(measurements) {
        for figure in &TOTALS {
            let points = sizes
                .iter()
                .map(|size| (count(*size).ln(), median(measurements, controller, *size, figure).ln()));
            let exponent = slope(&points.collect::<Vec<_>>());
            let _ = writeln!(text, "{:<10} {:<12} {exponent:.2}", controller.name(), figure.label);
        }
    }
    text
}

/// Figures that should grow linearly with the number of objects.
const TOTALS: [Figure; 2] = [
    Figure { label: "requests", file_name: "requests", of: total },
    Figure { label: "CPU time", file_name: "cpu", of: |measurement| measurement.cpu },
];

/// Returns the slope of the line of best fit.
fn slope(points: &[(f64, f64)]) -> f64 {
    let length = count(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / length;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    covariance / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

pub(super) fn median(
    measurements: &[Measurement],
    controller: Controller,
    size: usize,
    figure: &Figure,
) -> f64 {
    let measurements = measurements
        .iter()
        .filter(|measurement| measurement.controller == controller && measurement.size == size);
    median_of(measurements.map(figure.of).collect())
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.get(half) {
        Some(upper) if values.len().is_multiple_of(2) => {
            (upper + values.get(half.saturating_sub(1)).unwrap_or(upper)) / 2.0
        }
        Some(middle) => *middle,
        None => f64::NAN,
    }
}

/// Returns the controllers in the order of their first measurement.
pub(super) fn controllers(measurements: &[Measurement]) -> Vec<Controller> {
    let mut controllers = Vec::new();
    for measurement in measurements {
        if !controllers.contains(&measurement.controller) {
            controllers.push(measurement.controller);
        }
    }
    controllers
}

pub(super) fn sizes(measurements: &[Measurement]) -> Vec<usize> {
    let mut sizes: Vec<_> = measurements.iter().map(|measurement| measurement.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(controller: Controller, size: usize, cpu: f64) -> Measurement {
        let requests = [("create pods", 10 * size), ("update podsets/status", size), ("create events", 3)];
        Measurement {
            controller,
            size,
            created: 1.0,
            ready: 2.0,
            cpu,
            control_plane: 4.0,
            peak: 10.0,
            settled: 9.0,
            requests: requests.map(|(request, times)| (request.to_owned(), times)).into(),
        }
    }

    #[test]
    fn table_has_medians_and_ratios() {
        let measurements = [
            measurement(Controller::Ensemble, 10, 0.01),
            measurement(Controller::Ensemble, 10, 0.03),
            measurement(Controller::Go, 10, 0.04),
        ];
        let table = table(&measurements);
        assert!(table.contains("| objects | | ensemble | go | ensemble / go |"), "{table}");
        assert!(table.contains("| 10 | CPU time per Pod, us | 200.0 | 400.0 | 0.50 |"), "{table}");
        assert!(table.contains("| 10 | status writes per object | 1.0 | 1.0 | 1.00 |"), "{table}");
    }

    #[test]
    fn linear_growth_has_exponent_one() {
        let measurements = [10, 20, 40].map(|size| measurement(Controller::Go, size, count(size) / 100.0));
        assert!(growth(&measurements).contains("go         CPU time     1.00"), "{}", growth(&measurements));
    }

    #[test]
    fn median_of_even_count_is_mean_of_middle_values() {
        assert!((median_of(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!((median_of(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(median_of(Vec::new()).is_nan());
    }
}
