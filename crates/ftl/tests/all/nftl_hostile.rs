//! Media that no layer has written: whatever the bytes, an attach ends with a device or an error,
//! and the device goes on or says why not.

use nandlab_block::{BlockDevice, BlockError, Lba};
use nandlab_ftl::AttachError;
use nandlab_ftl::nftl::{Nftl, NftlOptions, Ordering};
use nandlab_mtd::{Image, ImageFormat, Layout};

const FORMAT: ImageFormat = ImageFormat {
    page: 512,
    oob: 16,
    pages_per_block: 4,
    layout: Layout::DiskOnChip,
    ecc: None,
};
const STRIDE: usize = 528;
const UNITS: usize = 20;

fn options(seed: u64) -> NftlOptions {
    NftlOptions {
        spare_units: 5,
        ordering: [Ordering::Guarded, Ordering::Linux][seed as usize % 2],
        trust_free: seed % 3 == 2,
        verify_free: seed % 5 < 3,
        ..NftlOptions::default()
    }
}

/// A device in use.
fn used() -> Vec<u8> {
    let medium = Image::new(vec![0xff; FORMAT.bytes(UNITS as u32) as usize], FORMAT).unwrap();
    let mut device = Nftl::format(medium, options(0)).unwrap();
    (0..200).for_each(|i| device.write(Lba(i * 5 % 44), &[i as u8; 512]).unwrap());
    device.into_medium().into_backing()
}

/// Attaches, reads everything, writes here and there; gives whether a device came of it.
fn try_out(bytes: Vec<u8>, seed: u64) -> bool {
    let medium = Image::new(bytes, FORMAT).unwrap();
    let mut device = match Nftl::attach(medium, options(seed)) {
        Ok(device) => device,
        Err(AttachError::NotFormatted | AttachError::Mismatch { .. } | AttachError::Write(_)) => {
            return false;
        }
        Err(other) => panic!("{other}"),
    };
    let sectors = device.geometry().sectors;
    assert!(sectors <= (UNITS * 4) as u64);
    let mut buf = [0; 512];
    for lba in 0..sectors {
        match device.read(Lba(lba), &mut buf) {
            Ok(()) | Err(BlockError::Lost { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    for i in 0..60 {
        let lba = nandlab_sim::mix(seed, i) % sectors;
        match device
            .write(Lba(lba), &[i as u8; 512])
            .and_then(|()| device.read(Lba(lba), &mut buf))
        {
            // Trusting, it writes to a free sector before one that is not, or programs what was not
            // free; otherwise at most its units run out.
            Ok(()) if options(seed).trust_free => {}
            Ok(()) => assert_eq!((buf[0], buf[511]), (i as u8, i as u8), "seed {seed}"),
            Err(BlockError::Internal(_)) if options(seed).trust_free => break,
            // A unit that is not blank after its erase is bad, and this medium cannot say so.
            Err(BlockError::WornOut(_) | BlockError::Backing(_)) => break,
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    true
}

#[test]
fn random_names_links_and_marks() {
    let good = used();
    let mut devices = 0;
    for seed in 0..3_000u64 {
        let mut bytes = good.clone();
        let random = |i| nandlab_sim::mix(seed, i);
        for i in 0..1 + random(0) % 40 {
            // Mostly the first sectors of units, and mostly small numbers, which mean something.
            let unit = 2 + random(3 * i + 1) as usize % (UNITS - 2);
            let word = random(3 * i + 2);
            let sector = [0, 0, 0, 1, 2, 3][word as usize % 6];
            let oob = &mut bytes[(unit * 4 + sector) * STRIDE + 518..][..10];
            let at = (word >> 8) as usize % 5 * 2;
            let value = match word >> 16 & 3 {
                0 => (word >> 32) as u16,
                1 => (word >> 32) as u16 % UNITS as u16,
                2 => ((word >> 32) as u16 % UNITS as u16) | 0x8000,
                _ => [0xffff, 0x5555, 0x1111, 0, 0x3c69, 0xfffe][(word >> 32) as usize % 6],
            };
            oob[at..at + 2].copy_from_slice(&value.to_le_bytes());
            if at > 0 && word >> 48 & 1 == 0 {
                let twin = (at + 2) % 8 + 2;
                oob[twin..twin + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
        devices += u32::from(try_out(bytes, seed));
    }
    assert!(devices > 2_900, "{devices}");
}

#[test]
fn random_bytes_behind_a_good_header() {
    let good = used();
    for seed in 0..300u64 {
        let mut bytes = good.clone();
        for (i, byte) in bytes[2 * 4 * STRIDE..].iter_mut().enumerate() {
            *byte = nandlab_sim::mix(seed, i as u64) as u8;
        }
        try_out(bytes, seed);
    }
}

#[test]
fn random_headers() {
    let good = used();
    let mut devices = 0;
    for seed in 0..3_000u64 {
        let mut bytes = good.clone();
        let word = nandlab_sim::mix(seed, 0);
        let offset = 6 + word as usize % 9;
        let value = (word >> 8) as u8;
        for copy in 0..2 {
            bytes[copy * 4 * STRIDE + offset] = if word >> 20 & 1 == 0 {
                value
            } else {
                value % UNITS as u8
            };
        }
        devices += u32::from(try_out(bytes, seed));
    }
    assert!((100..2_900).contains(&devices), "{devices}");
}

#[test]
fn every_unit_in_one_circle() {
    let mut bytes = used();
    for unit in 2..UNITS {
        let next = if unit + 1 == UNITS { 2 } else { unit + 1 } as u16;
        let name = if unit == 2 { 0u16 } else { 0x8000 };
        let oob = &mut bytes[unit * 4 * STRIDE + 518..][..10];
        oob[..2].fill(0x55);
        [2, 6]
            .iter()
            .for_each(|&at| oob[at..at + 2].copy_from_slice(&name.to_le_bytes()));
        [4, 8]
            .iter()
            .for_each(|&at| oob[at..at + 2].copy_from_slice(&next.to_le_bytes()));
    }
    for seed in 0..12 {
        assert!(try_out(bytes.clone(), seed));
    }
}
