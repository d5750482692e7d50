//! Volumes of UBI as bytes, whatever lies in them: what ubi_reader takes out, and what we do.

use super::tools::run;
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_sim::mix;
use nandlab_ubi::{Options, Ubi};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PAGE: u32 = 2048;
const BLOCK: usize = 128 << 10;
const VOLUMES: [&str; 3] = ["root", "data", "fixed"];
const STATIC: &str = "fixed";
/// Bytes of the static volume.
const FIXED: usize = 600_000;
/// Blocks that the flash of the used image has more.
const SPARE: usize = 100;
pub const STATES: [&str; 5] = [
    "as ubinize makes it",
    "used",
    "truncated",
    "5 bits in the static volume",
    "5 bits in volume headers",
];
pub const TOOLS: [(&str, &str); 3] = [
    (
        "nandlab",
        "mkdir $OUT; s=0; for v in root data fixed; do $NANDLAB image extract --raw --volume $v $IMAGE $OUT/$v || s=$?; done; exit $s",
    ),
    (
        "nandlab --salvage",
        "mkdir $OUT; s=0; for v in root data fixed; do $NANDLAB image extract --raw --salvage --volume $v $IMAGE $OUT/$v || s=$?; done; exit $s",
    ),
    ("ubi_reader", "$UBIREADER $IMAGE -o $OUT"),
];

/// What each volume holds.
type Contents = BTreeMap<&'static str, Vec<u8>>;

/// A row for each tool; `program` is ubi_reader's, if there is one.
pub fn rows(
    scratch: &Path,
    jffs2: &Path,
    program: Option<&Path>,
) -> Vec<(&'static str, Vec<String>)> {
    let states = states(scratch, jffs2);
    let image = scratch.join("ubi");
    let out = scratch.join("volumes");
    let chosen = TOOLS
        .iter()
        .filter(|(_, script)| program.is_some() || !script.contains("$UBIREADER"));
    let cell = |script: &str, (bytes, expected): &(Vec<u8>, Contents)| {
        std::fs::write(&image, bytes).expect("space for an image");
        _ = std::fs::remove_dir_all(&out);
        let end = run(
            script,
            &[
                ("IMAGE", &image),
                ("OUT", &out),
                ("UBIREADER", program.unwrap_or(Path::new("/"))),
            ],
        );
        let found: Vec<Option<bool>> = VOLUMES
            .map(|name| taken(&out, name).map(|bytes| is_whole(&bytes, &expected[name])))
            .into();
        let count = |what| found.iter().filter(|one| **one == what).count();
        let reported: Vec<String> = [(None, "missing"), (Some(false), "wrong")]
            .into_iter()
            .filter(|(what, _)| count(*what) > 0)
            .map(|(what, name)| format!("{} {name}", count(what)))
            .collect();
        match (reported.is_empty(), end.is_success()) {
            (true, true) => "right".into(),
            (true, false) => format!("right, {}", end.reported()),
            (false, true) => format!("{}; **status 0**", reported.join(", ")),
            (false, false) => format!("{}; {}", reported.join(", "), end.reported()),
        }
    };
    chosen
        .map(|(tool, script)| {
            (
                *tool,
                states.iter().map(|state| cell(script, state)).collect(),
            )
        })
        .collect()
}

/// What a tool has made of a volume.
fn taken(out: &Path, name: &str) -> Option<Vec<u8>> {
    let mut places: Vec<PathBuf> = vec![out.into()];
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let path = entry.path();
            let file = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                places.push(path);
            } else if file == name || file.contains(&format!("_vol-{name}.")) {
                return std::fs::read(path).ok();
            }
        }
    }
    None
}

/// Behind what was put there a volume is erased.
fn is_whole(found: &[u8], expected: &[u8]) -> bool {
    found
        .strip_prefix(expected)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == 0xFF))
}

