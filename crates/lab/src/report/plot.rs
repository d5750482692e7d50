//! Plots of series against two axes: lines, steps (histograms are filled steps) and scattered
//! points.
//!
//! Long series are thinned to [`COLUMNS`] columns, each drawn as its mean within a band from its
//! least to its largest value, so that no spike is lost.

use super::axis::Axis;
use super::markup::{Drawing, Element, el, figure, label, pixel, shorten, slot};

/// Columns that a longer series is reduced to; with the band, two extremes each.
pub const COLUMNS: usize = 300;
/// Scattered points that a plot draws at most per series.
const POINTS: usize = 4000;
/// Full width of the page.
pub const WIDE: f64 = 1080.0;
/// Half of it, less the gap.
pub const HALF: f64 = 524.0;

/// How a series is drawn. Lines and steps expect ascending x; a y that is not finite is a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// Straight from point to point.
    Line,
    /// Each y holds from the previous x (at first, `from`) to its own: rates over intervals,
    /// histograms, distributions.
    Step {
        /// Where the first step begins.
        from: f64,
        /// Whether the area beneath is filled.
        filled: bool,
    },
    /// A dot at every value.
    Points,
}

/// Values of one curve, with the name for the key.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Its place in the palette.
    pub slot: usize,
    /// How it is drawn.
    pub mark: Mark,
    /// Pairs of x and y, in drawing order.
    pub points: Vec<(f64, f64)>,
}

/// A plot to draw.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The heading above the figure.
    pub title: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// The range and label of the horizontal axis.
    pub x: Axis,
    /// The range and label of the vertical axis.
    pub y: Axis,
    /// The curves, from the back to the front.
    pub series: Vec<Series>,
    /// The width in pixels: [`WIDE`] or [`HALF`].
    pub width: f64,
    /// Whether each series bears its name at its end.
    pub named: bool,
}

const HEIGHT: f64 = 300.0;
const BOTTOM: f64 = HEIGHT - 44.0;
const LEFT: f64 = 70.0;
/// Characters of a name that stand beside a series.
const NAME: usize = 24;
/// The least distance between two names.
const LINE_HEIGHT: f64 = 16.0;

/// Neighbouring points of a series, in user units: x is their last.
struct Column {
    x: f64,
    mean: f64,
    low: f64,
    high: f64,
    tip: String,
}

impl Plot {
    /// Draws the figure as SVG.
    pub fn draw(&self) -> Element {
        let mut marks = self.frame();
        let mut ends = Vec::new();
        for series in &self.series {
            let dots = matches!(series.mark, Mark::Points);
            let most = if dots { POINTS } else { COLUMNS };
            let columns = self.columns(series, series.points.len().div_ceil(most), dots);
            ends.extend(
                columns
                    .iter()
                    .rev()
                    .find(|c| c.mean.is_finite())
                    .map(|c| (c.x, c.mean, series)),
            );
            marks.push(self.series(series, &columns));
        }
        if self.named {
            marks.extend(names(ends));
        }
        figure(
            &self.title,
            &self.about,
            Drawing {
                kind: "plot",
                width: self.width,
                height: HEIGHT,
                marks,
            },
        )
    }

    fn right(&self) -> f64 {
        let longest = self
            .series
            .iter()
            .map(|series| series.name.chars().count().min(NAME))
            .max()
            .unwrap_or(0);
        self.width
            - if self.named {
                16.0 + 7.8 * longest as f64
            } else {
                22.0
            }
    }

