//! Dumps of flash: NFTL, erase blocks and spare bytes that no option gives, bad and erased blocks,
//! other geometries.

use crate::common;
use crate::common::{archive, differences, extracted, held, made, tree};
use nandlab_block::BlockDevice;
use nandlab_ftl::nftl::{Nftl, NftlOptions};
use nandlab_image::anew::anew;
use nandlab_image::check::check;
use nandlab_image::make::Format;
use nandlab_image::ubinize::{Device, ubinize};
use nandlab_image::volume::{Access, Layer, Opening, Volume};
use nandlab_jffs2::{Compression, Medium};
use nandlab_mtd::{Image, ImageFormat, Layout};
use nandlab_vfs::{Caller, FileSystem, Ino, NewNode, Time};
use std::fs;
use std::path::Path;

fn opened(image: &Path) -> Volume {
    Volume::open(image, &Opening::default(), Access::Read).unwrap()
}

#[test]
fn fat_on_nftl_is_read_whatever_the_erase_unit() {
    let scratch = tempfile::tempdir().unwrap();
    for pages_per_block in [16, 32] {
        let format = ImageFormat {
            page: 512,
            oob: 16,
            pages_per_block,
            layout: Layout::DiskOnChip,
            ecc: None,
        };
        let flash = Image::new(
            vec![0xFF; format.bytes(4096 / pages_per_block) as usize],
            format,
        )
        .unwrap();
        let mut disk = Nftl::format(
            flash,
            NftlOptions {
                spare_units: 4,
                ..NftlOptions::default()
            },
        )
        .unwrap();
        nandlab_fat::format(&mut disk, &nandlab_fat::Format::default()).unwrap();
        let mut fat = nandlab_fat::Fat::mount(&mut disk, nandlab_fat::Options::default()).unwrap();
        let by = Caller::root(Time::new(1_000_000_000));
        for number in 0..20u8 {
            let name = format!("file {number}");
            let file = fat
                .create(Ino::ROOT, name.as_bytes(), NewNode::File, 0o644, by)
                .unwrap()
                .ino;
            fat.write(file, 0, &vec![number; 3000 * usize::from(number)], by.now)
                .unwrap();
        }
        fat.unmount().unwrap();
        drop(fat);
        disk.flush().unwrap();
        let image = scratch.path().join(format!("{pages_per_block}"));
        fs::write(&image, disk.into_medium().into_backing()).unwrap();
        let mut volume = opened(&image);
        let names: Vec<String> = volume
            .layers
            .iter()
            .map(|layer| format!("{layer:?}").chars().take(5).collect())
            .collect();
        assert_eq!(names, ["Flash", "Nftl ", "Fat {"], "{:?}", volume.layers);
        assert!(
            matches!(volume.layers[0], Layer::Flash { block, .. } if block == 512 * pages_per_block),
            "{:?}",
            volume.layers
        );
        assert_eq!(check(&mut volume).unwrap().findings, []);
        let found = held(&extracted(&image), scratch.path());
        assert_eq!(found.len(), 21);
        for number in 0..20u8 {
            let path = format!("file {number}");
            let (_, contents) = found
                .iter()
                .find(|(entry, _)| entry.path == path.as_bytes())
                .unwrap();
            assert!(
                *contents == vec![number; 3000 * usize::from(number)],
                "{path}"
            );
        }
    }
}

#[test]
fn a_dump_with_a_bad_and_an_erased_block_is_known_without_a_word() {
    let scratch = tempfile::tempdir().unwrap();
    let image = scratch.path().join("image");
    let Format::Jffs2 { mut choices, .. } = Format::jffs2(16 * 2048, Compression::CLASSIC) else {
        panic!("JFFS2")
    };
    choices.medium = Some(Medium::Nand);
    let shape = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 16,
        layout: Layout::LinuxLargePage64,
        ecc: None,
    };
    let tree = tree(scratch.path(), false);
    made(&tree, Format::Jffs2 { choices, shape }, &image, 1);
    let block = shape.bytes(1) as usize;
    let mut bad = vec![0x5A; block];
    bad[2048] = 0;
    bad[2112 + 2048] = 0;
    let dump = [vec![0xFF; block], bad, fs::read(&image).unwrap()].concat();
    fs::write(&image, dump).unwrap();
    let volume = opened(&image);
    let Some(Layer::Flash {
        page,
        oob,
        block,
        bad,
        ..
    }) = volume.layers.first()
    else {
        panic!("{:?}", volume.layers)
    };
    assert_eq!(
        (*page, *oob, *block, &bad[..]),
        (2048, 64, 16 * 2048, &[1][..])
    );
    let mut expected = held(&archive(&tree), scratch.path());
    expected
        .iter_mut()
        .for_each(|(entry, _)| entry.mtime.nanos = 0);
    assert_eq!(
        differences(&expected, &held(&extracted(&image), scratch.path())),
        ""
    );
}

