//! The table of `docs/tools.md`: the losses of each tool when a tree goes into an image or comes
//! out of one, judged by the real kernel; and its behaviour on an image that was used or harmed.
//!
//! The test makes our part of the table, demands that nothing is lost that a format can hold, and
//! that the document says the same. With `$NANDLAB_TOOLS` it makes the whole table, into the file
//! that is named so: `cargo xtask tools`. Needs root (the tree has devices and owners), the tools
//! of `nandlab-oracle`, gcc with libc6-dev; the whole also mtd-utils, f2fs-tools, e2fsprogs,
//! dosfstools, mtools, and python3 with venv and pip for jefferson and ubi_reader. `$DUMP_F2FS`
//! names a dump.f2fs that takes trees out, as its source does since the release of 1.16.0: an older
//! one takes single files only, and is left out.

mod damage;
mod guest;
mod seen;
mod tools;
mod tree;
mod volumes;

use guest::Image;
use seen::{ASPECTS, Tree, differences, lost, of_dir};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::{FORMATS, Format, run};

/// What of a tool is lost, or what became of it.
struct Row {
    format: &'static str,
    tool: String,
    cells: Vec<String>,
}

struct Table {
    scratch: tempfile::TempDir,
    /// Ours only, unless the whole is wanted.
    whole: bool,
    jefferson: PathBuf,
    ubi_reader: Option<PathBuf>,
    dump: String,
    create: Vec<Row>,
    extract: Vec<Row>,
    harmed: Vec<Row>,
    volumes: Vec<Row>,
}

#[test]
#[ignore = "runs the tools of others for most of a minute: `cargo xtask test whole` runs it"]
fn our_tools_lose_nothing_that_a_format_can_hold_and_the_document_says_what_others_lose() {
    let target = std::env::var_os("NANDLAB_TOOLS").map(PathBuf::from);
    let mut table = Table::new(target.is_some());
    let kernel = table.make();
    let text = table.text(&kernel);
    if let Some(target) = target {
        std::fs::write(&target, &text).unwrap();
    }
    for row in table
        .create
        .iter()
        .chain(&table.extract)
        .filter(|row| row.tool.starts_with("nandlab"))
    {
        let lost: Vec<_> = ASPECTS
            .iter()
            .zip(&row.cells)
            .filter(|(_, cell)| *cell != "kept" && *cell != "-")
            .collect();
        assert!(lost.is_empty(), "{} {}: {lost:?}", row.format, row.tool);
    }
    let written =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md"))
            .unwrap();
    for row in table.rows().filter(|row| row.tool.starts_with("nandlab")) {
        assert!(
            written.contains(&line(row)),
            "docs/tools.md has no row\n{}cargo xtask tools makes it anew",
            line(row)
        );
    }
    for row in table
        .harmed
        .iter()
        .filter(|row| row.tool.starts_with("nandlab"))
    {
        assert_eq!(
            row.cells[0], "right",
            "{} {}: a used image",
            row.format, row.tool
        );
        assert!(
            row.format != "JFFS2" || row.cells.iter().all(|cell| !cell.contains("status 0")),
            "checksums are reported: {:?}",
            row.cells
        );
    }
}

fn line(row: &Row) -> String {
    format!(
        "| {} | {} | {} |\n",
        row.format,
        row.tool,
        row.cells.join(" | ")
    )
}

