//! Stacked horizontal bars: how wholes divide into parts, named directly where a part is wide
//! enough.

use super::markup::{Drawing, Element, el, figure, label, pixel, shorten};
use super::number::Quantity;
use super::plot::WIDE;

/// A labelled value, drawn as a bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What the bar stands for, written before it.
    pub name: String,
    /// One part for each key. A part that is not positive is not drawn.
    pub parts: Vec<f64>,
    /// Written after it: its total, usually.
    pub note: String,
}

/// How long a bar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Every bar is its own whole.
    Share,
    /// In proportion to the largest bar.
    Amount,
}

const ROW: f64 = 34.0;
const THICK: f64 = 24.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDE - 120.0;

/// The figure: one row per bar, parts in the order of `keys`.
pub fn stacked(title: &str, about: &str, keys: &[String], bars: &[Bar], length: Length) -> Element {
    let total = |bar: &Bar| {
        bar.parts
            .iter()
            .copied()
            .filter(|&part| usable(part))
            .sum::<f64>()
    };
    let largest = bars.iter().map(total).fold(0.0, f64::max);
    let rows = bars.iter().enumerate().flat_map(|(at, bar)| {
        let whole = if length == Length::Share {
            total(bar)
        } else {
            largest
        };
        row(bar, keys, at as f64 * ROW + 2.0, total(bar), whole)
    });
    figure(
        title,
        about,
        Drawing {
            kind: "bars",
            width: WIDE,
            height: bars.len() as f64 * ROW + 2.0,
            marks: rows.collect(),
        },
    )
}

/// A key to the parts of bars.
pub fn legend(keys: &[String]) -> Element {
    let sample = |at| {
        el("svg")
            .class("swatch")
            .attr("viewBox", "0 0 14 12")
            .attr("aria-hidden", "true")
            .children(fill(at, 0.0, 0.0, 14.0, 12.0))
    };
    el("ul").class("legend").children(
        keys.iter()
            .enumerate()
            .map(|(at, key)| el("li").child(sample(at)).text(key)),
    )
}

fn row(bar: &Bar, keys: &[String], y: f64, total: f64, whole: f64) -> Vec<Element> {
    let middle = y + THICK / 2.0 + 4.5;
    let mut marks = vec![label(LEFT - 10.0, middle, "end", &shorten(&bar.name, 26))];
    let mut x = LEFT;
    for (at, &part) in bar
        .parts
        .iter()
        .enumerate()
        .filter(|(_, part)| usable(**part))
    {
        let width = part / whole * (RIGHT - LEFT);
        let share = Quantity::Share.write(part / total);
        let key = keys.get(at).map_or("", String::as_str);
        marks.push(
            el("g")
                .child(el("title").text(&format!("{key}: {share}")))
                .children(fill(at, x, y, width, THICK)),
        );
        let named = shorten(&format!("{key} {share}"), 40);
        let fits = |text: &str| text.chars().count() as f64 * 6.9 + 10.0 <= width;
        if let Some(text) = [named, share].into_iter().find(|text| fits(text)) {
            marks.push(label(x + width / 2.0, middle, "middle part", &text));
        }
        x += width;
    }
    marks.push(label(x + 10.0, middle, "note", &bar.note));
    marks
}

/// A filled box, and over it the hatching that stands in for colour on paper.
fn fill(at: usize, x: f64, y: f64, width: f64, height: f64) -> Vec<Element> {
    let rect = |class: String| {
        let place = el("rect")
            .class(class)
            .attr("x", pixel(x))
            .attr("y", pixel(y));
        place.attr("width", pixel(width)).attr("height", height)
    };
    vec![
        rect(format!("k{}", at % 9)),
        rect("hatch".into()).attr("fill", format!("url(#hatch{})", at % 9)),
    ]
}

fn usable(part: f64) -> bool {
    part.is_finite() && part > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_bar_and_what_is_no_number_takes_no_room() {
        let bars = [Bar {
            name: "run".into(),
            parts: vec![3.0, f64::NAN, 0.0, -1.0, 1.0],
            note: "4".into(),
        }];
        let keys = ["data", "x", "y", "z", "collection"].map(String::from);
        let svg = stacked("t", "d", &keys, &bars, Length::Share).to_string();
        let full = RIGHT - LEFT;
        assert!(
            svg.contains(&format!("width=\"{}\"", pixel(0.75 * full)))
                && svg.contains(&format!("width=\"{}\"", pixel(0.25 * full)))
        );
        assert_eq!(svg.matches("class=\"hatch\"").count(), 2);
        assert!(svg.contains("data 75.0\u{202f}%"));
    }

    #[test]
    fn amounts_are_drawn_in_proportion_to_the_largest() {
        let bar = |part: f64| Bar {
            name: String::new(),
            parts: vec![part],
            note: String::new(),
        };
        let svg = stacked(
            "t",
            "d",
            &["x".to_string()],
            &[bar(2.0), bar(8.0)],
            Length::Amount,
        )
        .to_string();
        let full = RIGHT - LEFT;
        assert!(
            [0.25, 1.0]
                .iter()
                .all(|share| svg.contains(&format!("width=\"{}\"", pixel(share * full)))),
            "{svg}"
        );
    }
}