/// The images, and what is in their volumes.
fn states(scratch: &Path, jffs2: &Path) -> Vec<(Vec<u8>, Contents)> {
    let random = |seed: u64, len: usize| {
        (0..len as u64)
            .map(|at| (mix(seed, at) >> 20) as u8)
            .collect::<Vec<u8>>()
    };
    let contents: Contents = [
        ("root", std::fs::read(jffs2).expect("an image")),
        ("data", random(1, 3 << 20)),
        (STATIC, random(2, FIXED)),
    ]
    .into();
    let mut config = String::new();
    for (number, (name, size)) in [("root", "8MiB"), ("data", "4MiB"), (STATIC, "1MiB")]
        .into_iter()
        .enumerate()
    {
        std::fs::write(scratch.join(name), &contents[name]).expect("space for a volume");
        let kind = if name == STATIC { "static" } else { "dynamic" };
        let _ = write!(
            config,
            "[{name}]\nmode=ubi\nimage={name}\nvol_id={number}\nvol_size={size}\nvol_type={kind}\nvol_name={name}\n"
        );
    }
    std::fs::write(scratch.join("volumes.ini"), config).expect("room");
    let image = scratch.join("ubi");
    let config = scratch.join("volumes.ini");
    let end = run(
        "$NANDLAB image ubinize -p 128K -m 2048 $IMAGE $CONFIG",
        &[("IMAGE", &image), ("CONFIG", &config)],
    );
    assert!(end.is_success(), "ubinize: {}", end.reported());
    let whole = std::fs::read(&image).expect("an image");
    let used = used(&whole, contents.clone());
    let cut = whole[..whole.len() / 1024 * 512].to_vec();
    let flipped = |places: Vec<usize>| {
        let mut bytes = whole.clone();
        places.into_iter().for_each(|at| bytes[at] ^= 4);
        (bytes, contents.clone())
    };
    let leb = BLOCK - 2 * PAGE as usize;
    let block_of = |name: &str, lnum: usize| {
        let part = &contents[name][lnum * leb..lnum * leb + 64];
        whole
            .windows(part.len())
            .position(|found| found == part)
            .expect("a block of each volume")
    };
    let data = (0..5)
        .map(|number| block_of(STATIC, number % 4) + 1000 * number)
        .collect();
    let headers = (0..5)
        .map(|number| block_of("data", 3 * number) - PAGE as usize + 9)
        .collect();
    vec![
        (whole.clone(), contents.clone()),
        used,
        (cut, contents.clone()),
        flipped(data),
        flipped(headers),
    ]
}

/// UBI has changed blocks many times, and was cut off: former versions of them are there still.
fn used(whole: &[u8], mut contents: Contents) -> (Vec<u8>, Contents) {
    let mut bytes = whole.to_vec();
    bytes.resize(bytes.len().next_multiple_of(BLOCK) + SPARE * BLOCK, 0xFF);
    let format = ImageFormat {
        page: PAGE,
        oob: 0,
        pages_per_block: BLOCK as u32 / PAGE,
        layout: Layout::Raw,
        ecc: None,
    };
    let mut ubi = Ubi::attach(
        Image::new(bytes, format).expect("whole blocks"),
        Options::default(),
    )
    .expect("what ubinize made");
    let leb = ubi.info().shape.leb_bytes as usize;
    for round in 0..60 {
        for (id, name) in [(0, "root"), (1, "data")] {
            let volume = contents.get_mut(name).expect("a volume");
            let lnum = (mix(round, id) % (volume.len() / leb) as u64) as usize;
            let part = &mut volume[lnum * leb..(lnum + 1) * leb];
            part.iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = (mix(round, at as u64) >> 20) as u8);
            ubi.change(id as u32, lnum as u32, part)
                .expect("space to change a block");
        }
    }
    let fixed = contents.get_mut(STATIC).expect("a volume");
    fixed.reverse();
    ubi.start_update(2, fixed.len() as u64)
        .expect("a static volume");
    assert!(ubi.write_update(2, fixed).expect("room"));
    (ubi.into_medium().into_backing(), contents)
}
