//! Spare areas and corrections are those of the real kernel: nandsim with Hamming and BCH codes on
//! small, large and larger pages, read and written by mtd-utils.
//!
//! Needs the tools of `nandlab-oracle` and mtd-utils; fails naming the Debian package that is
//! missing.

use nandlab_ecc::Code;
use nandlab_mtd::{Image, ImageFormat, Mtd, MtdError, Page};
use nandlab_oracle::{Guest, Oracle, Report};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// A chip of nandsim.
struct Shape {
    name: &'static str,
    parameters: &'static str,
    page: u32,
    oob: u32,
    pages_per_block: u32,
    code: &'static str,
}

const LARGE: Shape = Shape {
    name: "large-hamming",
    parameters: "id_bytes=0x20,0xa2,0x00,0x15",
    page: 2048,
    oob: 64,
    pages_per_block: 64,
    code: "hamming",
};
const LARGER: Shape = Shape {
    name: "larger-hamming",
    parameters: "id_bytes=0x20,0xa2,0x00,0x26",
    page: 4096,
    oob: 128,
    ..LARGE
};
const SHAPES: [Shape; 7] = [
    Shape {
        name: "small-hamming",
        parameters: "id_bytes=0x98,0x73",
        page: 512,
        oob: 16,
        pages_per_block: 32,
        code: "hamming",
    },
    LARGE,
    Shape {
        name: "large-bch-4",
        parameters: "id_bytes=0x20,0xa2,0x00,0x15 bch=4",
        code: "bch-4",
        ..LARGE
    },
    Shape {
        name: "large-bch-8",
        parameters: "id_bytes=0x20,0xa2,0x00,0x15 bch=8",
        code: "bch-8",
        ..LARGE
    },
    LARGER,
    Shape {
        name: "larger-bch-8",
        parameters: "id_bytes=0x20,0xa2,0x00,0x26 bch=8",
        code: "bch-8",
        ..LARGER
    },
    Shape {
        name: "larger-bch-9",
        parameters: "id_bytes=0x20,0xa2,0x00,0x26 bch=9",
        code: "bch-9",
        ..LARGER
    },
];

/// Erase blocks that are written.
const BLOCKS: u32 = 2;

type Dump = Image<Vec<u8>>;

impl Shape {
    fn code(&self) -> Code {
        self.code.parse().unwrap()
    }

    fn format(&self) -> ImageFormat {
        let code = Some(self.code());
        ImageFormat::linux(self.page, self.oob, self.pages_per_block, code).unwrap()
    }

    fn pages(&self) -> u32 {
        BLOCKS * self.pages_per_block
    }

    /// The data of a page: noise, nothing, or noise in every other step.
    fn data(&self, page: u32) -> Vec<u8> {
        let length = self.page as usize;
        let mut data = noise(length, u64::from(page));
        match page % 8 {
            3 => data.fill(0xFF),
            5 => data
                .chunks_mut(512)
                .step_by(2)
                .for_each(|step| step.fill(0xFF)),
            _ => {}
        }
        data
    }

    /// Our dump of all pages.
    fn dump(&self) -> Dump {
        let format = self.format();
        let mut dump = Image::new(vec![0xFF; format.bytes(BLOCKS) as usize], format).unwrap();
        for page in 0..self.pages() {
            dump.program(Page(page), &self.data(page), &[]).unwrap();
        }
        dump
    }

    /// Our dump with flipped bits in steps and parities: in some steps as many as the code
    /// corrects and fewer, in a few more.
    fn worn(&self) -> Vec<u8> {
        let dump = self.dump();
        let ecc = self.ecc_places();
        let code = self.code();
        let step = code.step();
        let mut bytes = dump.into_backing();
        let mut random = 0;
        let mut draw = |below: usize| {
            random += 1;
            nandlab_sim::mix(77, random) as usize % below
        };
        for page in bytes.chunks_mut((self.page + self.oob) as usize) {
            for number in 0..code.steps(self.page as usize).unwrap() {
                let strength = usize::from(code.strength());
                let flips = match draw(64) {
                    0 => strength + 1 + draw(3),
                    1..20 => strength,
                    20..40 => draw(strength + 1),
                    _ => 0,
                };
                for _ in 0..flips {
                    let byte = draw(step + code.parity());
                    let at = match byte.checked_sub(step) {
                        None => number * step + byte,
                        Some(parity) => ecc[number * code.parity() + parity],
                    };
                    page[at] ^= 1 << draw(8);
                }
            }
        }
        bytes
    }

