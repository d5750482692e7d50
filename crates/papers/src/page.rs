//! A reproduction as text and as a page.

use super::{Assumption, Claim, Exhibit, Reproduction, Row, TableExhibit, line};
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
                body: vec![shown.draw()],
            },
            Exhibit::Figures(title, plots) => {
                let mut names: Vec<&str> = Vec::new();
                for (name, _) in plots.iter().flat_map(|plot| &plot.series) {
                    if !names.contains(&name.as_str()) {
                        names.push(name);
                    }
                }
                let slots: Vec<(usize, &str)> = names.iter().copied().enumerate().collect();
                let drawn = el("div")
                    .class("pair")
                    .child(legend(&slots))
                    .children(plots.iter().map(|plot| plot.draw(&names)));
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
    let mut tables = Vec::new();
    for exhibit in &of.exhibits {
        if let Exhibit::Table(table) = exhibit {
            tables.push(table);
        }
    }
    tables
}

/// Rows, claims and assumptions as tables.
fn own(of: &Reproduction) -> [TableExhibit; 3] {
    let row = |row: &Row| {
        let off = row.published.filter(|p| *p != 0.0).map_or("-".into(), |p| {
            format!("{:+.1} %", (row.measured / p - 1.0) * 100.0)
        });
        let published = row.published.map_or("-".into(), number);
        let measured = number(row.measured);
        let basis = row.basis.name().into();
        line(
            &row.what,
            [row.unit.into(), published, measured, off, basis],
        )
    };
    let claim = |claim: &Claim| {
        let words = [claim.verdict.name(), claim.basis.name(), &claim.evidence];
        line(&claim.statement, words.map(String::from))
    };
    let assumption = |a: &Assumption| [&a.name, &a.value, &a.label, &a.why].map(String::clone);
    [
        TableExhibit::new(
            "Numbers",
            "A calibrated value shows nothing: a constant in it was chosen with published values \
            in view.",
            ["", "unit", "published", "here", "difference", "basis"],
            of.result.rows.iter().map(row),
        ),
        TableExhibit::new(
            "Claims",
            "Undecided: another seed could turn it over, or what it is about did not happen. A calibrated claim holds by construction.",
            ["", "verdict", "basis", "evidence"],
            of.result.claims.iter().map(claim),
        ),
        TableExhibit::new(
            "Assumptions",
            "",
            ["", "value", "label", "why"],
            of.result.assumptions.iter().map(|a| assumption(a).to_vec()),
        ),
    ]
}

/// Four digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
