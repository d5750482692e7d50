//! Neighbouring writes go to the planes of one die and run as one program.

use nandlab_block::{BlockDevice, Lba};
use nandlab_ftl::Ftl;
use nandlab_ftl::page::{PageFtl, PageOptions};
use nandlab_mtd::Geometry;
use nandlab_nand::{Chip, Contents, preset};

/// Virtual time of a thousand writes in order.
fn time(multi_plane: bool) -> u64 {
    let mut spec = preset::find("emmc-16GiB").unwrap().spec();
    spec.geometry = Geometry {
        blocks: 64,
        pages_per_block: 64,
        page: 4096,
        write_unit: 4096,
        ..spec.geometry
    };
    spec.contents = Contents::Dropped;
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