    /// Where the ECC bytes lie in a page of the dump.
    fn ecc_places(&self) -> Vec<usize> {
        let parity = self.code().page_parity(self.page as usize);
        let layout = self.format().layout;
        let layout = layout.with_ecc(self.page, self.oob, parity).unwrap();
        layout.ecc().map(|at| self.page as usize + at).collect()
    }

    fn script(&self) -> String {
        let name = self.name;
        let parameters = self.parameters;
        let length = BLOCKS * self.pages_per_block * self.page;
        format!(
            "mp nandsim parts=64 {parameters} && /usr/sbin/nandwrite -q /dev/mtd0 /{name}-data &&
             /usr/sbin/nanddump -q -n -o -l {length} -f /tmp/raw /dev/mtd0 && send {name}-raw /tmp/raw &&
             /usr/sbin/flash_erase -q /dev/mtd0 0 0 && /usr/sbin/nandwrite -q -n -o /dev/mtd0 /{name}-worn || exit 1
             before=$(cat /sys/class/mtd/mtd0/corrected_bits)
             /usr/sbin/nanddump -q -l {length} -f /tmp/read /dev/mtd0 >/dev/null 2>&1; send {name}-read /tmp/read
             say {name}-corrected $(($(cat /sys/class/mtd/mtd0/corrected_bits) - before))
             say {name}-failed $(cat /sys/class/mtd/mtd0/ecc_failures)
             rm /tmp/raw /tmp/read; rmmod nandsim || exit 1\n"
        )
    }
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64 / 8)
        .flat_map(|word| nandlab_sim::mix(seed, word).to_le_bytes())
        .collect()
}

fn guest() -> Guest {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let programs = ["nandwrite", "nanddump", "flash_erase"];
    let guest = programs.iter().fold(oracle.guest(), |guest, program| {
        let path = Path::new("/usr/sbin").join(program);
        assert!(
            path.exists(),
            "{} is missing: install the Debian package mtd-utils",
            path.display()
        );
        guest.program(path)
    });
    let mut script = String::new();
    let guest = SHAPES.iter().fold(guest, |guest, shape| {
        write!(script, "{}", shape.script()).unwrap();
        let data: Vec<u8> = (0..shape.pages())
            .flat_map(|page| shape.data(page))
            .collect();
        guest
            .file(format!("/{}-data", shape.name), data)
            .file(format!("/{}-worn", shape.name), shape.worn())
    });
    guest
        .memory(512)
        .timeout(Duration::from_secs(300))
        .script(script)
}

/// What we read of a worn dump, the bits corrected, and the pages beyond correction.
fn read(shape: &Shape) -> (Vec<u8>, u64, u64) {
    let mut dump = Image::new(shape.worn(), shape.format()).unwrap();
    let mut all = Vec::new();
    let mut data = vec![0; shape.page as usize];
    for page in (0..shape.pages()).map(Page) {
        match dump.read(page, &mut data, &mut []) {
            Ok(_) | Err(MtdError::Uncorrectable(_)) => all.extend_from_slice(&data),
            Err(error) => panic!("{}: {error}", shape.name),
        }
    }
    let found = dump.corrections().unwrap();
    (all, found.bits, found.failed)
}

#[test]
fn spare_areas_and_corrections_are_the_kernels() {
    let report = guest()
        .run()
        .and_then(Report::success)
        .unwrap_or_else(|error| panic!("{error}"));
    for shape in &SHAPES {
        let name = shape.name;
        let file = |what: &str| &report.files[&format!("{name}-{what}")];
        let value = |what: &str| -> u64 {
            let text = report.value(&format!("{name}-{what}")).unwrap();
            text.parse().unwrap()
        };
        let same = |ours: &[u8], theirs: &[u8], what: &str| {
            let differs = ours.iter().zip(theirs).position(|(a, b)| a != b);
            assert_eq!(
                (ours.len(), differs),
                (theirs.len(), None),
                "{name}: {what}"
            );
        };
        same(&shape.dump().into_backing(), file("raw"), "the dump");
        let (data, bits, pages) = read(shape);
        same(&data, file("read"), "corrected data");
        println!("{name}: {bits} bits corrected, {pages} pages beyond correction");
        assert_eq!(bits, value("corrected"), "{name}: corrected bits");
        // The kernel counts steps, of which a page may have several.
        assert!(pages > 0 && value("failed") >= pages, "{name}");
        assert!(value("failed") <= pages + pages / 2, "{name}");
    }
}
