//! Plots of cost against size, as SVG.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

use super::{
    measurement::Measurement,
    report::{FIGURES, Figure, controllers, median, sizes},
};
use crate::figures::count;

/// Draws each figure against the number of objects. A single size is not plotted.
pub(super) fn draw(measurements: &[Measurement], folder: &Path) -> Result<()> {
    if sizes(measurements).len() > 1 {
        for figure in &FIGURES {
            let path = folder.join(format!("podsets-{}.svg", figure.file_name));
            let svg = plot(measurements, figure)
                .map_err(|error| anyhow!("cannot plot {}: {error}", figure.label))?;
            std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

type DrawingError = Box<dyn std::error::Error>;

fn plot(measurements: &[Measurement], figure: &Figure) -> Result<String, DrawingError> {
    let sizes = sizes(measurements);
    let values = measurements.iter().map(figure.of);
    let maximum = values.fold(0.0_f64, f64::max) * 1.1 + f64::EPSILON;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (640, 400)).into_drawing_area();
        area.fill(&WHITE)?;
        let largest = sizes.last().copied().map_or(1.0, count);
        let mut chart = ChartBuilder::on(&area)
            .caption(figure.label, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..largest * 1.05, 0.0..maximum)?;
        chart.configure_mesh().x_desc("objects of ten Pods").draw()?;
        for (index, controller) in controllers(measurements).into_iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let points =
                sizes.iter().map(|size| (count(*size), median(measurements, controller, *size, figure)));
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
                .label(controller.name())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        }
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
        area.present()?;
    }
    Ok(svg)
}
