//! The power-cut matrix from the command line: its table, its store, and what it refuses.

use crate::command::Lab;
use serde_json::Value;

/// Two cells that survive, and one that loses data: Linux's mtdblock erases a block in place.
const MATRIX: &str = r#"
[axis.layer."page"]
ftl = { scheme = "page", over-provisioning = 0.5 }
[axis.layer."FAST"]
ftl = { scheme = "fast", log-blocks = 4 }
[axis.weak."mtdblock"]
ftl.scheme = "mtdblock"
fs = { type = "fat12", cluster = "1 KiB" }
workload = { type = "mixed", operations = 40 }
[axis.requests."random"]
workload = { pattern = "random", block = "1 KiB", align = "512 B", requests = 30, flush-every = 5 }
[[product]]
axes = ["layer", "requests"]
base.chip = { preset = "small-block-64MiB", pages-per-block = 8, blocks = 32 }
[[product]]
axes = ["weak"]
base.chip = { preset = "small-block-64MiB", blocks = 256 }
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("m.toml", MATRIX.as_bytes());
    lab
}

#[test]
fn each_cell_has_a_row_and_a_finished_cell_is_not_explored_again() {
    let lab = lab();
    let args = [
        "crash", "--matrix", "m.toml", "--only", "random", "--store", "s",
    ];
    let (table, _) = lab.exits(0, &args);
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.contains("random"))
        .collect();
    assert!(
        rows.len() == 2 && rows[0].starts_with("| FAST, random | 1 |"),
        "{table}"
    );
    assert!(table.contains("\n2 cells: "), "{table}");
    let store = std::fs::read_to_string(lab.path("s")).unwrap();
    assert_eq!(store.lines().count(), 2);
    // The command prints the store's report of the first cell.
    let (first, second) = store.split_once('\n').unwrap();
    let mut line: Value = serde_json::from_str(first).unwrap();
    line["report"]["runs"] = 77.into();
    // The last command stopped within the second line.
    let stopped = format!("{line}\n{}", &second[..second.len() / 2]);
    lab.write("s", stopped.as_bytes());
    let (again, _) = lab.exits(0, &args);
    assert_eq!(
        again,
        table.replace("| FAST, random | 1 |", "| FAST, random | 77 |")
    );
    let whole = std::fs::read_to_string(lab.path("s")).unwrap();
    assert_eq!(whole, format!("{line}\n{second}"));
    // Another extent is another exploration.
    let more = [&args[..], &["--cuts", "20"]].concat();
    lab.exits(0, &more);
    let store = std::fs::read_to_string(lab.path("s")).unwrap();
    assert_eq!(store.lines().count(), 4);
}

#[test]
fn a_violation_is_a_row_and_its_state_is_made_again() {
    let lab = lab();
    let args = [
        "crash", "--matrix", "m.toml", "--cuts", "60", "--second", "0",
    ];
    let (json, errors) = lab.exits(1, &[&args[..], &["--json", "-"]].concat());
    assert!(
        errors.contains("--matrix --only 'mtdblock' --id ID"),
        "{errors}"
    );
    let cells: Vec<Value> = serde_json::from_str(&json).unwrap();
    let violations = |cell: &Value| cell["report"]["violations_total"].as_u64().unwrap();
    assert_eq!(cells.len(), 3);
    assert!(violations(&cells[0]) == 0 && violations(&cells[1]) == 0 && violations(&cells[2]) > 0);
    let id = cells[2]["report"]["violations"][0]["id"].as_str().unwrap();
    let again = [
        "crash", "--matrix", "m.toml", "--only", "mtdblock", "--id", id,
    ];
    let (found, _) = lab.exits(1, &again);
    assert!(found.starts_with(id), "{found}");
}

#[test]
fn what_is_no_matrix_or_no_cell_is_refused() {
    let lab = lab();
    lab.write("bad.toml", b"[[product]]\naxes = [\"layers\"]\n");
    lab.write(
        "cell.toml",
        b"[[product]]\naxes = []\nbase.chip.preset = \"none\"\n",
    );
    lab.write("store", b"no cell\n");
    let cases: [(&[&str], &str); 8] = [
        (&["m.toml", "--json", "m.toml"], "the same file as m.toml"),
        (
            &["m.toml", "--store", "new", "--json", "no/where"],
            "no/where: ",
        ),
        (&["bad.toml"], "product[0].axes: found \"layers\""),
        (&["cell.toml"], "cell ``: "),
        (&["m.toml", "--only", "BAST"], "--only: found \"BAST\""),
        (&["m.toml", "--id", "1:uncut"], "--id: found 3 cells"),
        (&["m.toml", "--store", "store"], "store:1: found "),
        (&["missing.toml"], "missing.toml: "),
    ];
    for (args, expected) in cases {
        let args = [&["crash", "--matrix"], args].concat();
        let (_, errors) = lab.exits(2, &args);
        assert!(errors.contains(expected), "{args:?}: {errors}");
    }
    assert!(!lab.path("new").exists(), "refused before the work");
    let (_, errors) = lab.exits(2, &["crash", "--store", "s"]);
    assert!(errors.contains("--matrix"), "{errors}");
}

#[test]
fn states_are_kept_as_files_and_each_is_kept_again_by_its_name() {
    let lab = lab();
    let args = ["crash", "--matrix", "m.toml", "--cuts", "12", "--keep"];
    let (out, _) = lab.exits(0, &[&args[..], &["kept"]].concat());
    assert!(
        out.contains("mtdblock: 12 states in kept/mtdblock"),
        "{out}"
    );
    let directory = lab.path("kept/mtdblock");
    let entries = std::fs::read_dir(&directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 12, "{names:?}");
    for name in &names {
        let id = name.strip_suffix(".img").unwrap().replace('.', ":");
        let one = ["again", "--only", "mtdblock", "--id", &id];
        let (path, _) = lab.exits(0, &[&args[..], &one[..]].concat());
        assert_eq!(path, format!("again/{name}\n"));
        let [kept, again] =
            [&directory, &lab.path("again")].map(|path| std::fs::read(path.join(name)).unwrap());
        assert!(kept == again, "{name} differs when it is kept again");
    }
    // A state of a file system is an image that other tools open.
    let first = directory.join(&names[0]);
    lab.exits(0, &["image", "ls", first.to_str().unwrap()]);
    let missing = [
        &args[..],
        &["again", "--only", "mtdblock", "--id", "1:9999:torn:0"],
    ]
    .concat();
    lab.refuses(
        &missing,
        "state 1:9999:torn:0: chip operation 9999, expected one of the log's",
    );
}
