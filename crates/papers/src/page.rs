//! A reproduction as text and as a page.

use super::{Exhibit, Reproduction, Row, TableExhibit};
use nandlab_lab::report::markup::{el, legend};
use nandlab_lab::report::{Section, document};
use nandlab_lab::table;

/// Everything but the figures.
pub fn text(of: &Reproduction) -> String {
    let mut parts = vec![format!("{}: {}\n", of.result.paper, of.title)];
    let own = own(of);
    for shown in own.iter().chain(tables(of)) {
        let about = if shown.about.is_empty() {
            String::new()
        } else {
            format!("{}\n", shown.about)
        };
        parts.push(format!(
            "{}\n{about}{}",
            shown.title,
            table::rows(&shown.heads, &shown.rows)
        ));
    }
    parts.join("\n")
}

/// A page with everything.
pub fn html(of: &Reproduction) -> String {
    let mut sections: Vec<Section> = own(of).iter().map(section).collect();
    for exhibit in &of.exhibits {
        sections.push(match exhibit {
            Exhibit::Table(shown) => section(shown),
            Exhibit::Bars(shown) => Section {
                title: shown.title.clone(),
                body: shown.draw(),
            },
            Exhibit::Figures(title, plots) => {
                let names = plots
                    .first()
                    .map(|plot| plot.names.as_slice())
                    .unwrap_or_default();
                let names: Vec<(usize, &str)> =
                    names.iter().map(String::as_str).enumerate().collect();
                let drawn = el("div")
                    .class("pair")
                    .child(legend(&names))
                    .children(plots.iter().map(super::Figure::draw));
                Section {
                    title: title.clone(),
                    body: vec![drawn],
                }
            }
        });
    }
    document(of.title, sections)
}

fn section(shown: &TableExhibit) -> Section {
    Section {
        title: shown.title.clone(),
        body: shown.draw(),
    }
}

/// The tables among the exhibits.
pub fn tables(of: &Reproduction) -> Vec<&TableExhibit> {
    of.exhibits
        .iter()
        .filter_map(|exhibit| {
            if let Exhibit::Table(table) = exhibit {
                Some(table)
            } else {
                None
            }
        })
        .collect()
}

/// Rows, claims and assumptions as tables.
fn own(of: &Reproduction) -> [TableExhibit; 3] {
    let heads = |heads: &[&str]| heads.iter().map(ToString::to_string).collect();
    let row = |row: &Row| {
        let off = row.published.filter(|p| *p != 0.0).map_or("-".into(), |p| {
            format!("{:+.1} %", (row.measured / p - 1.0) * 100.0)
        });
        let published = row.published.map_or("-".into(), number);
        vec![
            row.what.clone(),
            row.unit.into(),
            published,
            number(row.measured),
            off,
            row.basis.name().into(),
        ]
    };
    let rows = TableExhibit {
        title: "Numbers".into(),
        about:
            "A calibrated value agrees by construction: one constant was chosen so that it does."
                .into(),
        heads: heads(&["", "unit", "published", "here", "difference", "basis"]),
        rows: of.result.rows.iter().map(row).collect(),
    };
    let claims = TableExhibit {
        title: "Claims".into(),
        about: String::new(),
        heads: heads(&["", "holds here", "evidence"]),
        rows: of
            .result
            .claims
            .iter()
            .map(|c| {
                vec![
                    c.statement.clone(),
                    if c.holds { "yes" } else { "no" }.into(),
                    c.evidence.clone(),
                ]
            })
            .collect(),
    };
    let assumptions = TableExhibit {
        title: "Assumptions".into(),
        about: String::new(),
        heads: heads(&["", "value", "label", "why"]),
        rows: of
            .result
            .assumptions
            .iter()
            .map(|a| {
                vec![
                    a.name.clone(),
                    a.value.clone(),
                    a.label.clone(),
                    a.why.clone(),
                ]
            })
            .collect(),
    };
    [rows, claims, assumptions]
}

/// Four digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
