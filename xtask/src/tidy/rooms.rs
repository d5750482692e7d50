//! The table of rooms in ARCHITECTURE.md, and the manifests held against it.

use super::Findings;
use crate::metadata::Package;
use std::path::Path;

const PAGE: &str = "ARCHITECTURE.md";
const HEAD: &str = "| crate | what it is | stands on |";
/// The first row whose crate may use an operating system.
const FIRST_HOSTED: &str = "stack";

/// A row of the table.
pub struct Room {
    /// The folder below `crates`.
    pub name: String,
    /// The crates that its manifest names under `[dependencies]`.
    stands_on: Vec<String>,
    /// Other crates use it in tests only.
    dev_only: bool,
    /// It compiles without an operating system.
    pub no_std: bool,
}

/// The dependencies of a crate of ours on others of ours.
struct Manifest {
    name: String,
    dependencies: Vec<String>,
}

/// Reads the table out of the text of ARCHITECTURE.md.
pub fn parse(page: &str) -> Result<Vec<Room>, String> {
    let mut rows = page
        .lines()
        .skip_while(|line| line.trim() != HEAD)
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut rooms: Vec<Room> = Vec::new();
    let mut hosted = false;
    for row in rows.by_ref() {
        let mut room = parse_row(row).ok_or_else(|| {
            format!("{PAGE}: expected \"| `crate` | what it is | its crates |\", found {row}")
        })?;
        hosted |= room.name == FIRST_HOSTED;
        room.no_std &= !hosted;
        rooms.push(room);
    }
    if !hosted {
        return Err(format!(
            "{PAGE}: no table \"{HEAD}\" with a row for `{FIRST_HOSTED}`"
        ));
    }
    Ok(rooms)
}

fn parse_row(row: &str) -> Option<Room> {
    let cells: Vec<&str> = row
        .trim()
        .trim_matches('|')
        .split('|')
        .map(str::trim)
        .collect();
    let [name, what, stands_on] = cells[..] else {
        return None;
    };
    let stands_on = match stands_on {
        "nothing" => Vec::new(),
        words => words.split_whitespace().map(str::to_owned).collect(),
    };
    Some(Room {
        name: name.strip_prefix('`')?.strip_suffix('`')?.to_owned(),
        stands_on,
        dev_only: what.contains("dev only"),
        no_std: !what.contains("needs std"),
    })
}

/// Reports every difference between the table and the manifests below `crates`.
pub fn check(rooms: &[Room], packages: &[Package], crates: &Path, findings: &mut Findings) {
    let manifests: Vec<Manifest> = packages
        .iter()
        .filter_map(|package| manifest(package, crates))
        .collect();
    compare(rooms, &manifests, findings);
}

fn manifest(package: &Package, crates: &Path) -> Option<Manifest> {
    let dependencies = package.paths.iter().filter(|path| !path.dev);
    Some(Manifest {
        name: room_name(&package.folder, crates)?,
        dependencies: dependencies
            .map(|path| {
                room_name(&path.folder, crates).unwrap_or_else(|| path.folder.display().to_string())
            })
            .collect(),
    })
}

fn room_name(folder: &Path, crates: &Path) -> Option<String> {
    Some(folder.strip_prefix(crates).ok()?.display().to_string())
}

fn compare(rooms: &[Room], manifests: &[Manifest], findings: &mut Findings) {
    for manifest in manifests {
        match rooms.iter().find(|room| room.name == manifest.name) {
            Some(room) => compare_arrows(room, manifest, rooms, findings),
            None => findings.push(format!(
                "crates/{}: no row in {PAGE}; say there what it is and stands on",
                manifest.name
            )),
        }
    }
    for room in rooms {
        if !manifests.iter().any(|manifest| manifest.name == room.name) {
            findings.push(format!("{PAGE}: no crate at crates/{}", room.name));
        }
    }
}

fn compare_arrows(room: &Room, manifest: &Manifest, rooms: &[Room], findings: &mut Findings) {
    let name = &room.name;
    for on in &manifest.dependencies {
        if !room.stands_on.contains(on) {
            findings.push(format!(
                "crates/{name}/Cargo.toml: {name} depends on {on}, an arrow that is missing in \
                 {PAGE}"
            ));
        }
        let is_dev_only = |other: &Room| other.name == *on && other.dev_only;
        if !room.dev_only && rooms.iter().any(is_dev_only) {
            findings.push(format!(
                "crates/{name}/Cargo.toml: {on} is dev only; move it to [dev-dependencies]"
            ));
        }
    }
    for on in &room.stands_on {
        if !manifest.dependencies.contains(on) {
            findings.push(format!(
                "{PAGE}: {name} stands on {on}, which crates/{name}/Cargo.toml does not name"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Text.

| crate | what it is | stands on |
|---|---|---|
| `sim` | time | nothing |
| `crash` | power cuts; needs std | sim |
| `stack` | stacks | sim |
| `testkit` | dev only: models | sim |

More | text.
";

    fn findings(manifests: &[(&str, &[&str])]) -> Findings {
        let manifests: Vec<Manifest> = manifests
            .iter()
            .map(|(name, on)| Manifest {
                name: (*name).into(),
                dependencies: on.iter().map(|on| (*on).into()).collect(),
            })
            .collect();
        let mut findings = Findings::new();
        compare(&parse(TABLE).unwrap(), &manifests, &mut findings);
        findings
    }

    #[test]
    fn rows_above_the_stack_are_no_std_unless_marked() {
        let rooms = parse(TABLE).unwrap();
        let no_std: Vec<&str> = rooms
            .iter()
            .filter(|room| room.no_std)
            .map(|room| room.name.as_str())
            .collect();
        assert_eq!(no_std, ["sim"]);
    }

    #[test]
    fn a_page_without_the_table_is_refused() {
        assert!(parse("# Architecture\n").is_err());
        assert!(parse(&TABLE.replace("| time |", "|")).is_err());
    }

    #[test]
    fn manifests_as_in_the_table_pass() {
        let manifests: &[(&str, &[&str])] = &[
            ("sim", &[]),
            ("crash", &["sim"]),
            ("stack", &["sim"]),
            ("testkit", &["sim"]),
        ];
        assert_eq!(findings(manifests), Findings::new());
    }

    #[test]
    fn each_difference_is_one_finding() {
        let manifests: &[(&str, &[&str])] = &[
            ("sim", &["testkit"]),
            ("crash", &["sim"]),
            ("stack", &[]),
            ("extra", &[]),
        ];
        let expected = [
            "crates/sim/Cargo.toml: sim depends on testkit, an arrow that is missing in \
             ARCHITECTURE.md",
            "crates/sim/Cargo.toml: testkit is dev only; move it to [dev-dependencies]",
            "ARCHITECTURE.md: stack stands on sim, which crates/stack/Cargo.toml does not name",
            "crates/extra: no row in ARCHITECTURE.md; say there what it is and stands on",
            "ARCHITECTURE.md: no crate at crates/testkit",
        ];
        assert_eq!(findings(manifests), expected);
    }
}
