//! How long the real kernel's UBI takes to attach by a scan, beside ours, on simulated chips of
//! several sizes with equal times for a page.
//!
//! nandsim waits as long as a chip would, in QEMU's deterministic virtual time; the kernel's log
//! has the times at which the scan begins and ends. Two boots tell the processor's time from the
//! flash's: an instruction takes 2 and 16 ns, in a sample 8 and 32, so that delays take fewer
//! instructions. The processor's work for a header and for a block is that of
//! `docs/kernel-costs.md`. The test measures a read of a header there, too: the kernel's NAND layer
//! gives nandsim two commands for a part of a page. Our chip takes that time for a page.
//!
//! Needs the tools of `nandlab-oracle`, and mtd-utils; fails naming the Debian package that is
//! missing.

use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, ChipSpec, Timing, preset};
use nandlab_oracle::{Oracle, Report};
use nandlab_testkit::share::whole_or;
use nandlab_ubi::{Headers, Options, Ubi};
use std::{path::Path, time::Duration};

/// Blocks of 128 KiB of the devices. The largest takes as long as the others together.
fn sizes() -> &'static [u32] {
    &[256, 512, 1024, 2048][whole_or(1..4, 0..2)]
}

/// Reads of a header, to learn what one costs.
const READS: u32 = 400;
/// Nanoseconds an instruction takes in either boot, as powers of two.
fn shifts() -> [u8; 2] {
    whole_or([1, 4], [3, 5])
}

/// Programs and erases take next to no time: a device is formatted before it is attached.
const SCRIPT: &str = r#"
mp mtd && mp ubi || exit 1
stamp() { dmesg | grep "$1" | tail -1 | sed 's/^\[ *\([0-9]*\)\.\([0-9]*\)\].*/\1\2/'; }
for size in SIZES; do
    case $size in 256|512) code=0xf1 parts=parts=$size ;; 1024) code=0xf1 parts= ;; *) code=0xda parts= ;; esac
    mp nandsim id_bytes=0xec,$code,0x00,0x15 $parts do_delays=1 access_delay=25 programm_delay=1 erase_delay=0 output_cycle=1 input_cycle=50 || exit 1
    /usr/sbin/ubiformat /dev/mtd0 -q -y -O 2048 || exit 1
    echo 1 >/proc/sys/vm/drop_caches
    dmesg -c >/dev/null
    echo "reads begin" >/dev/kmsg
    dd if=/dev/mtd0 of=/dev/null bs=64 count=READS status=none || exit 1
    echo "reads end" >/dev/kmsg
    say reads-$size $(($(stamp "reads end") - $(stamp "reads begin")))
    /usr/sbin/ubiattach -m 0 -O 2048 >/tmp/attach 2>&1 || { cat /tmp/attach; dmesg | tail; exit 1; }
    say scan-$size $(($(stamp "scanning is finished") - $(stamp "attaching mtd0")))
    say tables-$size $(($(stamp "attached mtd0") - $(stamp "scanning is finished")))
    say good-$size $(cat /sys/class/ubi/ubi0/total_eraseblocks)
    /usr/sbin/ubidetach -m 0 >/dev/null && rmmod nandsim || exit 1
done
"#;

fn boot(shift: u8) -> Report {
    let oracle = Oracle::ready().unwrap_or_else(|missing| panic!("{missing}"));
    let guest =
        ["ubiattach", "ubidetach", "ubiformat"]
            .iter()
            .fold(oracle.guest(), |guest, program| {
                let path = Path::new("/usr/sbin").join(program);
                assert!(
                    path.exists(),
                    "{} is missing: install the Debian package mtd-utils",
                    path.display()
                );
                guest.program(path)
            });
    let words: Vec<String> = sizes().iter().map(u32::to_string).collect();
    let script = SCRIPT.replace("SIZES", &words.join(" "));
    let script = script.replace("READS", &READS.to_string());
    let report = guest
        .memory(512)
        .timeout(Duration::from_secs(900))
        .icount(shift)
        .script(script)
        .run()
        .and_then(Report::success);
    report.unwrap_or_else(|error| panic!("{error}"))
}

/// A time in microseconds that the guest took in both boots: the flash's part, and instructions.
fn split(boots: &[Report; 2], key: &str) -> (f64, f64) {
    let [fast, slow] = [0, 1].map(|i| {
        boots[i]
            .value(key)
            .unwrap_or_else(|| panic!("no {key}"))
            .parse::<f64>()
            .unwrap()
    });
    let [least, most] = shifts().map(|shift| f64::from(1 << shift));
    let thousands = (slow - fast) / (most - least);
    (fast - thousands * least, thousands * 1000.0)
}

/// Time of our attach, in microseconds of the chip's clock.
fn ours(blocks: u32, read_us: f64) -> f64 {
    let spec = preset::find("slc-2k").unwrap().spec();
    let timing = Timing {
        read_ns: (read_us * 1000.0) as u64,
        bus_ps_per_byte: 0,
        ..spec.timing
    };
    let geometry = Geometry {
        blocks,
        ..spec.geometry
    };
    let chip = Chip::new(ChipSpec {
        geometry,
        timing,
        ..spec
    })
    .unwrap();
    let options = Options {
        headers: Headers::At(2048),
        ..Options::default()
    };
    let chip = Ubi::format(chip, options).unwrap().detach().unwrap();
    let start = chip.clock().now();
    let ubi = Ubi::attach(chip, options).unwrap();
    (ubi.medium().clock().now() - start) as f64 / 1000.0
}

#[test]
fn our_scan_grows_as_the_kernels() {
    let boots = shifts().map(boot);
    let mut points = Vec::new();
    for &blocks in sizes() {
        let of = |what: &str| split(&boots, &format!("{what}-{blocks}"));
        let (flash_us, instructions) = of("scan");
        let (_, tables) = of("tables");
        let (reads_us, _) = of("reads");
        let read_us = reads_us / f64::from(READS);
        let ours_us = ours(blocks, read_us);
        println!(
            "{blocks} blocks: a header {read_us:.1} us; the kernel's scan {:.1} ms of flash and {:.0} instructions a block, {:.0} after it; ours {:.1} ms",
            flash_us / 1e3,
            instructions / f64::from(blocks),
            tables / f64::from(blocks),
            ours_us / 1e3
        );
        assert_eq!(
            boots[0].value(&format!("good-{blocks}")),
            Some(blocks.to_string().as_str())
        );
        // Two commands, each of 25 us and 2,048 cycles of 50 ns.
        assert!((read_us / 254.0 - 1.0).abs() < 0.05, "{read_us}");
        points.push([f64::from(blocks), flash_us, ours_us, instructions, tables]);
    }
    for pair in points.windows(2) {
        let slope = |at: usize| (pair[1][at] - pair[0][at]) / (pair[1][0] - pair[0][0]);
        let theirs = slope(1);
        let ours = slope(2);
        println!("us of flash a block: the kernel {theirs:.1}, ours {ours:.1}");
        println!(
            "instructions: {:.0} a header in the scan, {:.0} a block after it",
            slope(3) / 2.0,
            slope(4)
        );
        // docs/kernel-costs.md
        assert!(
            (4800.0..5300.0).contains(&(slope(3) / 2.0)) && (650.0..1050.0).contains(&slope(4))
        );
        assert!((ours / theirs - 1.0).abs() < 0.1, "{theirs} {ours}");
    }
}
