//! Tables: names to the left, numbers to the right, columns of equal digits.

use super::markup::{Element, el};

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    head: Element,
    body: Vec<Element>,
    columns: usize,
}

/// One value of a row.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// What stands in it.
    pub text: String,
    /// Muted words after it.
    pub note: String,
    /// Whether it is the best of its row.
    pub best: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell {
            text,
            ..Cell::default()
        }
    }
}

impl Table {
    /// A table with these column headings, the first over the row names.
    pub fn new(heads: impl IntoIterator<Item = Element>) -> Table {
        let heads: Vec<Element> = heads
            .into_iter()
            .map(|head| el("th").attr("scope", "col").child(head))
            .collect();
        Table {
            columns: heads.len(),
            head: el("tr").children(heads),
            body: Vec::new(),
        }
    }

    /// A heading for the rows that follow.
    pub fn group(&mut self, name: &str) {
        let head = el("th")
            .attr("scope", "colgroup")
            .attr("colspan", self.columns)
            .text(name);
        self.body.push(el("tr").class("group").child(head));
    }

    /// A row of numbers.
    pub fn row(&mut self, name: &str, cells: impl IntoIterator<Item = Cell>) {
        self.push("", name, cells);
    }

    /// A row marked as worth a look.
    pub fn marked(&mut self, name: &str, cells: impl IntoIterator<Item = Cell>) {
        self.push("marked", name, cells);
    }

    /// The table as it stands; `class` is `numbers`, `words` (which may break anywhere) or `prose`.
    pub fn draw(self, class: &str) -> Element {
        let table = el("table")
            .class(class)
            .child(el("thead").child(self.head))
            .child(el("tbody").children(self.body));
        el("div").class("scroll").child(table)
    }

    fn push(&mut self, class: &str, name: &str, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().map(|cell| {
            let text = if cell.best {
                el("strong").text(&cell.text)
            } else {
                el("span").text(&cell.text)
            };
            let td = el("td").child(text);
            if cell.note.is_empty() {
                td
            } else {
                td.text(" ").child(el("small").text(&cell.note))
            }
        });
        self.body.push(
            el("tr")
                .class(class)
                .child(el("th").attr("scope", "row").text(name))
                .children(cells),
        );
    }
}
