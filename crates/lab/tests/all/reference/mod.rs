//! `docs/reference.md`: every key of a description, asked of the program itself.
//!
//! The program says which keys a section has (the error of an unknown key), what each expects (the
//! error of a wrong value) and what its default is (the settings). `keys.txt` adds one sentence for
//! each key. `cargo xtask reference` writes the page; the test compares it.

use nandlab_lab::Experiment;
use nandlab_stack::Document;
use nandlab_stack::host::built_in_costs;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const SENTENCES: &str = include_str!("keys.txt");
const CHIP: &str = "[chip]\npreset = \"slc-2k\"\n";
const FILES: &str = "[workload]\ntype = \"iozone\"\n";
const FLASH: &str = "[ftl]\nscheme = \"none\"\n[fs]\ntype = \"jffs2\"\n";
const DISK: &str = "[fs]\ntype = \"ext3\"\n";
/// Keys of a chip whose blocks have an SLC mode.
const SLC_MODE: &str = "cell-bits = 2\nslc-read = \"25 us\"\nslc-program = \"300 us\"\n";
/// No section has this key, and none has one like it.
const UNKNOWN: &str = "qqqqqqqqqqqqqqqqqqqq";
/// The platform whose costs are shown: it has all of them.
const PLATFORM: &str = "omap2420";
/// Keys whose default depends on the file's name.
const NO_DEFAULT: [&str; 1] = ["experiment.name"];

/// A table of the page: its heading, and descriptions that permit its keys.
struct Table {
    section: &'static str,
    kind: Option<&'static str>,
    descriptions: Vec<String>,
}

impl Table {
    fn new(section: &'static str, descriptions: &[&str]) -> Self {
        Self {
            section,
            kind: None,
            descriptions: descriptions
                .iter()
                .map(|text| format!("{CHIP}{text}"))
                .collect(),
        }
    }

    fn kind(section: &'static str, kind: &'static str, description: &str) -> Self {
        Self {
            kind: Some(kind),
            ..Self::new(section, &[description])
        }
    }

    fn heading(&self) -> String {
        let Self { section, kind, .. } = self;
        match kind {
            Some(kind) => format!("\n### `[{section}]` with `{kind}`\n"),
            None => format!("\n## `[{section}]`\n"),
        }
    }
}

fn tables() -> Vec<Table> {
    let mut all = vec![
        Table::new("experiment", &[""]),
        Table::new(
            "chip",
            &[
                "",
                "contents = \"file\"\ncontents-file = \"a\"\n",
                "save = \"dump\"\n",
                SLC_MODE,
            ],
        ),
        Table::new("ftl", &[""]),
    ];
    all[2].descriptions.clear();
    for kind in ["page", "bast", "sast", "fast", "nftl"] {
        let text = format!("[ftl]\nscheme = \"{kind}\"\n");
        all.push(Table::kind("ftl", kind, &text));
    }
    let cached = format!("{CHIP}{SLC_MODE}[ftl]\nscheme = \"page\"\nslc-cache-blocks = 8\n");
    all[3].descriptions.push(cached);
    let ubi = format!("[ubi]\nattach = \"ubil\"\n[fs]\ntype = \"jffs2\"\n{FILES}");
    all.push(Table::new("ubi", &[&ubi]));
    all.push(Table::new("fs", &[]));
    for kind in ["fat", "ext2", "ext3", "ext4", "f2fs"] {
        let text = format!("[fs]\ntype = \"{kind}\"\n{FILES}");
        all.push(Table::kind("fs", kind, &text));
    }
    all.push(Table::kind("fs", "jffs2", &format!("{FLASH}{FILES}")));
    let ubifs = format!("[ftl]\nscheme = \"ubi\"\n[fs]\ntype = \"ubifs\"\n{FILES}");
    all.push(Table::kind("fs", "ubifs", &ubifs));
    let cache = "[nvram]\nholds = \"writes\"\npolicy = \"bplru\"\n";
    all.push(Table::new("nvram", &[cache]));
    let memory = format!("{DISK}{FILES}[memory]\nsize = \"64 MiB\"\n");
    all.push(Table::new("memory", &[&memory]));
    let deferred = format!("{FLASH}{FILES}[write-back]\ndeferred = true\n");
    all.push(Table::new("write-back", &[&deferred]));
    let host = format!("{DISK}{FILES}[host]\nplatform = \"{PLATFORM}\"\n");
    all.push(Table::new("host", &[&host]));
    all.push(Table::new("workload", &[]));
    for (kind, more) in workloads() {
        let text = format!("[workload]\ntype = \"{kind}\"\n{more}");
        all.push(Table {
            descriptions: more
                .split('|')
                .map(|more| format!("{CHIP}[workload]\ntype = \"{kind}\"\n{more}"))
                .collect(),
            ..Table::kind("workload", kind, &text)
        });
    }
    all.push(Table::new("run", &["[run]\nprecondition = \"random\"\n"]));
    all
}

