//! Runs and replays from the command line: same input, same bytes; tables, JSON and reports; exit
//! status.

use crate::command::{Lab, SMALL};

const MIXED: &str = "[workload]\nreads = 0.3\ndiscards = 0.05\nflush-every = 20\noverwrites = 2\n[run]\nprecondition = \"random\"\nqueue-depth = 4\n";

#[test]
fn two_runs_of_one_experiment_give_the_same_bytes() {
    let lab = Lab::new();
    lab.write("e.toml", format!("{SMALL}{MIXED}").as_bytes());
    let (first, _) = lab.exits(0, &["run", "e.toml", "--json", "-"]);
    let (second, _) = lab.exits(0, &["run", "e.toml", "--json", "-"]);
    let (reseeded, _) = lab.exits(0, &["run", "e.toml", "--json", "-", "--seed", "2"]);
    assert!(first.starts_with("[{\"name\":\"e\",") && first.ends_with("]\n"));
    assert!(first == second && first != reseeded);
}

#[test]
fn several_experiments_stand_side_by_side() {
    let lab = Lab::new();
    lab.write("a.toml", format!("{SMALL}{MIXED}").as_bytes());
    lab.write(
        "b.toml",
        format!("{SMALL}[ftl]\nover-provisioning = 0.5\n{MIXED}").as_bytes(),
    );
    let (table, errors) = lab.exits(
        0,
        &[
            "run", "a.toml", "b.toml", "--json", "o.json", "--report", "o.html",
        ],
    );
    let head = table.lines().nth(1).unwrap();
    assert_eq!(
        (head.split_whitespace().collect::<Vec<_>>(), errors.as_str()),
        (vec!["a", "b"], "")
    );
    let factors: Vec<f64> = table
        .lines()
        .find(|l| l.contains("write amplification"))
        .unwrap()
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    assert!(factors.len() == 2 && factors[0] > factors[1], "{table}");
    assert!(!table.contains('\u{1b}'), "no colours");
    let json = std::fs::read_to_string(lab.path("o.json")).unwrap();
    assert_eq!(json.matches("\"name\":").count(), 2);
    assert!(
        std::fs::read_to_string(lab.path("o.html"))
            .unwrap()
            .contains("<title>a, b</title>")
    );
}

#[test]
fn every_setting_is_explained_and_nothing_is_run() {
    let lab = Lab::new();
    lab.write("e.toml", format!("{SMALL}save = \"dump\"\n").as_bytes());
    let (out, _) = lab.exits(
        0,
        &[
            "run",
            "e.toml",
            "--explain",
            "--set",
            "ftl.victim=cost-benefit",
        ],
    );
    for expected in [
        "chip.blocks",
        "256",
        "preset slc-2k",
        "ftl.victim",
        "\"cost-benefit\"",
        "run.queue-depth",
        "workload.overwrites",
        "default",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(!lab.path("dump").exists());
}

#[test]
fn a_trace_is_replayed_on_several_stacks() {
    let lab = Lab::new();
    lab.write("a.toml", SMALL.as_bytes());
    lab.write("b.toml", format!("{SMALL}{MIXED}").as_bytes());
    let line = |i: u64| {
        format!(
            "0,{},{},{},{}.5\n",
            i * 37 % 9000,
            512 + i % 3 * 700,
            if i.is_multiple_of(3) { "R" } else { "W" },
            i
        )
    };
    lab.write("t.spc", (0..500).map(line).collect::<String>().as_bytes());
    let (table, notes) = lab.exits(
        0,
        &["replay", "t.spc", "--stack", "a.toml", "--stack", "b.toml"],
    );
    let counts = |row: &str| {
        table
            .lines()
            .find(|l| l.trim().starts_with(row))
            .unwrap()
            .split_whitespace()
            .skip(1)
            .map(String::from)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (counts("reads "), counts("writes ")),
        (vec!["167".to_string(); 2], vec!["333".to_string(); 2]),
        "{table}"
    );
    assert!(
        notes.contains("nandlab: a: 333 requests were rounded out to whole sectors"),
        "{notes}"
    );
}

#[test]
fn refused_requests_are_a_problem_found() {
    let lab = Lab::new();
    let text = format!(
        "{SMALL}rated-erases = 20\nprogram-fail = [0, 0.05]\nerase-fail = [0, 1]\n[workload]\noverwrites = 60\n"
    );
    lab.write("e.toml", text.as_bytes());
    let (table, errors) = lab.exits(1, &["run", "e.toml"]);
    assert!(
        table.contains("requests refused") && errors.contains("the first: write of 4096 bytes"),
        "{table}{errors}"
    );
}

#[test]
fn a_dump_saved_by_one_run_is_loaded_by_the_next() {
    let lab = Lab::new();
    lab.write(
        "e.toml",
        format!("{SMALL}[workload]\nrequests = 100\n").as_bytes(),
    );
    lab.exits(0, &["run", "e.toml", "--set", "chip.save=dump"]);
    assert_eq!(
        std::fs::metadata(lab.path("dump")).unwrap().len(),
        2112 * 16 * 256
    );
    let (json, _) = lab.exits(
        0,
        &[
            "run",
            "e.toml",
            "--set",
            "chip.load=dump",
            "--set",
            "ftl.format=false",
            "--json",
            "-",
        ],
    );
    assert!(json.contains("\"key\":\"ftl.format\",\"value\":\"false\",\"origin\":\"given\""));
}

#[test]
fn chips_are_listed_with_their_sources() {
    let (out, _) = Lab::new().exits(0, &["chips"]);
    assert!(
        out.contains("slc-2k\n") && out.contains("K9F1G08U0B") && out.contains("assumed"),
        "{out}"
    );
}

#[test]
fn the_experiments_that_come_along_are_sound() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            Lab::new().exits(0, &["run", path.to_str().unwrap(), "--explain"]);
            seen += 1;
        }
    }
    assert!(seen >= 2);
}
