//! What the cells say together.

use std::fmt::Write as _;

use super::{
    cell::{Cell, pods_each},
    contender::Contender,
};
use crate::bench::figures::count;

/// A figure of a cell.
pub(super) struct Figure {
    pub(super) what: &'static str,
    /// Without spaces, for names of files.
    pub(super) short: &'static str,
    pub(super) of: fn(&Cell) -> f64,
}

pub(super) const FIGURES: [Figure; 9] = [
    Figure { what: "all pods created, s", short: "created", of: |cell| cell.created },
    Figure { what: "all ready, s", short: "ready", of: |cell| cell.ready },
    Figure { what: "requests per object", short: "requests", of: |cell| total(cell) / count(cell.size) },
    Figure {
        what: "status writes per object",
        short: "status",
        of: |cell| of(cell, "/status") / count(cell.size),
    },
    Figure { what: "events per object", short: "events", of: |cell| of(cell, "events") / count(cell.size) },
    Figure {
        what: "processor per pod, us",
        short: "processor",
        of: |cell| cell.processor * 1e6 / count(cell.size * pods_each()),
    },
    Figure {
        what: "processor of API server and etcd per pod, us",
        short: "control-plane",
        of: |cell| cell.control_plane * 1e6 / count(cell.size * pods_each()),
    },
    Figure { what: "memory, peak, MiB", short: "peak", of: |cell| cell.peak },
    Figure { what: "memory, settled, MiB", short: "settled", of: |cell| cell.settled },
];

fn total(cell: &Cell) -> f64 {
    count(cell.requests.values().sum())
}

fn of(cell: &Cell, which: &str) -> f64 {
    count(cell.requests.iter().filter(|(request, _)| request.ends_with(which)).map(|(_, times)| *times).sum())
}

/// What is said of a cell as soon as it is measured.
pub(super) fn line(cell: &Cell) -> String {
    let Cell { contender, size, created, ready, processor, peak, .. } = cell;
    format!(
        "{:<10} {size:>5} objects: created {created:.1} s, ready {ready:.1} s, processor {processor:.2} s, peak {peak:.1} MiB, {:?}",
        contender.name(),
        cell.requests
    )
}

/// A Markdown table: for each size and figure the median of each contender, and that of the first as a share of each
/// other's.
pub(super) fn table(cells: &[Cell]) -> String {
    let (contenders, sizes) = (contenders(cells), sizes(cells));
    let Some((first, peers)) = contenders.split_first() else { return String::new() };
    let mut table = String::from("| objects | |");
    for contender in &contenders {
        let _ = write!(table, " {} |", contender.name());
    }
    for peer in peers {
        let _ = write!(table, " {} / {} |", first.name(), peer.name());
    }
    table.push_str("\n|---|---|");
    table.push_str(&"---:|".repeat(contenders.len() + peers.len()));
    for size in sizes {
        for figure in &FIGURES {
            let _ = write!(table, "\n| {size} | {} |", figure.what);
            let median = |contender| median(cells, contender, size, figure);
            for contender in &contenders {
                let _ = write!(table, " {:.1} |", median(*contender));
            }
            for peer in peers {
                let share = median(*first) / median(*peer);
                // Of a peer that has none of it, nothing is a share.
                let _ = if share.is_finite() { write!(table, " {share:.2} |") } else { write!(table, " |") };
            }
        }
    }
    table.push('\n');
    table
}

/// How cost grows with the number of objects: the exponent of each figure.
pub(super) fn growth(cells: &[Cell]) -> String {
    let sizes = sizes(cells);
    if sizes.len() < 2 {
        return String::new();
    }
    let mut text = String::from("growth with the number of objects, as an exponent:\n");
    for contender in contenders(cells) {
        for figure in &TOTALS {
            let points =
                sizes.iter().map(|size| (count(*size).ln(), median(cells, contender, *size, figure).ln()));
            let exponent = slope(&points.collect::<Vec<_>>());
            let _ = writeln!(text, "{:<10} {:<12} {exponent:.2}", contender.name(), figure.what);
        }
    }
    text
}

/// What is to grow as the number of objects does.
const TOTALS: [Figure; 2] = [
    Figure { what: "requests", short: "requests", of: total },
    Figure { what: "processor", short: "processor", of: |cell| cell.processor },
];

/// The slope of the straight line that fits best.
fn slope(points: &[(f64, f64)]) -> f64 {
    let length = count(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / length;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    both / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

pub(super) fn median(cells: &[Cell], contender: Contender, size: usize, figure: &Figure) -> f64 {
    let cells = cells.iter().filter(|cell| cell.contender == contender && cell.size == size);
    middle(cells.map(figure.of).collect())
}

fn middle(mut values: Vec<f64>) -> f64 {
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

/// In the order in which they were first measured.
pub(super) fn contenders(cells: &[Cell]) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for cell in cells {
        if !contenders.contains(&cell.contender) {
            contenders.push(cell.contender);
        }
    }
    contenders
}

pub(super) fn sizes(cells: &[Cell]) -> Vec<usize> {
    let mut sizes: Vec<_> = cells.iter().map(|cell| cell.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(contender: Contender, size: usize, processor: f64) -> Cell {
        let requests = [("create pods", 10 * size), ("update podsets/status", size), ("create events", 3)];
        Cell {
            contender,
            size,
            created: 1.0,
            ready: 2.0,
            processor,
            control_plane: 4.0,
            peak: 10.0,
            settled: 9.0,
            requests: requests.map(|(request, times)| (request.to_owned(), times)).into(),
        }
    }

    #[test]
    fn the_table_has_medians_and_shares() {
        let cells = [
            cell(Contender::Ensemble, 10, 0.01),
            cell(Contender::Ensemble, 10, 0.03),
            cell(Contender::Go, 10, 0.04),
        ];
        let table = table(&cells);
        assert!(table.contains("| objects | | ensemble | go | ensemble / go |"), "{table}");
        assert!(table.contains("| 10 | processor per pod, us | 200.0 | 400.0 | 0.50 |"), "{table}");
        assert!(table.contains("| 10 | status writes per object | 1.0 | 1.0 | 1.00 |"), "{table}");
    }

    #[test]
    fn what_doubles_with_the_number_grows_by_one() {
        let cells = [10, 20, 40].map(|size| cell(Contender::Go, size, count(size) / 100.0));
        assert!(growth(&cells).contains("go         processor    1.00"), "{}", growth(&cells));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((middle(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!((middle(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!(middle(Vec::new()).is_nan());
    }
}
