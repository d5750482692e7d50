//! Media under small damage. A digest of all answers shows when one of them changes.

use crate::common::{NAND, NOW, SMALL, bytes, nand, nor_of, put, text};
use crate::hostile::{BLOCK, forge, medium, nodes};
use nandlab_jffs2::{Endian, Jffs2, Options};
use nandlab_mtd::{Image, ImageFormat, Mtd};
use nandlab_sim::mix;
use nandlab_testkit::hostile::{exercise, near, use_up};
use nandlab_testkit::media::Media;
use nandlab_vfs::{FileSystem, Ino, Sync};

/// Everything that a caller sees of a medium, and the medium in the end.
fn outcome<M: Mtd>(mut mtd: M, options: Options) -> Media {
    let mut seen = Media::default();
    let looks = Options {
        read_only: true,
        ..options
    };
    seen.note_or(Jffs2::mount(&mut mtd, looks), |mut fs, seen| {
        seen.note(&fs.check());
        seen.add(exercise(&mut fs, 30));
    });
    seen.note_or(Jffs2::mount(&mut mtd, options), |mut fs, seen| {
        seen.add(exercise(&mut fs, 30));
        (0..40).for_each(|_| seen.note(&FileSystem::work(&mut fs, NOW)));
        seen.add(use_up(&mut fs, 0));
    });
    seen.flash(&mut mtd)
}

/// Sets a word of a node to one near it, with right checksums.
fn forge_near(image: &mut [u8], node: (usize, u16), word: u64) {
    let field = (word >> 8) as usize % 18;
    let at = node.0 + field * 4;
    let mut value: [u8; 4] = image[at..at + 4].try_into().unwrap();
    let byte = &mut value[word as usize >> 4 & 3];
    *byte = near(*byte, word >> 20);
    // The forger takes the field modulo the words of the node.
    if nodes(&image[node.0..at + 4]).len() == 1 {
        forge(image, node, field, u32::from_le_bytes(value));
    }
}

#[test]
fn every_answer_to_small_damage_is_a_kept_one() {
    for (name, endian, summary) in [
        ("little-endian", Endian::Little, false),
        ("summaries", Endian::Little, true),
        ("big-endian", Endian::Big, true),
    ] {
        let options = Options {
            summary,
            endian: Some(endian),
            ..Options::default()
        };
        let image = medium(options);
        let all_nodes = nodes(&image);
        let mut all = outcome(nor_of(image.clone(), BLOCK), options);
        for seed in 0..250 {
            let mut struck = image.clone();
            let word = mix(seed, 0);
            if seed % 3 == 0 || all_nodes.is_empty() {
                let at = word as usize % (6 * BLOCK as usize);
                struck[at] = near(struck[at], word >> 40);
            } else {
                let node = all_nodes[(word >> 32) as usize % all_nodes.len()];
                forge_near(&mut struck, node, word);
            }
            all.add(outcome(nor_of(struck, BLOCK), options));
        }
        all.assert(&format!("damage, jffs2 {name}"));
    }
}

/// A medium with pages of NAND: some files, one of them fsynced behind the others.
fn paged(format: ImageFormat, blocks: u32) -> Vec<u8> {
    let mut fs = Jffs2::mount(nand(format, blocks), Options::default()).unwrap();
    for number in 0..6 {
        let contents = text(number, 40_000);
        put(&mut fs, Ino::ROOT, &format!("file {number}"), &contents);
    }
    fs.unlink(Ino::ROOT, b"file 3", NOW).unwrap();
    let last = put(&mut fs, Ino::ROOT, "last", &bytes(1, 3000));
    fs.fsync(last, Sync::All).unwrap();
    fs.into_mtd().into_backing()
}

#[test]
fn every_answer_to_small_damage_of_pages_is_a_kept_one() {
    for (name, format, blocks) in [("large", NAND, 8), ("small", SMALL, 24)] {
        let image = paged(format, blocks);
        let stride = (format.page + format.oob) as usize;
        let mut all = Media::default();
        for seed in 0..120 {
            let mut struck = image.clone();
            let word = mix(seed, 0);
            let page = (word >> 16) as usize % (struck.len() / stride);
            // Mostly the first page of a block, and its spare bytes.
            let page = match word & 3 {
                0 => page,
                _ => page / format.pages_per_block as usize * format.pages_per_block as usize,
            };
            let within = match word >> 2 & 3 {
                0 => (word >> 32) as usize % stride,
                _ => format.page as usize + (word >> 32) as usize % format.oob as usize,
            };
            let byte = &mut struck[page * stride + within];
            *byte = near(*byte, word >> 50);
            let mtd = Image::new(struck, format).unwrap();
            all.add(outcome(mtd, Options::default()));
        }
        all.assert(&format!("damage, jffs2 {name} pages"));
    }
}
