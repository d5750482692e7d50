//! The power cut everywhere in layers that are programs.

use crate::guests::{c, changed, python, python_of_the_tests};
use nandlab_crash::{CrashReport, Cuts, Disk, DiskOp, Plan, assert_found, assert_survives};
use nandlab_crash::{SecondLevel, operations};
use nandlab_exec::Program;
use nandlab_nand::{ChipSpec, preset};
use nandlab_workload::pattern::{Amount, Pattern};
use nandlab_workload::{Source, Spec};

/// Two dies, so that the order between them counts.
fn chip() -> ChipSpec {
    let mut chip = preset::find("slc-2k").unwrap().spec();
    chip.geometry.blocks = 12;
    chip.geometry.pages_per_block = 4;
    chip.geometry.dies = 2;
    chip
}

fn writes(subject: &Disk<Program>) -> Vec<DiskOp> {
    let disk = subject.geometry().unwrap();
    let spec = Spec {
        block: 2048,
        align: 2048,
        amount: Amount::Requests(40),
        flush_every: 8,
        ..Spec::new(disk.bytes())
    };
    let mut pattern = Pattern::new(&spec).unwrap();
    let source: &mut dyn Source = &mut pattern;
    operations(source, &disk, 40).unwrap()
}

fn plan(cuts: Cuts) -> Plan {
    Plan {
        cuts,
        second: SecondLevel::Every(16),
        ..Plan::default()
    }
}

fn survives(program: Program, cuts: Cuts) -> CrashReport {
    let layer = program;
    let subject = Disk {
        chip: chip(),
        layer,
    };
    let writes = writes(&subject);
    assert_survives(&subject, &writes, &plan(cuts))
}

#[test]
fn a_layer_in_c_survives_its_cuts_and_without_its_fence_it_is_caught() {
    let scratch = tempfile::tempdir().unwrap();
    let report = survives(c(scratch.path()), Cuts::Sample(300));
    assert!(report.states >= 300, "{report}");
    let fence = "nandlab_fence(chip);";
    let layer = changed("unfenced", scratch.path(), |text| text.replace(fence, ""));
    let subject = Disk {
        chip: chip(),
        layer,
    };
    let writes = writes(&subject);
    assert_found(&subject, &writes, &plan(Cuts::Sample(300)));
}

#[test]
fn the_same_layer_in_python_leaves_the_same_states() {
    let scratch = tempfile::tempdir().unwrap();
    let cuts = Cuts::Sample(100);
    let c = survives(c(scratch.path()), cuts);
    assert_eq!(
        survives(python(scratch.path()), cuts).to_string(),
        c.to_string()
    );
}

#[test]
fn a_program_that_serves_one_layer_and_exits_is_started_again() {
    let scratch = tempfile::tempdir().unwrap();
    let cuts = Cuts::Sample(20);
    let c = survives(c(scratch.path()), cuts);
    let script = python_of_the_tests("once.py", "once.py", scratch.path());
    assert_eq!(survives(script, cuts).to_string(), c.to_string());
}
