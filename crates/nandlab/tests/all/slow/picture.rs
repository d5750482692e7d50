//! `docs/images/wear.svg`, the picture of the README, comes from a report.
//!
//! `cargo xtask picture` writes it; the test compares it byte for byte. The runs' numbers are those
//! that they had, too.

use super::results::assert_kept;
use crate::command::Lab;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The experiments, and the charts of their report that the picture shows.
pub const SHOWN: [(&str, &str); 2] = [
    ("logger-mtdblock.toml", "Wear: FAT on mtdblock"),
    ("logger-ubi.toml", "Wear: JFFS2 on UBI"),
];
/// Width and height of a chart in the report.
const CHART: (f64, f64) = (524.0, 194.5);
const HEADING: f64 = 26.0;
const GAP: f64 = 32.0;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text between two marks, both included.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}"));
    let end = text[start..]
        .find(to)
        .unwrap_or_else(|| panic!("no {to} after {from}"));
    &text[start..start + end + to.len()]
}

/// The chart of this title, at a place of the picture.
fn chart(report: &str, title: &str, x: f64) -> String {
    let figure = part(report, &format!("<h3>{title}</h3>"), "</figure>");
    let chart = part(figure, "<svg", "</svg>");
    let (width, height) = CHART;
    let place = format!("<svg x=\"{x}\" y=\"{HEADING}\" width=\"{width}\" height=\"{height}\"");
    let heading = title.trim_start_matches("Wear: ");
    format!(
        "<text x=\"{x}\" y=\"16\" class=\"title\">{heading}: erases of each block</text>\n{}\n",
        chart.replacen("<svg", &place, 1)
    )
}

/// The picture, and the results of its runs.
fn picture() -> (String, Vec<Value>) {
    let lab = Lab::new();
    let files = SHOWN.map(|(file, _)| root().join("experiments").join(file));
    let mut words = vec!["run"];
    words.extend(files.iter().map(|file| file.to_str().unwrap()));
    words.extend(["--report", "report.html", "--json", "-"]);
    let (json, _) = lab.exits(0, &words);
    let report = std::fs::read_to_string(lab.path("report.html")).unwrap();
    let width = CHART.0 * 2.0 + GAP;
    let height = CHART.1 + HEADING;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
        width=\"{width}\" height=\"{height}\" font-family=\"system-ui, sans-serif\" \
        font-size=\"12.5\">\n{}\n<style>svg{{min-width:0}}.title{{fill:var(--ink);\
        font-size:15px;font-weight:600}}</style>\n\
        <rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n",
        part(&report, "<style>", "</style>")
    );
    for ((_, title), x) in SHOWN.into_iter().zip([0.0, CHART.0 + GAP]) {
        picture.push_str(&chart(&report, title, x));
    }
    picture.push_str("</svg>\n");
    (picture, serde_json::from_str(&json).unwrap())
}

#[test]
fn the_picture_of_the_readme_is_what_the_program_draws() {
    let (picture, runs) = picture();
    let path = root().join("docs/images/wear.svg");
    if std::env::var_os("NANDLAB_PICTURE").is_some() {
        std::fs::write(&path, &picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "docs/images/wear.svg is out of date; `cargo xtask picture` writes it"
    );
    let of = SHOWN.into_iter().zip(runs);
    of.for_each(|((file, _), run)| assert_kept(file, run));
}
