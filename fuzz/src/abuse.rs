//! The command line on damaged images: every verb of `nandlab image`, as a process of its own.
//!
//! *Promises.* A number and a seed give one image and one list of runs, on every machine. Three
//! things are findings: a run that panics, ends by a signal, or takes over [`SECONDS_MAX`] or
//! [`BYTES_MAX`] of memory; an edit that fails and leaves the image changed; an image that a check
//! calls sound, and damaged after an edit that succeeds. Each is kept with the words that show it
//! again.
//!
//! *Works on* the media of [`image`](crate::image): their edits repair checksums, or on purpose do
//! not. *Needs* `timeout` (coreutils) and `prlimit` (util-linux).

use crate::image::{Medium, medium};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_damage::edit::{Script, random};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seconds of a run at most.
pub const SECONDS_MAX: u32 = 20;
/// Bytes of a run's memory at most.
pub const BYTES_MAX: u64 = 1 << 30;
/// Edits of an image at most.
const EDITS_MAX: u64 = 12;
/// Bytes of an image are written in such steps.
const STEP: usize = 64 << 10;

/// Verbs that change nothing. IMAGE, GOOD and OUT are put in.
const LOOKS: &[&[&str]] = &[
    &["info", "IMAGE"],
    &["info", "--json", "IMAGE"],
    &["ls", "-R", "IMAGE"],
    &["ls", "--volumes", "IMAGE"],
    &["stat", "IMAGE", "/"],
    &["cat", "IMAGE", "/large"],
    &["dump", "IMAGE"],
    &["history", "IMAGE"],
    &["history", "--deleted", "OUT", "IMAGE"],
    &["extract", "IMAGE", "OUT"],
    &["extract", "--salvage", "IMAGE", "OUT"],
    &["extract", "--salvage", "IMAGE", "OUT.tar"],
    &["extract", "--raw", "IMAGE", "OUT.raw"],
    &["diff", "IMAGE", "GOOD"],
    &["convert", "--to-oob", "0", "IMAGE", "OUT.img"],
    &["convert", "--to-block", "128K", "IMAGE", "OUT.img"],
    &["create", "--lossy", "-f", "jffs2", "OUT.img", "IMAGE"],
    &["create", "--lossy", "-f", "ext3", "OUT.img", "IMAGE"],
    &["create", "--lossy", "-f", "f2fs", "OUT.img", "IMAGE"],
    &["create", "--lossy", "-f", "fat", "OUT.img", "IMAGE"],
];

/// Verbs that change the image.
const EDITS: &[&[&str]] = &[
    &["put", "IMAGE", "GOOD/one", "/new"],
    &["put", "IMAGE", "GOOD/one", "/large"],
    &[
        "put",
        "--grow",
        "IMAGE",
        "GOOD/long",
        "/directory with a long name/below/new",
    ],
    &["mkdir", "IMAGE", "/made"],
    &["rm", "IMAGE", "/large"],
    &["rm", "-r", "IMAGE", "/directory with a long name"],
    &["mv", "IMAGE", "/large", "/directory with a long name/moved"],
    &["mv", "IMAGE", "/directory with a long name", "/renamed"],
    &["check", "--repair", "IMAGE"],
];

/// Runs the verbs: PROGRAM RUNS SEED KEEP, where findings go to the directory KEEP.
pub fn main(words: &[String]) -> Result<(), String> {
    let [program, runs, seed, keep] = words else {
        return Err("expected PROGRAM RUNS SEED KEEP".into());
    };
    let number = |word: &String| {
        word.parse()
            .map_err(|_| format!("{word}: expected a number"))
    };
    let wanted = number(runs)?;
    let seed = number(seed)?;
    let campaign = Campaign {
        program: program.into(),
        keep: keep.into(),
        wanted,
        seed,
        runs: AtomicU64::new(0),
        images: AtomicU64::new(0),
        reported: Mutex::default(),
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| campaign.work()))
            .collect();
        let joined = all
            .into_iter()
            .map(|one| one.join().expect("no panic here"));
        joined.collect::<io::Result<Vec<()>>>()
    })
    .map_err(|error| format!("{keep}: {error}"))?;
    campaign.tell()
}