    fn top(&self) -> f64 {
        if self.y.label.is_empty() { 10.0 } else { 34.0 }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (self.right() - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        if value.is_finite() {
            BOTTOM - self.y.place(value) * (BOTTOM - self.top())
        } else {
            f64::NAN
        }
    }

    fn frame(&self) -> Vec<Element> {
        let mut marks = vec![label(self.right(), HEIGHT - 4.0, "axis end", &self.x.label)];
        if !self.y.label.is_empty() {
            marks.push(label(0.0, 14.0, "axis", &self.y.label));
        }
        let grid = |d: String| el("path").class("grid").attr("d", d);
        for (value, text) in self.y.ticks(5) {
            let y = self.y(value);
            marks.push(grid(format!(
                "M{LEFT} {0}H{1}",
                pixel(y),
                pixel(self.right())
            )));
            marks.push(label(LEFT - 8.0, y + 4.0, "end", &text));
        }
        for (value, text) in self.x.ticks((self.width / 65.0) as usize) {
            let x = pixel(self.x(value));
            marks.push(grid(format!("M{x} {}V{}", self.top(), BOTTOM + 5.0)));
            marks.push(label(self.x(value), BOTTOM + 20.0, "middle", &text));
        }
        marks.push(
            el("path")
                .class("base")
                .attr("d", format!("M{LEFT} {BOTTOM}H{}", pixel(self.right()))),
        );
        marks
    }

    /// Thins `series` to one column per `stride` points; `sample` takes the first of each instead
    /// of their mean.
    fn columns(&self, series: &Series, stride: usize, sample: bool) -> Vec<Column> {
        let chunks = series.points.chunks(stride.max(1));
        let finite_x = chunks.filter(|chunk| chunk.iter().all(|point| point.0.is_finite()));
        finite_x
            .map(|chunk| {
                let chunk = if sample { &chunk[..1] } else { chunk };
                let values = || chunk.iter().map(|point| point.1).filter(|y| y.is_finite());
                let (low, high) = super::axis::range(values()).unwrap_or((f64::NAN, f64::NAN));
                let mean = values().sum::<f64>() / values().count() as f64;
                let x = chunk[chunk.len() - 1].0;
                let tip = format!(
                    "{} at {}",
                    self.y.quantity.write(mean),
                    self.x.quantity.write(x)
                );
                Column {
                    x: self.x(x),
                    mean: self.y(mean),
                    low: self.y(low),
                    high: self.y(high),
                    tip,
                }
            })
            .collect()
    }

    fn series(&self, series: &Series, columns: &[Column]) -> Element {
        let shown = || columns.iter().filter(|c| c.mean.is_finite());
        let joined =
            |text: fn(&Column) -> String, by: &str| shown().map(text).collect::<Vec<_>>().join(by);
        let group = el("g")
            .class(slot(series.slot))
            .attr("data-name", shorten(&series.name, 40))
            .attr("data-x", joined(|c| pixel(c.x), " "))
            .attr("data-y", joined(|c| pixel(c.mean), " "))
            .attr("data-tip", joined(|c| c.tip.clone(), "|"));
        let from = match series.mark {
            Mark::Step { from, .. } => self.x(from),
            _ => columns.first().map_or(LEFT, |c| c.x),
        };
        let path = |class: &str, d: String| el("path").class(class).attr("d", d);
        let curve = match series.mark {
            Mark::Points => {
                return group
                    .attr("data-near", "xy")
                    .child(path("dots", shown().map(|c| dot(c.x, c.mean)).collect()));
            }
            Mark::Line => line(columns),
            Mark::Step { .. } => steps(from, columns),
        };
        let filled = matches!(series.mark, Mark::Step { filled: true, .. });
        let floor = |c: &Column| {
            if filled {
                (c.mean, BOTTOM)
            } else {
                (c.high, c.low)
            }
        };
        let area = if filled || columns.iter().any(|c| c.high < c.low) {
            boxes(from, columns, floor)
        } else {
            String::new()
        };
        let lone = if shown().count() == 1 {
            shown().map(|c| dot(c.x, c.mean)).collect()
        } else {
            String::new()
        };
        let parts = [("band", area), ("line", curve), ("dots", lone)];
        group.children(
            parts
                .into_iter()
                .filter(|(_, d)| !d.is_empty())
                .map(|(class, d)| path(class, d)),
        )
    }
}

fn line(columns: &[Column]) -> String {
    let mut pen = 'M';
    let mut d = String::new();
    for column in columns {
        if column.mean.is_finite() {
            d.push_str(&format!("{pen}{} {}", pixel(column.x), pixel(column.mean)));
        }
        pen = if column.mean.is_finite() { 'L' } else { 'M' };
    }
    d
}

fn steps(from: f64, columns: &[Column]) -> String {
    let mut x = from;
    let mut down = false;
    let mut d = String::new();
    for column in columns {
        if column.mean.is_finite() {
            let y = pixel(column.mean);
            d.push_str(&if down {
                format!("V{y}")
            } else {
                format!("M{} {y}", pixel(x))
            });
            d.push_str(&format!("H{}", pixel(column.x)));
        }
        (x, down) = (column.x, column.mean.is_finite());
    }
    d
}

/// One box per column between the two ends that `span` gives, as a single path so that no seams
/// show.
fn boxes(from: f64, columns: &[Column], span: impl Fn(&Column) -> (f64, f64)) -> String {
    let mut x = from;
    let mut d = String::new();
    for column in columns {
        let (top, bottom) = span(column);
        if top.is_finite() && bottom > top {
            d.push_str(&format!(
                "M{} {}V{}H{}V{}z",
                pixel(x),
                pixel(top),
                pixel(bottom),
                pixel(column.x),
                pixel(top)
            ));
        }
        x = column.x;
    }
    d
}

/// A point as a stroke of no length, which round caps make a dot.
fn dot(x: f64, y: f64) -> String {
    format!("M{} {}h0", pixel(x), pixel(y))
}

/// The names of series beside their ends, moved apart where they would collide.
fn names(mut ends: Vec<(f64, f64, &Series)>) -> Vec<Element> {
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut floor = BOTTOM + LINE_HEIGHT;
    for end in ends.iter_mut().rev() {
        end.1 = end.1.min(floor - LINE_HEIGHT);
        floor = end.1;
    }
    let mut ceiling = 0.0;
    for end in &mut ends {
        end.1 = end.1.max(ceiling);
        ceiling = end.1 + LINE_HEIGHT;
    }
    ends.into_iter()
        .map(|(x, y, series)| {
            label(
                x + 7.0,
                y + 4.0,
                &format!("name {}", slot(series.slot)),
                &shorten(&series.name, NAME),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::number::Quantity;

    fn plot(points: Vec<(f64, f64)>, mark: Mark) -> String {
        let x = Axis::linear("x", Quantity::Count, points.iter().map(|p| p.0));
        let y = Axis::linear("y", Quantity::Factor, points.iter().map(|p| p.1));
        let series = vec![Series {
            name: "a".into(),
            slot: 0,
            mark,
            points,
        }];
        Plot {
            title: "t".into(),
            about: "d".into(),
            x,
            y,
            series,
            width: WIDE,
            named: true,
        }
        .draw()
        .to_string()
    }

    #[test]
    fn a_long_series_is_thinned_and_its_only_spike_stays() {
        let points = (0..1_000_000)
            .map(|at| (at as f64, if at == 777_777 { 10.0 } else { 1.0 }))
            .collect();
        let svg = plot(points, Mark::Line);
        assert!(svg.len() < 40_000, "{} bytes", svg.len());
        let band = svg
            .split("class=\"band\" d=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a band");
        let spike = pixel(
            BOTTOM - Axis::linear("", Quantity::Factor, [10.0]).place(10.0) * (BOTTOM - 34.0),
        );
        assert!(
            band.contains(&format!(" {spike}V")),
            "the band reaches up to 10, at {spike}: {band}"
        );
    }

    #[test]
    fn gaps_part_a_line_and_nothing_but_numbers_is_drawn() {
        let points = vec![
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, f64::INFINITY),
            (f64::NAN, 1.0),
            (4.0, 1.0),
            (5.0, 2.0),
        ];
        for mark in [
            Mark::Line,
            Mark::Step {
                from: 0.0,
                filled: true,
            },
            Mark::Points,
        ] {
            let svg = plot(points.clone(), mark);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let line = plot(points, Mark::Line);
        let d = line
            .split("class=\"line\" d=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .expect("a line");
        assert_eq!(d.matches('M').count(), 2, "{d}");
    }

    #[test]
    fn names_at_one_height_are_moved_apart_and_stay_inside() {
        let series = Series {
            name: "a".into(),
            slot: 0,
            mark: Mark::Line,
            points: vec![],
        };
        let labels = names((0..5).map(|_| (0.0, BOTTOM, &series)).collect());
        let mut heights: Vec<f64> = labels
            .iter()
            .map(|text| {
                text.to_string()
                    .split("y=\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next()?.parse().ok())
                    .expect("a height")
            })
            .collect();
        heights.sort_by(f64::total_cmp);
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= LINE_HEIGHT - 0.01),
            "{heights:?}"
        );
        assert!(heights[4] <= BOTTOM + 4.0, "{heights:?}");
    }
}
