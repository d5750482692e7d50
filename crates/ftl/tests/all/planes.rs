//! Neighbouring writes go to the planes of one die and run as one program.

use crate::common::large_pages;
use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_nand::Chip;

/// Virtual time of a thousand writes in order.
fn time(multi_plane: bool) -> u64 {
    let mut spec = large_pages(64, 64);
    spec.timing.multi_plane = multi_plane;
    let mut device = PageFtl::format(
        Chip::new(spec).unwrap(),
        PageOptions {
            over_provisioning: 1.0,
            ..PageOptions::default()
        },
    )
    .unwrap();
    let clock = device.medium().clock().clone();
    let began = clock.now();
    (0..1000).for_each(|page| device.write(Lba(page * 8), &[0; 4096]).unwrap());
    device.flush().unwrap();
    clock.now() - began
}

#[test]
fn two_planes_take_little_more_than_half_the_time() {
    let one = time(false);
    let both = time(true);
    assert!(
        both * 17 < one * 10,
        "{both} ns with planes together, {one} ns without"
    );
}
