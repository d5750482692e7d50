//! The recorder's trace against fio, whose format it is.

use crate::common;
use crate::common::{MIB, expect_success, text};
use nandlab_block::{BlockDevice, Lba};
use nandlab_host::record::record;
use nandlab_sim::Clock;
use std::fs::File;

#[test]
fn fio_replays_the_trace_in_its_own_time() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    let trace = dir.path().join("trace");
    let report = dir.path().join("report");
    File::create(&target).unwrap().set_len(MIB).unwrap();
    let clock = Clock::new();
    let (ram, _) = common::ram::watched_ram(512, MIB / 512);
    let time = clock.clone();
    let (mut disk, recording) = record(
        ram,
        File::create(&trace).unwrap(),
        text(&target),
        move || time.now(),
    )
    .unwrap();
    for lba in 0..50 {
        disk.write(Lba(lba * 8), &[lba as u8; 4096]).unwrap();
        clock.spend(2_000_000);
    }
    disk.flush().unwrap();
    for lba in 0..30 {
        disk.read(Lba(lba * 8), &mut [0; 4096]).unwrap();
        clock.spend(10_000_000);
    }
    assert_eq!(recording.finish().unwrap(), 3 + 50 + 1 + 30 + 1);

    let arguments = [
        "--name=replay",
        "--output-format=json",
        &format!("--read_iolog={}", text(&trace)),
        &format!("--output={}", text(&report)),
    ];
    expect_success("fio", "fio", &arguments);
    let report = std::fs::read_to_string(&report).unwrap();
    let number = |section: &str, key: &str| -> u64 {
        let from = report.find(&format!("\"{section}\" : {{")).unwrap();
        let value = report[from..]
            .split(&format!("\"{key}\" : "))
            .nth(1)
            .unwrap();
        value
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    assert_eq!(
        (number("read", "io_bytes"), number("write", "io_bytes")),
        (30 * 4096, 50 * 4096)
    );
    // 390 ms of trace between the first request and the last, if its unit is 1 us.
    let took = number("read", "runtime");
    assert!((300..4000).contains(&took), "{took} ms");
}
