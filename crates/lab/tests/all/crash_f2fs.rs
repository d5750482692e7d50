//! F2FS on a page-mapped layer, the power cut at every flash operation of a mixed run: what was
//! fsynced is there, from a checkpoint or rolled forward; the check finds no damage, work goes on.

use nandlab_lab::Experiment;
use nandlab_lab::crash::{Cuts, Plan, Prepared, SecondLevel, explore};
use nandlab_stack::Document;
use std::path::Path;

const EXPERIMENT: &str = include_str!("../../../../experiments/crash-f2fs.toml");

fn survives(settings: &[&str], plan: &Plan) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let document =
        Document::parse("crash-f2fs.toml", Path::new("."), EXPERIMENT, &settings).unwrap();
    let prepared = Prepared::files(&Experiment::take(document).unwrap(), usize::MAX)
        .unwrap()
        .unwrap();
    let report = explore(&prepared.subject, &prepared.ops, plan).unwrap();
    println!("{settings:?}\n{report}");
    assert_eq!(report.violations_total, 0, "{settings:?}: {report}");
    assert!(report.chip_ops > 80, "{report}");
}

#[test]
fn every_cut_is_survived() {
    survives(
        &[],
        &Plan {
            words: 1,
            second: SecondLevel::Every(60),
            ..Plan::default()
        },
    );
}

#[test]
fn other_runs_keep_their_promises() {
    let sample = Plan {
        words: 1,
        cuts: Cuts::Sample(60),
        second: SecondLevel::Every(60),
        ..Plan::default()
    };
    for (seed, choice) in (2..).zip([
        "fs.logs=4",
        "fs.logs=2",
        "fs.inline-data=false",
        "fs.roll-forward=false",
    ]) {
        survives(&[&format!("run.seed={seed}"), choice], &sample);
    }
}
