//! The tree that all tools get: some 17,000 entries and 215 MB of what the root file system of a
//! small device holds, from a seed.
//!
//! *Promises.* The same tree every time, attributes and times included, but for the user: only root
//! makes devices and gives owners.

use nandlab_sim::mix;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const DIRECTORIES: u64 = 1000;
const FILES: u64 = 15_300;
const LINKS: u64 = 600;
const SECOND_NAMES: u64 = 60;
const BYTES: u64 = 215_000_000;
/// Files that are mostly holes, and their length.
const SPARSE: u64 = 20;
const SPARSE_BYTES: u64 = 300_000;
const LARGEST: u64 = 6_000_000;
const SEED: u64 = 20_260_117;

/// Numbers from a seed.
struct Dice(u64, u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.1 += 1;
        mix(self.0, self.1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Small numbers much more often than large ones.
    fn skewed(&mut self, most: u64) -> u64 {
        let one = self.below(most);
        self.below(one + 1)
    }
}

/// Makes the tree in an empty directory.
pub fn make(root: &Path) -> std::io::Result<()> {
    let words = vocabulary();
    let templates = templates();
    let mut dirs = vec![root.to_path_buf()];
    let mut dice = Dice(SEED, 0);
    for number in 1..DIRECTORIES {
        let parent = dirs[dice.skewed(dirs.len() as u64) as usize].clone();
        dirs.push(parent.join(format!(
            "{}-{number}",
            words[dice.below(900) as usize].escape_ascii()
        )));
        fs::create_dir(&dirs[number as usize])?;
    }
    let weights: Vec<f64> = (0..FILES).map(|_| weight(&mut dice)).collect();
    let scale = (BYTES - SPARSE * 9000) as f64 / weights.iter().sum::<f64>();
    let mut files = Vec::new();
    for (number, weight) in (0..FILES).zip(weights) {
        let len = ((weight * scale) as u64).min(LARGEST);
        let dir = &dirs[dice.below(DIRECTORIES) as usize];
        let (suffix, data) = match dice.below(20) {
            0..=7 => ("txt", text(&mut dice, &words, len)),
            8..=15 => ("so", code(&mut dice, &templates, &words, len)),
            16..=17 => ("dat", table(&mut dice, len)),
            18 => (
                "mix",
                [text(&mut dice, &words, len / 2), noise(&mut dice, len / 2)].concat(),
            ),
            _ => ("jpg", noise(&mut dice, len)),
        };
        let path = dir.join(format!(
            "{}{number}.{suffix}",
            words[dice.below(3000) as usize].escape_ascii()
        ));
        fs::write(&path, data)?;
        files.push(path);
    }
    for number in 0..SPARSE {
        let path = dirs[dice.below(DIRECTORIES) as usize].join(format!("sparse{number}"));
        let file = File::create(&path)?;
        file.set_len(SPARSE_BYTES + number * 777)?;
        file.write_all_at(&noise(&mut dice, 9000), number * 10_000)?;
        files.push(path);
    }
    for number in 0..SECOND_NAMES {
        let of = &files[dice.below(FILES) as usize];
        fs::hard_link(
            of,
            dirs[dice.below(DIRECTORIES) as usize].join(format!("again{number}")),
        )?;
    }
    for number in 0..LINKS {
        let of = &files[dice.below(FILES) as usize];
        symlink(
            Path::new("..").join(of.file_name().unwrap_or_default()),
            dirs[dice.below(DIRECTORIES) as usize].join(format!("link{number}")),
        )?;
    }
    for (number, file) in files.iter().enumerate() {
        let mode = [0o644, 0o755, 0o600, 0o4755][(mix(SEED, number as u64) % 40 / 13) as usize];
        fs::set_permissions(file, Permissions::from_mode(mode))?;
        date(file, number as u64)?;
    }
    // Children first: whatever is made in a directory changes its time.
    dirs.iter()
        .enumerate()
        .rev()
        .try_for_each(|(number, dir)| date(dir, number as u64))
}

fn date(path: &Path, number: u64) -> std::io::Result<()> {
    let time =
        UNIX_EPOCH + Duration::from_secs(1_000_000_000 + mix(SEED + 1, number) % 500_000_000);
    File::open(path)?.set_times(FileTimes::new().set_modified(time).set_accessed(time))
}

/// A length as of files: many small ones, most bytes in a few large ones.
fn weight(dice: &mut Dice) -> f64 {
    let sum: f64 = (0..6)
        .map(|_| dice.below(1 << 20) as f64 / f64::from(1 << 20))
        .sum();
    ((sum - 3.0) * 2.4).exp()
}

fn vocabulary() -> Vec<Vec<u8>> {
    let mut dice = Dice(SEED + 2, 0);
    let syllables = [
        "con", "fig", "er", "dev", "sys", "lo", "ad", "in", "it", "re", "set", "ta", "ble", "mo",
        "de", "po", "rt", "net", "a", "s",
    ];
    let word = |dice: &mut Dice| {
        (0..1 + dice.below(4))
            .flat_map(|_| syllables[dice.below(20) as usize].bytes())
            .collect()
    };
    (0..4000).map(|_| word(&mut dice)).collect()
}

fn text(dice: &mut Dice, words: &[Vec<u8>], len: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(len as usize + 40);
    while (out.len() as u64) < len {
        match dice.below(24) {
            0..=15 => out.extend(&words[dice.skewed(4000) as usize]),
            16..=17 => out.extend(b"\n    "),
            18 => out.extend(b" = "),
            19 => out.extend(format!("{}", dice.skewed(70_000)).bytes()),
            20 => out.extend(b"\n# "),
            21 => out.extend(b"(\""),
            _ => out.extend(b", "),
        }
        out.push(b' ');
    }
    out.truncate(len as usize);
    out
}

/// Instructions by their bytes: which are fixed, which are drawn anew.
fn templates() -> Vec<Vec<Option<u8>>> {
    let mut dice = Dice(SEED + 3, 0);
    let byte = |dice: &mut Dice| {
        (dice.below(3) > 0).then(|| {
            [0x48, 0x89, 0x8b, 0xe8, 0x0f, 0x00, 0xff, 0x45][dice.below(8) as usize]
                ^ dice.skewed(64) as u8
        })
    };
    (0..400)
        .map(|_| (0..2 + dice.below(6)).map(|_| byte(&mut dice)).collect())
        .collect()
}

/// Like a program: instructions, tables of addresses, names, zeros between the parts.
fn code(dice: &mut Dice, templates: &[Vec<Option<u8>>], words: &[Vec<u8>], len: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(len as usize + 3000);
    let mut address = 0x40_1000u32;
    while (out.len() as u64) < len {
        match dice.below(300) {
            0 => (0..dice.below(200)).for_each(|_| {
                address += 4 * (1 + dice.below(30) as u32);
                out.extend(address.to_le_bytes());
            }),
            1 => (0..dice.below(100)).for_each(|_| {
                out.extend(&words[dice.skewed(4000) as usize]);
                out.push(0);
            }),
            2 => out.extend(vec![0; dice.below(700) as usize]),
            // What compilers write again and again.
            3..=40 if out.len() > 600 => {
                let from = out.len() - 20 - dice.below(500) as usize;
                out.extend_from_within(from..from + 8 + dice.below(12) as usize);
            }
            _ => {
                let template = &templates[dice.skewed(400) as usize];
                out.extend(
                    template
                        .iter()
                        .map(|byte| byte.unwrap_or_else(|| dice.skewed(256) as u8)),
                );
            }
        }
    }
    out.truncate(len as usize);
    out
}

/// A table of records of numbers.
fn table(dice: &mut Dice, len: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(len as usize + 16);
    let mut key = 0u32;
    while (out.len() as u64) < len {
        key += dice.skewed(50) as u32;
        out.extend(key.to_le_bytes());
        out.extend((dice.skewed(100_000) as u32).to_le_bytes());
        out.extend([dice.below(3) as u8, 0, 0, 0]);
    }
    out.truncate(len as usize);
    out
}

fn noise(dice: &mut Dice, len: u64) -> Vec<u8> {
    let mut out: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| dice.next().to_le_bytes())
        .collect();
    out.truncate(len as usize);
    out
}
