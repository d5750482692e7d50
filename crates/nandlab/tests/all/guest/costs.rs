//! Instructions of the kernel's paths, out of what the guest's clock showed.
//!
//! The guest's clock counts instructions: a fixed time each, none between them but what something
//! waited for. A path is run often and the median taken, so that what interrupts a run now and then
//! does not count; of folds, which take long and are few, the least. What the flash of `docram.c`
//! itself takes is measured inside it and left out.

use nandlab_oracle::Report;
use std::collections::BTreeMap;

/// The lines that the script sent, numbers only, by key.
pub struct Measured(BTreeMap<String, Vec<Vec<u64>>>, BTreeMap<String, u64>);

/// What the flash was asked to do in a line: spare bytes read, pages read, pages programmed, spare
/// bytes programmed, blocks erased.
type Operations = [u64; 5];

/// A path of the table: its name, what it is, and its ticks.
pub struct Row {
    pub name: &'static str,
    pub what: &'static str,
    pub ticks: f64,
}

impl Measured {
    pub fn of(report: &Report) -> Self {
        let numbers = |line: &str| {
            line.split(' ')
                .map(|word| word.parse().ok())
                .collect::<Option<Vec<u64>>>()
        };
        let lines = |bytes: &[u8]| {
            str::from_utf8(bytes)
                .unwrap()
                .lines()
                .filter_map(numbers)
                .collect()
        };
        let values = report
            .values
            .iter()
            .filter_map(|(key, said)| Some((key.clone(), said.last()?.parse().ok()?)));
        Self(
            report
                .files
                .iter()
                .map(|(key, bytes)| (key.clone(), lines(bytes)))
                .collect(),
            values.collect(),
        )
    }

    fn lines(&self, key: &str) -> &[Vec<u64>] {
        self.0
            .get(key)
            .filter(|lines| !lines.is_empty())
            .unwrap_or_else(|| panic!("the guest did not measure {key}"))
    }

    fn value(&self, key: &str) -> f64 {
        *self
            .1
            .get(key)
            .unwrap_or_else(|| panic!("the guest did not say {key}")) as f64
    }

    /// Ticks of a system call: column `call` of the rounds that `which` picks by their number.
    pub fn call(&self, key: &str, call: usize, which: impl Fn(usize) -> bool) -> f64 {
        let ticks = |lines: &[Vec<u64>]| {
            median(
                lines
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| which(*n))
                    .map(|(_, line)| line[call]),
            )
        };
        ticks(self.lines(key)) - median(self.lines("call-nothing").iter().map(|line| line[0]))
    }

    /// Ticks of a system call outside the flash of a file that `mtdspy.c` measures. (What the
    /// kernel writes by itself just before or after a call, now and then, is taken for the call's.)
    pub fn outside_flash(&self, key: &str, call: usize) -> f64 {
        self.outside_flash_in(key, call, |_| true)
    }

    /// The same, in the rounds that `which` picks by their number.
    pub fn outside_flash_in(&self, key: &str, call: usize, which: impl Fn(usize) -> bool) -> f64 {
        let outside = |line: &Vec<u64>| line[call].saturating_sub(line[line.len() / 3 + 2 * call]);
        let lines = self.lines(key).iter().enumerate();
        let picked = lines.filter(|(round, _)| which(*round));
        median(picked.map(|(_, line)| outside(line)))
            - median(self.lines("call-nothing").iter().map(|line| line[0]))
    }

    /// Ticks of a system call inside that flash.
    pub fn in_flash(&self, key: &str, call: usize) -> f64 {
        median(
            self.lines(key)
                .iter()
                .map(|line| line[line.len() / 3 + 2 * call]),
        )
    }

    /// Ticks of a path of the kernel outside the flash, in the runs that asked the flash for just
    /// these operations.
    pub fn path(&self, key: &str, operations: Operations) -> f64 {
        median(self.outside(key, operations)) - median(self.outside("nothing", [0; 5]))
    }

    /// The same in the run that took least.
    fn least_path(&self, key: &str, operations: Operations) -> f64 {
        let least = self
            .outside(key, operations)
            .min()
            .unwrap_or_else(|| panic!("no run of {key} did {operations:?}"));
        least as f64 - median(self.outside("nothing", [0; 5]))
    }

    fn outside(&self, key: &str, operations: Operations) -> impl Iterator<Item = u64> {
        self.lines(key)
            .iter()
            .filter(move |line| line[2..] == operations)
            .map(|line| line[0] - line[1])
    }
}

