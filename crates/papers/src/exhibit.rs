//! What a reproduction shows besides rows and claims: tables for terminal and page, plots for the
//! page.

use nandlab_lab::report::axis::Axis;
use nandlab_lab::report::bars::{self, Bar, Length};
use nandlab_lab::report::markup::{Element, el};
use nandlab_lab::report::number::Quantity;
use nandlab_lab::report::plot::{HALF, Mark, Plot, Series};
use nandlab_lab::report::table::{Cell, Table};
use serde::Serialize;

/// A table or a figure.
pub enum Exhibit {
    /// A table of rows and columns.
    Table(TableExhibit),
    /// Plots that stand side by side.
    Figures(String, Vec<Figure>),
    /// Bars below each other.
    Bars(BarExhibit),
}

impl Exhibit {
    /// A table; the first head is over the names of rows.
    pub fn table<H: ToString>(
        title: impl Into<String>,
        about: &str,
        heads: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self::Table(TableExhibit::new(title, about, heads, rows))
    }

    /// A series of a figure of which nothing is drawn: without a point, or a line of one.
    pub fn empty_series(&self) -> Option<&str> {
        let Self::Figures(_, figures) = self else {
            return None;
        };
        let of_figure = |figure: &Figure| {
            let least = if figure.drawn == Drawn::Dots { 1 } else { 2 };
            let mut series = figure.series.iter();
            series.position(|(_, points)| points.len() < least)
        };
        let mut all = figures.iter();
        all.find_map(|figure| Some(figure.series[of_figure(figure)?].0.as_str()))
    }
}

/// A line of a table: its name, then its cells.
pub fn line(name: impl Into<String>, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    [name.into()].into_iter().chain(cells).collect()
}

/// Words with commas between them.
pub fn listed(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// Bars in proportion to the longest.
pub struct BarExhibit {
    /// The heading above the figure.
    pub title: String,
    /// A sentence on the meaning of the values.
    pub about: &'static str,
    /// What the length of a bar counts.
    pub key: &'static str,
    /// Name, length, and what is written behind each.
    pub bars: Vec<(String, f64, String)>,
}

impl BarExhibit {
    /// Draws the exhibit for a page.
    pub fn draw(&self) -> Element {
        let bar = |(name, length, note): &(String, f64, String)| Bar {
            name: name.clone(),
            parts: vec![*length],
            note: note.clone(),
        };
        let bars: Vec<Bar> = self.bars.iter().map(bar).collect();
        let keys = [self.key.to_string()];
        bars::stacked(&self.title, self.about, &keys, &bars, Length::Amount)
    }
}

/// A table of words and numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableExhibit {
    /// The heading above the figure.
    pub title: String,
    /// What it shows, and what to take from it.
    pub about: String,
    /// Headings, the first over the names of rows.
    pub heads: Vec<String>,
    /// Rows, each with as many cells as there are heads.
    pub rows: Vec<Vec<String>>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// Each value is a dot.
    Dots,
    /// A line joins the values.
    Lines,
    /// Joined by lines, over an axis on which twice as much is always as far.
    LinesOverLog,
    /// The same for both axes.
    LinesOverLogs,
}

/// Points over two axes.
pub struct Figure {
    /// The heading above the figure.
    pub title: String,
    /// A sentence on the meaning of the values.
    pub about: String,
    /// Name of the horizontal axis.
    pub x: String,
    /// Name of the vertical axis.
    pub y: String,
    /// How they are drawn.
    pub drawn: Drawn,
    /// What the two axes count.
    pub of: (Quantity, Quantity),
    /// Series by their names, with their points.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl TableExhibit {
    /// A table; the first head is over the names of rows.
    pub fn new<H: ToString>(
        title: impl Into<String>,
        about: &str,
        heads: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            about: about.into(),
            heads: heads.into_iter().map(|head| head.to_string()).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// Draws the exhibit for a page.
    pub fn draw(&self) -> Vec<Element> {
        let mut table = Table::new(self.heads.iter().map(|head| el("span").text(head)));
        for row in &self.rows {
            let (name, cells) = row
                .split_first()
                .map_or(("", &[][..]), |(name, cells)| (name.as_str(), cells));
            table.row(name, cells.iter().cloned().map(Cell::from));
        }
        let about = (!self.about.is_empty()).then(|| el("p").text(&self.about));
        // Sentences wrap, numbers stand in columns.
        let sentences = self.has_sentences();
        about
            .into_iter()
            .chain([table.draw(if sentences { "prose" } else { "numbers" })])
            .collect()
    }

    fn has_sentences(&self) -> bool {
        let mut cells = self.rows.iter().flat_map(|row| row.iter().skip(1));
        cells.any(|cell| cell.len() > 30)
    }
}

impl Figure {
    /// For the page, beside plots with other series of `names`: each has one colour in all of them.
    pub fn draw(&self, names: &[&str]) -> Element {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let (mark, across, upwards) = match self.drawn {
            Drawn::Dots => (Mark::Points, false, false),
            Drawn::Lines => (Mark::Line, false, false),
            Drawn::LinesOverLog => (Mark::Line, true, false),
            Drawn::LinesOverLogs => (Mark::Line, true, true),
        };
        let series = self.series.iter().map(|(name, points)| Series {
            name: name.clone(),
            slot: names.iter().position(|known| known == name).unwrap_or(0),
            mark,
            points: points.clone(),
        });
        Plot {
            title: self.title.clone(),
            about: self.about.clone(),
            x: Axis::new(across, &self.x, self.of.0, points().map(|p| p.0)),
            y: Axis::new(upwards, &self.y, self.of.1, points().map(|p| p.1)),
            series: series.collect(),
            width: HALF,
            named: false,
        }
        .draw()
    }
}
