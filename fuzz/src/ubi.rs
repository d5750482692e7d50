//! UBI: edits of headers, volume tables, fastmaps and logs, after which their checksums are right
//! again.
//!
//! *A run* attaches the medium, reads and checks its volumes; if the input says so it changes and
//! resizes them, makes one more, lets UBI work, detaches the medium and attaches it again. *Bound:*
//! 1 MiB of heap and 4 bytes for each byte of the medium, which is there itself.

use crate::heap;
use nandlab_damage::edit::Script;
use nandlab_damage::ubi::{BYTES, seeds};
use nandlab_mtd::{Image, ImageFormat};
use nandlab_ubi::{Options, Ubi, UbiError, VolumeSpec};

/// Runs one input of the fuzzer.
pub fn run(input: &[u8]) {
    let script = Script::new(input);
    let seeds = seeds();
    let seed = &seeds[script.seed % seeds.len()];
    heap::bounded((1 << 20) + 4 * BYTES, || {
        let bytes = seed.edited(script);
        // Another way of remembering than that of the seed: attaching must cope with what it does
        // not know.
        let options = if script.options & 1 == 0 {
            seed.options
        } else {
            seeds[script.options as usize / 2 % seeds.len()].options
        };
        if let Ok(ubi) = attach(bytes, seed.format, options) {
            survive(ubi, seed.format, options, script.write);
        }
    });
}

fn attach(
    bytes: Vec<u8>,
    format: ImageFormat,
    options: Options,
) -> Result<Ubi<Image<Vec<u8>>>, UbiError> {
    Ubi::attach(Image::new(bytes, format).expect("whole blocks"), options)
}

/// Whatever was attached can be read, and written until it says that it cannot.
fn survive(mut ubi: Ubi<Image<Vec<u8>>>, format: ImageFormat, options: Options, write: bool) {
    for volume in ubi.volumes() {
        let mut buf = vec![0; volume.leb_bytes as usize];
        for lnum in 0..volume.record.reserved.min(20) {
            _ = ubi.read(volume.id, lnum, 0, &mut buf);
        }
        _ = ubi.check_volume(volume.id);
        if write {
            _ = ubi.change(volume.id, 0, &[1; 1024]);
            _ = ubi.resize_volume(volume.id, 2);
        }
    }
    if !write {
        return;
    }
    _ = ubi.create_volume(&VolumeSpec {
        name: "new".into(),
        lebs: 1,
        ..VolumeSpec::default()
    });
    for _ in 0..30 {
        if !matches!(ubi.work(), Ok(true)) {
            break;
        }
    }
    if let Ok(image) = ubi.detach() {
        _ = attach(image.into_backing(), format, options);
    }
}
