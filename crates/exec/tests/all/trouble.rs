//! Programs that end, hang or break the protocol. Each is an error with its call.

use crate::guests::{c_of_the_tests, python_of_the_tests};
use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_exec::Program;
use nandlab_mtd::Layer;
use nandlab_nand::{Chip, preset};
use nandlab_sim::Chain;
use std::path::Path;

fn chip() -> Chip {
    let mut spec = preset::find("slc-2k").unwrap().spec();
    spec.geometry.blocks = 8;
    Chip::new(spec).unwrap()
}

fn misbehaving(way: &str, scratch: &Path) -> Program {
    python_of_the_tests("misbehave.py", way, scratch)
}

#[test]
fn a_program_that_gives_no_layer_is_an_error_with_its_reason() {
    let scratch = tempfile::tempdir().unwrap();
    let refused = |program: Program| {
        let error = program.format(chip()).map(drop).unwrap_err();
        Chain(&*error)
            .to_string()
            .replace(&scratch.path().display().to_string(), "DIR")
    };
    let expected = [
        (
            "ends-at-once",
            "DIR/folder-of-ends-at-once/ends-at-once: ended before it was ready; it must \
            take sockets from its standard input, as the clients do",
        ),
        (
            "hangs-at-once",
            "the program sent nothing for 10s within `hello`, and was killed",
        ),
        ("ends-in-format", "the program ended within `format`"),
        (
            "no-pages",
            "found a layer of 0 pages from the program within `format`, expected at least \
            one page, and no more than the chip has",
        ),
        (
            "too-many-pages",
            "found a layer of 2147483648 pages from the program within `format`, \
            expected at least one page, and no more than the chip has",
        ),
    ];
    for (way, message) in expected {
        assert_eq!(refused(misbehaving(way, scratch.path())), message);
    }
    let missing = Program::new(scratch.path().join("missing"));
    let message = "DIR/missing: not started: No such file or directory (os error 2)";
    assert_eq!(refused(missing), message);
    let silent = Program::new("/bin/true");
    assert!(refused(silent).starts_with("/bin/true: ended before it was ready"));
}

#[test]
fn a_program_that_fails_in_a_call_stops_its_layer_and_no_other() {
    let scratch = tempfile::tempdir().unwrap();
    let written = |way: &str| {
        let mut disk = misbehaving(way, scratch.path()).format(chip()).unwrap();
        let error = disk.write(Lba(0), &[7; 2048]).unwrap_err();
        (Chain(&error).to_string(), disk.write(Lba(0), &[7; 2048]))
    };
    let expected = [
        ("ends-in-write", "the program ended within `write`"),
        (
            "hangs",
            "the program sent nothing for 10s within `write`, and was killed",
        ),
        (
            "reads-on",
            "the program made 131072 calls of the chip within `write`, and was killed",
        ),
        (
            "raises",
            "the program failed to write: RuntimeError: the map is full",
        ),
        (
            "wrong-kind",
            "found a message of kind 77 from the program within `write`, expected an \
            answer or a call of the chip",
        ),
        (
            "short-message",
            "found a message of 3 bytes from the program within `write`, expected 16 \
            bytes and what the call has",
        ),
        (
            "long-message",
            "found a message of 4113 bytes from the program within `write`, expected \
            16 bytes and what the call has",
        ),
        (
            "beyond-the-chip",
            "the program failed to write: ChipError: out of range",
        ),
    ];
    for (way, message) in expected {
        let (error, again) = written(way);
        assert_eq!(
            error,
            format!("internal error: program: sector 0: {message}"),
            "{way}"
        );
        assert!(
            matches!(again, Err(BlockError::Internal(_))),
            "{way}: {again:?}"
        );
    }
}

#[test]
fn lost_data_and_short_data_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let mut disk = misbehaving("short-read", scratch.path())
        .format(chip())
        .unwrap();
    let error = disk.read(Lba(0), &mut [0; 2048]).unwrap_err();
    assert_eq!(
        Chain(&error).to_string(),
        "internal error: program: sector 0: found 5 bytes from the program within `read`, expected \
         a page of the chip"
    );
    let mut disk = misbehaving("lost", scratch.path()).format(chip()).unwrap();
    let error = disk.read(Lba(4), &mut [0; 2048]).unwrap_err();
    assert!(matches!(error, BlockError::Lost { .. }), "{error:?}");
    disk.write(Lba(4), &[1; 2048]).unwrap();
}

#[test]
fn every_attach_has_fresh_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let program = misbehaving("remembers", scratch.path());
    let disk = program.format(chip()).unwrap();
    let disk = program.attach(program.power_off(disk)).unwrap();
    let other = program.attach(chip()).unwrap();
    program.attach(program.power_off(disk)).unwrap();
    drop(other);
}

#[test]
fn calls_that_the_chip_refuses_come_back_with_their_status() {
    let scratch = tempfile::tempdir().unwrap();
    let program = c_of_the_tests("statuses.c", scratch.path());
    let mut disk = program.format(chip()).unwrap();
    disk.flush().unwrap();
    let before = disk.into_flash();
    assert!(
        before.clock().now() > 5_000_000_000,
        "{}",
        before.clock().now()
    );
}