#[test]
fn jffs2_and_ubi_are_made_anew_for_other_pages_and_blocks() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let tree = tree(scratch.path(), false);
    let mut expected = held(&archive(&tree), scratch.path());
    expected
        .iter_mut()
        .for_each(|(entry, _)| entry.mtime.nanos = 0);
    made(
        &tree,
        Format::jffs2(64 * 1024, Compression::CLASSIC),
        &at("jffs2"),
        1,
    );
    let shape = ImageFormat {
        page: 2048,
        oob: 64,
        pages_per_block: 64,
        layout: Layout::LinuxLargePage64,
        ecc: None,
    };
    let opening = Opening::default();
    let bytes = anew(&at("jffs2"), &opening, shape, &at("nand")).unwrap();
    assert_eq!(
        (bytes % shape.bytes(1), bytes),
        (0, fs::metadata(at("nand")).unwrap().len())
    );
    assert!(matches!(
        opened(&at("nand")).layers[0],
        Layer::Flash {
            page: 2048,
            oob: 64,
            block: 131_072,
            ..
        }
    ));
    assert_eq!(
        differences(&expected, &held(&extracted(&at("nand")), scratch.path())),
        ""
    );
    // A volume of JFFS2 and one of bytes.
    let Format::Jffs2 {
        mut choices,
        mut shape,
    } = Format::jffs2(62 * 2048, Compression::CLASSIC)
    else {
        panic!("JFFS2")
    };
    (choices.medium, shape.page, shape.pages_per_block) = (Some(Medium::Unmarked), 2048, 62);
    made(&tree, Format::Jffs2 { choices, shape }, &at("inner"), 1);
    fs::write(at("data"), common::bytes(5, 300_000)).unwrap();
    let config = "[a]\nmode=ubi\nimage=inner\nvol_id=0\nvol_size=8MiB\nvol_name=root\n[b]\nmode=ubi\nimage=data\nvol_id=4\nvol_type=static\nvol_name=data\n";
    fs::write(at("config"), config).unwrap();
    ubinize(
        &at("config"),
        Device {
            block: 131_072,
            page: 2048,
            sub_page: 2048,
            image_seq: 9,
        },
        &at("ubi"),
    )
    .unwrap();
    let larger = ImageFormat {
        page: 4096,
        oob: 0,
        pages_per_block: 64,
        layout: Layout::Raw,
        ecc: None,
    };
    anew(&at("ubi"), &opening, larger, &at("larger")).unwrap();
    let volume = opened(&at("larger"));
    let Some(Layer::Ubi {
        leb,
        image_seq: 9,
        volumes,
        ..
    }) = volume.layers.get(1)
    else {
        panic!("{:?}", volume.layers)
    };
    assert_eq!(
        (*leb, volumes.len(), volumes[1].bytes),
        (62 * 4096, 2, 300_000)
    );
    assert!(
        u64::from(volumes[0].lebs.0) * u64::from(*leb) >= 8 << 20,
        "{volumes:?}"
    );
    assert_eq!(
        differences(&expected, &held(&extracted(&at("larger")), scratch.path())),
        ""
    );
    let opening = Opening {
        volume: Some("data".into()),
        ..Opening::default()
    };
    let mut data = Vec::new();
    nandlab_image::raw::raw(&volume, &opening, &mut data).unwrap();
    assert!(data == common::bytes(5, 300_000));
}