/// The kinds of workload, each with further lines; `|` separates descriptions.
fn workloads() -> Vec<(&'static str, &'static str)> {
    let patterns = "pattern = \"zipf\"\narrival = \"poisson\"\ninterval = \"1 ms\"\n\
        |pattern = \"hot-cold\"\n|bytes = \"1 MiB\"\n|requests = 1\n";
    let traces = "file = \"a\"\nfit = \"scale\"\n|file = \"a\"\nunit = \"0\"\n";
    let mut all = vec![("pattern", patterns), ("trace", traces)];
    let files = [
        "camera-ms500",
        "bonnie",
        "iozone",
        "rollback-journal",
        "tiobench",
        "fs-mark",
        "bonnie++-files",
        "random-rewrites",
        "write-ahead-log",
        "app-install",
        "ageing",
        "mixed",
        "sequences",
    ];
    all.extend(files.map(|kind| (kind, "[fs]\ntype = \"ext3\"\n")));
    all
}

/// Takes a description with one override.
fn take(text: &str, change: &str) -> Result<Experiment, String> {
    let changes = if change.is_empty() {
        vec![]
    } else {
        vec![change.to_owned()]
    };
    let document = Document::parse("e.toml", Path::new(""), text, &changes)
        .map_err(|error| error.to_string())?;
    Experiment::take(document).map_err(|error| error.to_string())
}

/// The keys of a section that the error for an unknown key lists.
fn keys(text: &str, section: &str) -> BTreeSet<String> {
    let error = take(text, &format!("{section}.{UNKNOWN}=1")).expect_err("the key is unknown");
    let (_, list) = error
        .split_once("expected one of ")
        .unwrap_or_else(|| panic!("{section}: {error}"));
    list.split(", ").map(str::to_owned).collect()
}

/// What a key expects; none if it has no effect in this description.
fn expected(text: &str, key: &str) -> Option<String> {
    let wrong = |value: &str| {
        let error = take(text, &format!("{key}={value}")).err()?;
        let (place, expected) = error.split_once(", expected ")?;
        place
            .contains(&format!("{key}: found"))
            .then(|| expected.to_owned())
    };
    let by_type = wrong("{}")?;
    if by_type != "text in quotes" {
        return Some(by_type);
    }
    let by_value = wrong("\"?\"").filter(|expected| expected.starts_with("one of "));
    Some(by_value.unwrap_or(by_type))
}

/// The sentence for a key: one for this kind, or one for all kinds.
fn sentence<'a>(
    sentences: &BTreeMap<&str, &'a str>,
    used: &mut BTreeSet<String>,
    table: &Table,
    key: &str,
) -> &'a str {
    let Table { section, kind, .. } = table;
    let own = kind.map(|kind| format!("{section}.{kind}.{key}"));
    let all = format!("{section}.{key}");
    let found = own.into_iter().chain([all.clone()]);
    for name in found {
        if let Some(text) = sentences.get(&*name) {
            used.insert(name);
            return text;
        }
    }
    panic!("tests/all/reference/keys.txt has no sentence for {all}")
}

