//! The report as text: well-formed, escaped, self-contained, and whole whatever the numbers.

use crate::report_fixture;
use nandlab_lab::report::{self, Section, markup::el};
use nandlab_lab::result::*;

/// Walks all tags; returns how often each was opened, or fails where they do not nest.
fn tags(page: &str) -> std::collections::BTreeMap<String, usize> {
    let body = page
        .strip_prefix("<!DOCTYPE html>")
        .expect("the page opens with its doctype");
    let mut open = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        let end = start
            + rest[start..]
                .find('>')
                .unwrap_or_else(|| panic!("a tag without end: {}", &rest[start..]));
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of order");
            continue;
        }
        let name = tag.split(' ').next().unwrap_or_default().to_string();
        assert!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()),
            "no tag: <{tag}>"
        );
        assert_eq!(
            tag.matches('"').count() % 2,
            0,
            "quotes do not pair: <{tag}>"
        );
        *seen.entry(name.clone()).or_insert(0) += 1;
        match name.as_str() {
            "meta" => {}
            "style" | "script" => {
                rest = &rest
                    [rest.find(&format!("</{name}>")).expect("raw text ends") + name.len() + 3..]
            }
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    seen
}

#[test]
fn the_page_is_well_formed_and_shows_every_figure() {
    let (runs, costs) = report_fixture::comparison();
    let page = report::html("Two stacks", &runs, &costs);
    let seen = tags(&page);
    // Three over time, two per operation (write, read, flush), three of causes, two maps per chip.
    assert_eq!(seen["figure"], 3 + 2 * 3 + 3 + 2 * 2);
    assert_eq!(seen["desc"], seen["figure"], "each figure describes itself");
    assert_eq!((seen["h1"], seen["title"] > seen["figure"]), (1, true));
    for text in [
        "Write amplification",
        "p99.9",
        "full merge",
        "mlc-16GiB",
        "21.7\u{202f}TB",
        "3.82\u{202f}s",
        "312\u{202f}MiB",
        "beyond the end",
    ] {
        assert!(page.contains(text), "{text:?} is missing");
    }
    assert_eq!(
        page,
        report::html("Two stacks", &runs, &costs),
        "the same results give the same page"
    );
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let (runs, costs) = report_fixture::comparison();
    let page = report::html("Two stacks", &runs, &costs).to_lowercase();
    for reference in [
        "http:",
        "https:",
        "//",
        "src=",
        "href=",
        "@import",
        "@font-face",
        "fetch(",
    ] {
        let found = page
            .match_indices(reference)
            .map(|(at, _)| &page[at..(at + 60).min(page.len())])
            .find(|text| !text.starts_with("// "));
        assert_eq!(found, None, "{reference}");
    }
    assert!(
        page.match_indices("url(")
            .all(|(at, _)| page[at..].starts_with("url(#"))
    );
}

#[test]
fn settings_that_differ_stand_out() {
    let (runs, _) = report_fixture::comparison();
    let page = report::html("t", &runs, &[]);
    assert!(
        page.contains("6 of 11 settings differ"),
        "chip.preset, dies, program; ftl.scheme, spare, log-blocks"
    );
    assert_eq!(page.matches("class=\"marked\"").count(), 6);
    let same = report::html("t", &[runs[0].clone(), runs[0].clone()], &[]);
    assert!(same.contains("share every setting") && same.contains("ssd-8-dies (2)"));
}

#[test]
fn hostile_strings_stay_text() {
    let evil = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&\u{0}\u{202e}";
    let (mut runs, _) = report_fixture::comparison();
    let run = &mut runs[0];
    run.settings[0] = Setting {
        key: evil.into(),
        value: evil.into(),
        origin: evil.into(),
    };
    for text in [
        &mut run.name,
        &mut run.flash.causes[1].cause,
        &mut run.host.operations[0].operation,
    ] {
        *text = evil.into();
    }
    (run.host.failed, run.host.first_failure) = (1, Some(evil.into()));
    let extra = Section {
        title: evil.into(),
        body: vec![el("p").text(evil)],
    };
    let page = report::document(
        evil,
        report::sections(&runs, &[])
            .into_iter()
            .chain([extra])
            .collect(),
    );
    let seen = tags(&page);
    assert_eq!((seen["script"], seen.get("img")), (1, None));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn odd_numbers_never_reach_the_reader() {
    let (mut runs, _) = report_fixture::comparison();
    for (at, value) in [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        f64::MAX,
        1e-320,
    ]
    .into_iter()
    .enumerate()
    {
        runs[0].series[at] = Point {
            at_ns: u64::MAX,
            written_per_s: value,
            read_per_s: value,
            write_amplification: Some(value),
        };
        runs[0].chip.erases[at] = value as f32;
        runs[1].chip.valid[at] = value as f32;
        runs[1].flash.die_busy.push(value);
    }
    runs[0].flash.write_amplification = Some(f64::NAN);
    runs[1].host.operations[0].latency = Latency {
        mean_ns: f64::INFINITY,
        buckets: vec![(0, 1), (u64::MAX, u64::MAX)],
        ..Latency::default()
    };
    runs[1].flash.causes[0].reads = u64::MAX;
    let page = report::html(
        "t",
        &runs,
        &[Cost {
            wall_s: f64::NAN,
            peak_bytes: 0,
        }],
    );
    tags(&page);
    let shown =
        &page[page.find("<main>").expect("a body")..page.find("<script>").expect("a script")];
    for odd in ["NaN", "inf", ">-"] {
        let at = shown
            .find(odd)
            .map(|at| &shown[at.saturating_sub(80)..(at + 20).min(shown.len())]);
        assert_eq!(at, None, "{odd}");
    }
}

#[test]
fn empty_results_make_a_page_too() {
    for runs in [
        vec![],
        vec![RunResult::default()],
        vec![RunResult::default(); 12],
    ] {
        let page = report::html("", &runs, &[]);
        tags(&page);
        assert!(page.contains("<h1>Report</h1>") && !page.contains("NaN"));
    }
}

#[test]
fn a_million_points_make_no_large_page() {
    let (mut runs, _) = report_fixture::comparison();
    let last = runs[0].series.len();
    runs[0].series = (0..1_000_000)
        .map(|at| Point {
            at_ns: at as u64 * 1000,
            ..runs[0].series[at % last].clone()
        })
        .collect();
    let page = report::html("t", &runs, &[]);
    assert!(page.len() < 600_000, "{} bytes", page.len());
}