impl Table {
    fn new(whole: bool) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for (name, plain) in [("tree", false), ("plain", true)] {
            tree::make(&scratch.path().join(name), plain)
                .unwrap_or_else(|error| panic!("the tree: {error}: devices and owners need root"));
        }
        let dump = std::env::var("DUMP_F2FS").unwrap_or_else(|_| "dump.f2fs".into());
        let jefferson = if whole {
            installed(JEFFERSON, "jefferson")
        } else {
            PathBuf::new()
        };
        let ubi_reader = whole.then(|| installed(UBI_READER, "ubireader_extract_images"));
        let create = Vec::new();
        let extract = Vec::new();
        let harmed = Vec::new();
        let volumes = Vec::new();
        Self {
            scratch,
            whole,
            jefferson,
            ubi_reader,
            dump,
            create,
            extract,
            harmed,
            volumes,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn source(&self, format: &Format) -> PathBuf {
        self.at(if format.name == "FAT" {
            "plain"
        } else {
            "tree"
        })
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.create
            .iter()
            .chain(&self.extract)
            .chain(&self.harmed)
            .chain(&self.volumes)
    }

    fn chosen(&self, tools: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        tools
            .iter()
            .copied()
            .filter(|(name, _)| self.whole || name.starts_with("nandlab"))
            .collect()
    }

    fn run(&self, script: &str, format: &Format, image: &Path, out: &Path) -> tools::End {
        let tree = self.source(format);
        let dump = PathBuf::from(&self.dump);
        run(
            script,
            &[
                ("TREE", &tree),
                ("IMAGE", image),
                ("OUT", out),
                ("JEFFERSON", &self.jefferson),
                ("DUMP_F2FS", &dump),
            ],
        )
    }

    fn make(&mut self) -> String {
        let mut images = Vec::new();
        for format in &FORMATS {
            for (number, (tool, script)) in self.chosen(format.makers).into_iter().enumerate() {
                let name = format!("{}-{number}", format.name);
                let path = self.at(&name);
                let end = self.run(script, format, &path, Path::new("/"));
                assert!(
                    end.is_success(),
                    "{tool}: {}: is it installed?",
                    end.reported()
                );
                if number == 0 {
                    std::fs::copy(&path, self.at(&format!("{}-whole", format.name))).unwrap();
                    let used = self.at(&format!("{}-used", format.name));
                    std::fs::copy(&path, &used).unwrap();
                    images.push(Image {
                        format: format.name,
                        name: format!("{}-used", format.name),
                        path: used,
                        used: true,
                    });
                }
                images.push(Image {
                    format: format.name,
                    name,
                    path,
                    used: false,
                });
            }
        }
        let judged = guest::judge(&images);
        for format in &FORMATS {
            let source = of_dir(&self.source(format));
            for (number, (tool, _)) in self.chosen(format.makers).into_iter().enumerate() {
                let name = format!("{}-{number}", format.name);
                let image = images
                    .iter()
                    .find(|image| image.name == name)
                    .expect("it was made");
                let mut cells = cells(format, &source, &judged.tree(image));
                if format.name == "JFFS2" {
                    cells[HOLES] = "-".into();
                }
                self.create.push(Row {
                    format: format.name,
                    tool: tool.into(),
                    cells,
                });
            }
            let used = images
                .iter()
                .find(|image| image.used && image.format == format.name)
                .expect("it was made");
            self.take(format, &source, (&used.path, &judged.tree(used)));
        }
        let volumes = volumes::rows(
            self.scratch.path(),
            &self.at("JFFS2-whole"),
            self.ubi_reader.as_deref(),
        );
        self.volumes
            .extend(volumes.into_iter().map(|(tool, cells)| Row {
                format: "UBI",
                tool: tool.into(),
                cells,
            }));
        judged.kernel
    }

    /// Takes the tree out of our image, of what the kernel made of it, and of what is left of it.
    fn take(&mut self, format: &Format, source: &Tree, (used, lives): (&Path, &Tree)) {
        let whole = self.at(&format!("{}-whole", format.name));
        for (tool, script) in self.chosen(format.takers) {
            if script.contains("$DUMP_F2FS") && !takes_trees(&self.dump) {
                continue;
            }
            let (found, _) = self.taken(script, format, &whole);
            if tool != "nandlab --salvage" {
                self.extract.push(Row {
                    format: format.name,
                    tool: tool.into(),
                    cells: cells(format, source, &found),
                });
            }
            let mut harmed = vec![self.verdict(script, format, used, lives)];
            for (damage, _) in damage::ALL {
                let image = self.at("harmed");
                damage.make(&whole, &image);
                harmed.push(self.verdict(script, format, &image, source));
            }
            self.harmed.push(Row {
                format: format.name,
                tool: tool.into(),
                cells: harmed,
            });
        }
    }

    fn taken(&self, script: &str, format: &Format, image: &Path) -> (Tree, tools::End) {
        let out = self.at("out");
        let end = self.run(script, format, image, &out);
        let mut found = of_dir(&out);
        found.remove(Path::new("lost+found"));
        if out.exists() {
            std::fs::remove_dir_all(&out).unwrap();
        }
        (found, end)
    }

    fn verdict(&self, script: &str, format: &Format, image: &Path, expected: &Tree) -> String {
        let (found, end) = self.taken(script, format, image);
        let [missing, wrong, more] = differences(expected, &found);
        if missing + wrong + more == 0 {
            return if end.is_success() {
                "right".into()
            } else {
                format!("right, {}", end.reported())
            };
        }
        let counts = [(missing, "missing"), (wrong, "wrong"), (more, "too many")];
        let shown: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let status = if end.is_success() {
            "**status 0**".into()
        } else {
            end.reported()
        };
        format!("{}; {status}", shown.join(", "))
    }

    fn text(&self, kernel: &str) -> String {
        let mut text = String::from(HEAD);
        let mut versions = vec![format!("Linux {kernel}")];
        if self.whole {
            let query = Command::new("dpkg-query")
                .args([
                    "-W",
                    "-f",
                    "${Package} ${Version}\\n",
                    "mtd-utils",
                    "f2fs-tools",
                    "e2fsprogs",
                    "mtools",
                ])
                .output();
            versions.extend(
                String::from_utf8_lossy(&query.expect("dpkg").stdout)
                    .lines()
                    .map(String::from),
            );
            versions.extend([JEFFERSON, UBI_READER].map(|one| one.replace("==", " ")));
            if takes_trees(&self.dump) {
                let shown = Command::new(&self.dump)
                    .arg("-V")
                    .output()
                    .expect("it ran before");
                let shown = [shown.stdout, shown.stderr].concat();
                versions.push(format!(
                    "{} from its source",
                    String::from_utf8_lossy(&shown).trim()
                ));
            }
        }
        let _ = writeln!(text, "{}.\n", versions.join(", "));
        let tables = [
            ("Made, and seen by the kernel", &self.create),
            ("Taken out of an image that holds everything", &self.extract),
        ];
        for (title, rows) in tables {
            let _ = writeln!(
                text,
                "## {title}\n\n| format | tool | {} |\n|---|---|{}",
                ASPECTS.join(" | "),
                "---|".repeat(ASPECTS.len())
            );
            rows.iter().for_each(|row| text += &line(row));
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{HARMED}\n| format | tool | used by the kernel | {} |\n|---|---|---|{}",
            damage::ALL.map(|(_, name)| name).join(" | "),
            "---|".repeat(damage::ALL.len())
        );
        self.harmed.iter().for_each(|row| text += &line(row));
        let _ = writeln!(
            text,
            "{CHECKSUMS}\n{VOLUMES}\n| format | tool | {} |\n|---|---|{}",
            volumes::STATES.join(" | "),
            "---|".repeat(volumes::STATES.len())
        );
        self.volumes.iter().for_each(|row| text += &line(row));
        text
    }
}

/// The kernel's JFFS2 shows none, whatever the image holds: it counts a file's blocks by its
/// length.
const HOLES: usize = 9;

const HEAD: &str = "# Losses of today's tools

A tree of 140 entries with a bit of everything goes into an image, the real kernel says what is in it; and comes out of an image of which the kernel has said that all is there. Made by `cargo xtask tools`; a
test makes our rows anew and holds them against these. `-`: the format has none (of JFFS2's holes the
kernel shows none). Counts are of the entries that have such a thing; an entry that is missing has lost what it is, and nothing else is counted of it.

";
const HARMED: &str = "## Used and harmed

*Used*: the kernel has overwritten, cut, appended to, renamed, replaced and removed files; what counts is what it showed before it unmounted. *Truncated*: the image ends in the middle of the contents. Bits are
flipped in the contents of five files and in five names. Counted are entries that are missing, that hold something else, and that should not be there, beside the status with which the tool ended: a
tool that never brings devices lacks these four here, too.
";
const CHECKSUMS: &str = "
Contents have no checksum in F2FS, ext3 and FAT, names in none of these three: no reader can tell, not even the kernel. JFFS2 has both.
";
const VOLUMES: &str = "## Volumes of UBI

ubi_reader takes files out of UBIFS; of other volumes it makes files of bytes, as `extract --raw` does. So here are three volumes as bytes: JFFS2 and noise in dynamic ones, noise in a static one. *Used*:
our UBI, whose media the kernel attaches, has changed blocks 120 times, updated the static volume, and was cut off, so that former versions of blocks are still there. *Truncated*: the image ends in its middle. Counted are
volumes that are missing and that hold something else than was put there; erased bytes behind that are none of it. Blocks that are missing in a dynamic volume look as if they had never been written; only a static one tells.
";
const JEFFERSON: &str = "jefferson==0.4.8";
const UBI_READER: &str = "ubi_reader==0.8.10";

fn cells(format: &Format, all: &Tree, found: &Tree) -> Vec<String> {
    let cell = |(aspect, (of, lost)): (&str, (usize, usize))| match lost {
        _ if format.lacks.contains(&aspect) => "-".into(),
        0 => "kept".into(),
        lost => format!("**{lost} of {of} lost**"),
    };
    ASPECTS
        .into_iter()
        .zip(lost(all, found))
        .map(cell)
        .collect()
}

/// Whether the tool reads trees, as it does since 1.16.
fn takes_trees(dump: &str) -> bool {
    let help = Command::new(dump).arg("-h").output();
    help.is_ok_and(|help| {
        [help.stdout, help.stderr]
            .iter()
            .any(|text| String::from_utf8_lossy(text).contains("-r dump"))
    })
}

/// Installs a package of Python once, in a directory of its own; gives a program of it.
fn installed(package: &str, program: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    let program = place.join("bin").join(program);
    if !program.exists() {
        let succeed = |command: &mut Command| {
            let status = command
                .status()
                .unwrap_or_else(|error| panic!("{error}: apt-get install python3-venv"));
            assert!(status.success(), "{status}");
        };
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&place));
        succeed(Command::new(place.join("bin/pip")).args(["install", "--quiet", package]));
    }
    program
}