struct Campaign {
    program: PathBuf,
    keep: PathBuf,
    wanted: u64,
    seed: u64,
    runs: AtomicU64,
    images: AtomicU64,
    reported: Mutex<Reported>,
}

/// The output and exit status of a run.
#[derive(Default)]
struct Reported {
    /// Runs by verb and exit status.
    statuses: BTreeMap<(String, i32), u64>,
    slowest: Duration,
    slowest_words: String,
    findings: Vec<String>,
}

impl Campaign {
    fn work(&self) -> io::Result<()> {
        let scratch = tempfile::tempdir()?;
        let bench = Bench::new(self, scratch.path())?;
        while self.runs.load(Ordering::Relaxed) < self.wanted {
            let number = self.images.fetch_add(1, Ordering::Relaxed);
            bench.image(number)?;
        }
        Ok(())
    }

    fn tell(&self) -> Result<(), String> {
        let reported = self.reported.lock().map_err(|_| "a worker panicked")?;
        let runs = &self.runs;
        let images = &self.images;
        println!(
            "abuse: {} runs on {} damaged images, seed {}",
            runs.load(Ordering::Relaxed),
            images.load(Ordering::Relaxed),
            self.seed
        );
        let mut verbs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((verb, status), count) in &reported.statuses {
            verbs
                .entry(verb)
                .or_default()
                .push(format!("{count} x {status}"));
        }
        for (verb, statuses) in verbs {
            println!("  {verb}: status {}", statuses.join(", "));
        }
        println!(
            "abuse: slowest {:.2?}: {}",
            reported.slowest, reported.slowest_words
        );
        for finding in &reported.findings {
            println!("abuse: {finding}");
        }
        match reported.findings.len() {
            0 => {
                println!("abuse: findings none");
                Ok(())
            }
            count => Err(format!(
                "abuse: findings {count}, in {}",
                self.keep.display()
            )),
        }
    }
}

/// The files of one worker.
struct Bench<'a> {
    campaign: &'a Campaign,
    scratch: &'a Path,
    image: PathBuf,
    edited: PathBuf,
}

impl<'a> Bench<'a> {
    fn new(campaign: &'a Campaign, scratch: &'a Path) -> io::Result<Self> {
        let good = scratch.join("good");
        fs::create_dir(&good)?;
        fs::write(good.join("one"), "one file\n")?;
        fs::write(good.join("long"), vec![0xA7; 20_000])?;
        fs::create_dir_all(&campaign.keep)?;
        Ok(Self {
            campaign,
            scratch,
            image: scratch.join("image"),
            edited: scratch.join("edited"),
        })
    }

    /// All verbs on one image.
    fn image(&self, number: u64) -> io::Result<()> {
        let input = input(self.campaign.seed, number);
        let script = Script::new(&input);
        write(&self.image, &medium(script).0, script.part)?;
        for words in LOOKS {
            self.run(words, &self.image, number)?;
            self.clear()?;
        }
        let before = self.run(&["check", "IMAGE"], &self.image, number)?;
        for words in EDITS {
            fs::copy(&self.image, &self.edited)?;
            let status = self.run(words, &self.edited, number)?;
            self.judge(words, before, status, number)?;
        }
        Ok(())
    }

    /// Compares an image with what an edit made of it.
    fn judge(&self, words: &[&str], before: i32, status: i32, number: u64) -> io::Result<()> {
        let is_repair = words[0] == "check";
        if status != 0 && !is_repair {
            if !same(&self.image, &self.edited)? {
                let what = format!("status {status}, and the image is changed");
                self.finding(words, number, &what)?;
            }
            return Ok(());
        }
        if before == 0 {
            let after = self.run(&["check", "IMAGE"], &self.edited, number)?;
            if after != 0 {
                let what = format!("the image was sound, then a check ended with {after}");
                self.finding(words, number, &what)?;
            }
        }
        Ok(())
    }

