//! A report for people: one HTML page that needs nothing but itself.
//!
//! [`html`] turns results into a page with figures and tables that reads offline, on paper and
//! without scripts; the script it carries only adds read-outs under the pointer. The chart rooms
//! ([`plot`], [`bars`], [`heat`], [`table`]) know nothing of runs and serve any [`Section`]. Every
//! string passes through [`markup`], so no name or setting can break the page; the page is a pure
//! function of its arguments.

pub mod axis;
pub mod bars;
mod figures;
mod headline;
pub mod heat;
pub mod markup;
mod names;
pub mod number;
pub mod plot;
mod section;
mod style;
pub mod table;

pub use section::Section;

use crate::result::{Cost, RunResult};
use markup::el;

/// The report on one run, or on several side by side. `costs` may be shorter than `runs`.
pub fn html(title: &str, runs: &[RunResult], costs: &[Cost]) -> String {
    document(title, sections(runs, costs))
}

/// What a report says about runs, for pages that say more: add sections and hand all to
/// [`document`].
pub fn sections(runs: &[RunResult], costs: &[Cost]) -> Vec<Section> {
    if runs.is_empty() {
        return vec![Section {
            title: "No runs".into(),
            body: vec![el("p").text("There is nothing to report: no run was handed in.")],
        }];
    }
    let names = labels(runs);
    let mut sections = vec![
        headline::summary(runs, &names, costs),
        headline::settings(runs, &names),
    ];
    sections.extend(figures::all(runs, &names));
    sections
}

/// A whole page made of sections.
pub fn document(title: &str, sections: Vec<Section>) -> String {
    let title = if title.trim().is_empty() {
        "Report"
    } else {
        title
    };
    let main =
        sections
            .into_iter()
            .fold(el("main").child(el("h1").text(title)), |main, section| {
                main.child(
                    el("section")
                        .child(el("h2").text(&section.title))
                        .children(section.body),
                )
            });
    let head = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{}\n<style>{}</style>\n</head>\n",
        el("title").text(title),
        style::css()
    );
    format!(
        "{head}<body>\n{}\n{main}\n<script>{}</script>\n</body>\n</html>\n",
        style::hatches(),
        style::SCRIPT
    )
}

/// What the page calls each run: its name, numbered where two share one.
fn labels(runs: &[RunResult]) -> Vec<String> {
    let base = |run: &RunResult| {
        if run.name.trim().is_empty() {
            "unnamed".to_string()
        } else {
            run.name.clone()
        }
    };
    let twin = |at: usize, other: usize| base(&runs[at]) == base(&runs[other]);
    (0..runs.len())
        .map(
            |at| match (0..runs.len()).any(|other| other != at && twin(at, other)) {
                true => format!(
                    "{} ({})",
                    base(&runs[at]),
                    1 + (0..at).filter(|&other| twin(at, other)).count()
                ),
                false => base(&runs[at]),
            },
        )
        .collect()
}
