//! Heat maps: a chip's blocks in address order, coloured in [`LEVELS`] steps from light to dark (in
//! dark mode, dark to light).
//!
//! The key is a histogram: each step's bar is as high as its share of cells, so the map can be read
//! without its colours.

use super::markup::{Drawing, Element, el, figure, label, pixel};
use super::number::{Quantity, grouped};
use super::plot::HALF;

/// Steps of a colour scale.
pub const LEVELS: usize = 9;

/// A map to draw.
#[derive(Clone, Debug)]
pub struct HeatMap<'a> {
    /// The heading above the figure.
    pub title: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// One value per cell, row by row.
    pub values: &'a [f32],
    /// Bad blocks in each cell; a cell with any is crossed out.
    pub bad: &'a [u32],
    /// Addresses that one cell stands for.
    pub per_cell: u64,
    /// The values at the ends of the scale.
    pub range: (f64, f64),
    /// How values are written.
    pub quantity: Quantity,
    /// The colour scale's name in the style sheet: `wear` or `valid`.
    pub scale: &'static str,
}

const LEFT: f64 = 64.0;
const KEY: f64 = 66.0;

impl HeatMap<'_> {
    /// Draws the figure as SVG.
    pub fn draw(&self) -> Element {
        let columns = ((2.0 * self.values.len() as f64).sqrt().ceil() as usize)
            .next_power_of_two()
            .max(8);
        let size = ((HALF - LEFT - 2.0) / columns as f64).min(28.0);
        let rows = self.values.len().div_ceil(columns);
        let place = |at: usize| {
            (
                LEFT + (at % columns) as f64 * size,
                (at / columns) as f64 * size + 2.0,
            )
        };
        let mut paths = vec![String::new(); LEVELS];
        let mut crosses = String::new();
        let side = pixel(size - gap(size));
        for (at, &value) in self.values.iter().enumerate() {
            let (x, y) = place(at);
            if self.bad.get(at).is_some_and(|&bad| bad > 0) {
                let arm = pixel(size * 0.6);
                crosses.push_str(&format!(
                    "M{} {}l{arm} {arm}m-{arm} 0l{arm} -{arm}",
                    pixel(x + size * 0.15),
                    pixel(y + size * 0.15)
                ));
            } else if value.is_finite() {
                paths[self.level(value)].push_str(&format!(
                    "M{} {}h{side}v{side}h-{side}z",
                    pixel(x),
                    pixel(y)
                ));
            }
        }
        let mut marks: Vec<Element> = paths
            .into_iter()
            .enumerate()
            .filter(|(_, d)| !d.is_empty())
            .map(|(at, d)| self.step(at, d))
            .collect();
        marks.push(
            el("path")
                .class("bad")
                .attr("d", crosses)
                .child(el("title").text("bad blocks")),
        );
        let stride = rows.div_ceil(8).next_power_of_two();
        marks.extend((0..rows).step_by(stride).map(|row| {
            let address = (row * columns) as u64 * self.per_cell;
            label(
                LEFT - 8.0,
                place(row * columns).1 + size.min(14.0) - 2.0,
                "end",
                &grouped(address),
            )
        }));
        let bottom = rows as f64 * size + 14.0;
        marks.extend(self.key(bottom));
        figure(
            &self.title,
            &self.about,
            Drawing {
                kind: "map",
                width: HALF,
                height: bottom + KEY,
                marks,
            },
        )
    }

    fn level(&self, value: f32) -> usize {
        let (low, high) = self.range;
        let share = (f64::from(value) - low) / (high - low);
        ((share * LEVELS as f64) as usize).min(LEVELS - 1)
    }

    fn bound(&self, level: usize) -> f64 {
        self.range.0 + (self.range.1 - self.range.0) * level as f64 / LEVELS as f64
    }

    fn step(&self, level: usize, d: String) -> Element {
        let text = format!(
            "{} to {}",
            self.quantity.write(self.bound(level)),
            self.quantity.write(self.bound(level + 1))
        );
        el("path")
            .class(format!("{}{level}", self.scale))
            .attr("d", d)
            .child(el("title").text(&text))
    }

    fn key(&self, top: f64) -> Vec<Element> {
        let mut counts = [0u64; LEVELS];
        let good = self.values.iter().enumerate().filter(|(at, value)| {
            value.is_finite() && self.bad.get(*at).is_none_or(|&bad| bad == 0)
        });
        good.for_each(|(_, &value)| counts[self.level(value)] += 1);
        let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
        let width = 30.0;
        let base = top + 34.0;
        let at = |level: usize| LEFT + level as f64 * width;
        let mut marks = Vec::new();
        for (level, &count) in counts.iter().enumerate() {
            let high = (count as f64 / most * 28.0).max(if count > 0 { 1.0 } else { 0.0 });
            let x = pixel(at(level));
            let wide = width - 1.0;
            let bar = format!(
                "M{x} {}h{wide}v8h-{wide}zM{x} {}h{wide}v-{}h-{wide}z",
                pixel(base),
                pixel(base - 1.5),
                pixel(high)
            );
            marks.push(self.step(level, bar));
            if level % 3 == 0 {
                let anchor = if level == 0 { "start" } else { "middle" };
                marks.push(label(
                    at(level),
                    base + 23.0,
                    anchor,
                    &self.quantity.write(self.bound(level)),
                ));
            }
        }
        marks.push(label(
            at(LEVELS) - 1.0,
            base + 23.0,
            "end",
            &self.quantity.write(self.range.1),
        ));
        marks.push(label(
            at(LEVELS) + 16.0,
            base + 7.0,
            "start",
            "bars: share of cells",
        ));
        let bad: u64 = self.bad.iter().map(|&bad| u64::from(bad)).sum();
        if bad > 0 {
            marks.push(el("path").class("bad").attr(
                "d",
                format!("M{} {}l7 7m-7 0l7 -7", at(LEVELS) + 16.0, base + 14.0),
            ));
            marks.push(label(
                at(LEVELS) + 28.0,
                base + 23.0,
                "start",
                &format!("bad blocks: {}", grouped(bad)),
            ));
        }
        marks
    }
}

/// The space between cells: none where cells are too small to afford it.
fn gap(size: f64) -> f64 {
    if size >= 6.0 { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[f32], bad: &[u32]) -> String {
        let title = "wear".into();
        let about = "erases".into();
        HeatMap {
            title,
            about,
            values,
            bad,
            per_cell: 1,
            range: (0.0, 9.0),
            quantity: Quantity::Factor,
            scale: "wear",
        }
        .draw()
        .to_string()
    }

    #[test]
    fn each_cell_takes_the_step_of_its_value_and_bad_ones_a_cross() {
        let svg = map(&[0.5, 8.5, 9.0, f32::NAN, 4.0], &[0, 0, 0, 0, 2]);
        let cells = |class: &str| {
            svg.split(&format!("class=\"{class}\" d=\""))
                .nth(1)
                .map_or(0, |rest| {
                    rest.split('"').next().unwrap_or("").matches('z').count()
                })
        };
        assert_eq!((cells("wear0"), cells("wear8"), cells("bad")), (1, 2, 0));
        assert!(svg.contains("bad blocks: 2"));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_chip_without_cells_still_draws() {
        assert!(map(&[], &[]).contains("</svg>"));
    }
}