/// A cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn rows(
    table: &Table,
    shown: &BTreeSet<String>,
    sentences: &BTreeMap<&str, &str>,
    used: &mut BTreeSet<String>,
) -> String {
    let section = table.section;
    let mut rows = String::new();
    let mut seen = BTreeSet::new();
    for text in &table.descriptions {
        let experiment = take(text, "").unwrap_or_else(|error| panic!("{text}: {error}"));
        for key in keys(text, section) {
            let full = format!("{section}.{key}");
            let Some(expected) = expected(text, &full) else {
                continue;
            };
            if shown.contains(&key) || !seen.insert(key.clone()) {
                continue;
            }
            let setting = experiment.settings.iter().find(|one| one.key == full);
            let default = setting
                .filter(|one| one.origin != "given" && !NO_DEFAULT.contains(&&*full))
                .map_or(String::new(), |one| format!("`{}`", cell(&one.value)));
            let says = sentence(sentences, used, table, &key);
            let expected = cell(&expected);
            writeln!(rows, "| `{key}` | {says} | {expected} | {default} |").unwrap();
        }
    }
    rows
}

const HEAD: &str = "\
# Reference of all keys

<!-- Written by `cargo xtask reference`; change the program or crates/lab/tests/all/reference/keys.txt. -->

A description is a TOML file with the sections below. Every key has a default unless its row shows
none. Sizes take a unit (`\"128 MiB\"`), and so do times (`\"25 us\"`). `--set section.key=value`
overrides a key, and `--set section.key=` removes it. `--explain` prints every value in effect and
its origin.

nandlab refuses an unknown key, and a key that has no effect in the description.

The defaults of `[chip]` are those of the preset `slc-2k`, and those of `[host]` those of the
platform `omap2420`. Without a preset you must give every number of the chip. `[published]` takes
any key with a number: reports show it beside the measured value.
";

fn page() -> String {
    let sentences: BTreeMap<&str, &str> = SENTENCES
        .lines()
        .map(|line| line.split_once(" = ").expect("a key and a sentence"))
        .collect();
    let mut used = BTreeSet::new();
    let mut page = HEAD.to_owned();
    let mut shown: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for table in tables() {
        page.push_str(&table.heading());
        let head = "\n| key | meaning | value | default |\n|---|---|---|---|\n";
        if table.descriptions.is_empty() {
            page.push_str(head);
            let (text, first) = match table.section {
                "ftl" => (CHIP.to_owned(), &["scheme", "format"][..]),
                "fs" => (format!("{CHIP}{DISK}{FILES}"), &["type"][..]),
                _ => (CHIP.to_owned(), &["type"][..]),
            };
            let selector = Table {
                descriptions: vec![text],
                ..table
            };
            let all = keys(&selector.descriptions[0], selector.section);
            let others = all.into_iter().filter(|key| !first.contains(&&**key));
            page.push_str(&rows(&selector, &others.collect(), &sentences, &mut used));
            let first = first.iter().map(|key| (*key).to_owned()).collect();
            shown.insert(selector.section, first);
            continue;
        }
        page.push_str(head);
        let shown = shown.get(table.section).cloned().unwrap_or_default();
        page.push_str(&rows(&table, &shown, &sentences, &mut used));
    }
    page.push_str(&costs());
    let unused: Vec<_> = sentences
        .keys()
        .filter(|key| !used.contains(**key))
        .collect();
    assert!(
        unused.is_empty(),
        "keys.txt names keys that do not exist: {unused:?}"
    );
    page
}

/// The origin of each processor cost.
fn costs() -> String {
    let mut text = format!(
        "\n## Costs of the platform `{PLATFORM}`\n\n\
        Each cost has a basis: `measured` on the real kernel, `given` by a paper, or \
        `assumed`.\n\n| key | cost | basis |\n|---|---|---|\n"
    );
    for cost in built_in_costs(PLATFORM).unwrap() {
        let key = cost.key;
        let value = cost.value;
        let unit = cost.unit;
        writeln!(text, "| `{key}` | {value} {unit} | {} |", cost.label.name()).unwrap();
    }
    text
}

#[test]
fn the_reference_lists_every_key_as_the_program_has_it() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    if std::env::var_os("NANDLAB_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference.md is out of date; `cargo xtask reference` writes it"
    );
}

#[test]
fn no_key_of_the_program_is_left_out() {
    let page = page();
    for table in tables() {
        for text in &table.descriptions {
            for key in keys(text, table.section) {
                assert!(
                    page.contains(&format!("\n| `{key}` |")),
                    "{}.{key}",
                    table.section
                );
            }
        }
    }
}