fn median(numbers: impl Iterator<Item = u64>) -> f64 {
    let mut numbers: Vec<u64> = numbers.collect();
    assert!(!numbers.is_empty(), "no run of this kind");
    numbers.sort_unstable();
    numbers[(numbers.len() - 1) / 2] as f64
}

/// The table. Where a path has parts that occur in any number, it has a row for the first of them
/// and one for each further one.
pub fn table(m: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name, what, ticks| rows.push(Row { name, what, ticks });
    file_system(m, &mut row);
    translation(m, &mut row);
    folds(m, &mut row);
    row(
        "hamming-256",
        "`ecc_sw_hamming_calculate` of 256 bytes",
        m.path("hamming-256", [0; 5]),
    );
    row(
        "hamming-512",
        "`ecc_sw_hamming_calculate` of 512 bytes as one step",
        m.path("hamming-512", [0; 5]),
    );
    row(
        "copy-512",
        "`memcpy` of 512 bytes, eight a `rep movsq` step",
        m.path("copy-512", [0; 5]),
    );
    rows
}

/// FAT16 with clusters of 2 KiB: every fourth append takes a cluster, every eighth a page of the
/// page cache besides.
fn file_system(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let old = |n: usize| !n.is_multiple_of(4);
    row(
        "vfat-append",
        "write(2) of 512 bytes at the end of a file, in a cluster that it has",
        m.call("append", 0, old),
    );
    row(
        "vfat-append-fsync",
        "fsync(2) after that: 2 requests of 512 bytes",
        m.call("append", 1, old),
    );
    row(
        "vfat-extend",
        "write(2) of 512 bytes that takes a new cluster",
        m.call("append", 0, |n| n % 8 == 4),
    );
    row(
        "vfat-extend-page",
        "write(2) of 512 bytes that takes a new cluster and a new page of the page cache",
        m.call("append", 0, |n| n > 0 && n % 8 == 0),
    );
    row(
        "vfat-extend-fsync",
        "fsync(2) after a new cluster: 4 requests of 512 bytes",
        m.call("append", 1, |n| n % 8 == 4),
    );
    row(
        "vfat-overwrite",
        "write(2) of 512 bytes over others",
        m.call("overwrite", 0, |_| true),
    );
    row(
        "vfat-overwrite-fsync",
        "fsync(2) after that: 2 requests of 512 bytes",
        m.call("overwrite", 1, |_| true),
    );
    row(
        "vfat-create",
        "open(2) of a new file in a directory of one cluster (64 entries): no request",
        m.call("create-sub", 0, |_| true),
    );
    let sub = m.call("create-sub", 0, |_| true);
    let root = m.call("create-root", 0, |_| true);
    row(
        "vfat-create-entry",
        "the same, each further entry of the directory, used or not (512 in the root)",
        (root - sub) / 448.0,
    );
    row("vfat-close", "close(2)", m.call("create-sub", 1, |_| true));
    row(
        "vfat-unlink",
        "unlink(2) of the empty file: no request",
        m.call("create-sub", 2, |_| true),
    );
    row(
        "ram-request",
        "a bio of 512 bytes to the RAM disk, submitted and completed",
        m.path("ram-bio", [0; 5]),
    );
    row(
        "ram-write",
        "pwrite(2) of 512 bytes to the RAM disk, O_DIRECT",
        m.call("ram-write", 0, |_| true),
    );
    row(
        "ram-read",
        "pread(2), likewise",
        m.call("ram-read", 0, |_| true),
    );
}