    fn run(&self, words: &[&str], image: &Path, number: u64) -> io::Result<i32> {
        let words_in = |word: &&str| match *word {
            "IMAGE" => image.into(),
            word if word.starts_with("GOOD") => self.scratch.join(word.replace("GOOD", "good")),
            word if word.starts_with("OUT") => self.scratch.join(word),
            word => PathBuf::from(word),
        };
        let begun = Instant::now();
        let output = Command::new("timeout")
            .args(["-s", "KILL", &SECONDS_MAX.to_string()])
            .args(["prlimit", &format!("--data={BYTES_MAX}")])
            .arg(&self.campaign.program)
            .arg("image")
            .args(words.iter().map(words_in))
            .stdin(Stdio::null())
            .output()?;
        let took = begun.elapsed();
        self.campaign.runs.fetch_add(1, Ordering::Relaxed);
        let status = output.status.code().unwrap_or(-1);
        let said = String::from_utf8_lossy(&output.stderr);
        let wrong = if said.contains("panicked at") || !(0..=3).contains(&status) {
            let last: Vec<&str> = said.lines().take(4).collect();
            Some(format!(
                "status {status} after {took:.1?}: {}",
                last.join("; ")
            ))
        } else {
            None
        };
        if let Some(what) = &wrong {
            self.finding(words, number, what)?;
        }
        let mut reported = self.campaign.reported.lock().expect("no panic here");
        let verb: Vec<&str> = words
            .iter()
            .enumerate()
            .filter(|(at, word)| *at == 0 || word.starts_with('-'))
            .map(|(_, word)| *word)
            .collect();
        let verb = verb.join(" ");
        *reported.statuses.entry((verb, status)).or_default() += 1;
        if took > reported.slowest {
            reported.slowest = took;
            reported.slowest_words = format!("image {number}: {}", words.join(" "));
        }
        Ok(status)
    }

    /// Keeps an image with what was done to it.
    fn finding(&self, words: &[&str], number: u64, what: &str) -> io::Result<()> {
        let name = format!("{}-{number}.img", self.campaign.seed);
        let kept = self.campaign.keep.join(&name);
        fs::copy(&self.image, &kept)?;
        let text = format!("{name}: nandlab image {}: {what}", words.join(" "));
        eprintln!("{text}");
        let mut reported = self.campaign.reported.lock().expect("no panic here");
        reported.findings.push(text);
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.scratch)? {
            let path = entry?.path();
            let is_out = path.file_name().is_some_and(|name| {
                name.to_string_lossy().starts_with("OUT") || name.to_string_lossy().starts_with('.')
            });
            match path.is_dir() {
                true if is_out => fs::remove_dir_all(path)?,
                false if is_out => fs::remove_file(path)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// The bytes that say what image number `number` is.
fn input(seed: u64, number: u64) -> Vec<u8> {
    let mut bytes = random(nandlab_sim::mix(seed, number), EDITS_MAX);
    // F2FS is large: it gets one of so many.
    if matches!(bytes[0] % 13, 5 | 11) && !number.is_multiple_of(4) {
        bytes[0] -= 1;
    }
    bytes
}

fn write(to: &Path, medium: &Medium, part: Option<u8>) -> io::Result<()> {
    let mut file = File::create(to)?;
    match medium {
        Medium::Flash(bytes) => file.write_all(bytes)?,
        Medium::Disk(ram) => write_disk(&file, ram)?,
    }
    // The beginning of an image, which may end within a sector or page.
    let len = file.metadata()?.len();
    match part {
        Some(part) => file.set_len(len * u64::from(part) / 256 + u64::from(part % 5)),
        None => Ok(()),
    }
}

fn write_disk(file: &File, ram: &Ram) -> io::Result<()> {
    let mut ram = ram.clone();
    let geometry = ram.geometry().clone();
    file.set_len(geometry.bytes())?;
    let mut bytes = vec![0; STEP];
    for at in (0..geometry.bytes()).step_by(STEP) {
        let len = (geometry.bytes() - at).min(STEP as u64) as usize;
        let read = ram.read(Lba(at / u64::from(geometry.sector)), &mut bytes[..len]);
        read.map_err(io::Error::other)?;
        if bytes[..len].iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes[..len], at)?;
        }
    }
    Ok(())
}

fn same(first: &Path, second: &Path) -> io::Result<bool> {
    Ok(fs::read(first)? == fs::read(second)?)
}