/// nftl without the block layer, without its flash.
fn translation(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let read = |key, walked| m.path(key, [walked, 1, 0, 0, 0]);
    let write = |key, walked, linked| m.path(key, [walked, 0, 1, linked, 0]);
    row(
        "mtd-oob",
        "`mtd_read_oob` of 8 spare bytes",
        m.path("mtd-oob", [1, 0, 0, 0, 0]),
    );
    row(
        "mtd-page",
        "`mtd_read` of a page",
        m.path("mtd-page", [0, 1, 0, 0, 0]),
    );
    row(
        "nftl-read",
        "read of a sector found in the first unit, the only one of its chain",
        read("read-first", 1),
    );
    row(
        "nftl-read-step",
        "the same, each further unit walked",
        (read("read-10", 10) - read("read-6", 6)) / 4.0,
    );
    row(
        "nftl-read-free",
        "read of a sector that is free in the first unit",
        m.path("read-free", [1, 0, 0, 0, 0]),
    );
    row(
        "nftl-read-absent",
        "read of a sector whose unit is not there",
        m.path("read-absent", [0; 5]),
    );
    row(
        "nftl-write",
        "write of a sector that is free in the first unit",
        write("filled", 1, 0),
    );
    row(
        "nftl-write-step",
        "the same, each further unit walked",
        (write("walk-to-free", 10, 0) - write("walk-to-free", 2, 0)) / 8.0,
    );
    row(
        "nftl-write-first",
        "write of a sector that takes the first unit of a chain",
        write("grow", 1, 1),
    );
    row(
        "nftl-write-replacement",
        "write of a sector that takes a replacement unit, one walked before",
        write("grow", 3, 2),
    );
    row(
        "nftl-request",
        "pread(2) of a mapped sector, O_DIRECT, less the read itself: system call, request queue, worker",
        {
            let flash = median(m.lines("read-first").iter().map(|line| line[1]));
            m.call("nftl-read", 0, |_| true) - flash - read("read-first", 1)
        },
    );
}

/// What a write takes more that must fold a chain before it gets its replacement unit: a second
/// walk of its own chain included.
fn folds(m: &Measured, row: &mut impl FnMut(&'static str, &'static str, f64)) {
    let plain = m.path("grow", [3, 0, 1, 2, 0]);
    let fold = |key, operations| m.least_path(key, operations) - plain;
    let none = fold("fold-all", [101, 32, 1, 5, 1]);
    let most = fold("fold-one", [101, 63, 32, 5, 1]);
    let three = fold("fold-three", [168, 95, 32, 6, 2]);
    let few = m.value("units-128");
    let many = m.value("units-256");
    row(
        "fold",
        "fold in place of a chain of two units of 32 sectors, nothing to copy, among 123 virtual units",
        none,
    );
    row(
        "fold-copy",
        "the same, each sector copied",
        (most - none) / 31.0,
    );
    row(
        "fold-unit",
        "the same, each further unit of the chain: looked through, erased, checked to be erased",
        three - most,
    );
    row(
        "fold-search",
        "the same, each virtual unit looked at in the search for the longest chain",
        (fold("fold-all-256", [101, 32, 1, 5, 1]) - none) / (many - few),
    );
}

/// The requests to the RAM disk in a series of system calls, as the trace has them: `WS 168 + 1` is
/// a write of one sector.
pub fn requests(report: &Report, key: &str) -> Vec<String> {
    let trace = str::from_utf8(&report.files[key]).unwrap();
    let request = |line: &str| {
        Some(
            line.split("block_bio_queue: 1,0 ")
                .nth(1)?
                .split(" [")
                .next()?
                .to_owned(),
        )
    };
    trace
        .lines()
        .map(|line| request(line).unwrap_or_else(|| panic!("{line:?} in the trace")))
        .collect()
}
