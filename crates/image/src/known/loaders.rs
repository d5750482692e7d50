//! Headers of the first boot loaders that boot ROMs read.

use super::{Format, Known, Sign, View, printable};
use memchr::memmem;

pub(super) const FORMATS: &[Format] = &[
    Format {
        signs: &[Sign::new(4, b"eGON.BT0"), Sign::new(4, b"eGON.BT1")],
        look: allwinner,
    },
    Format {
        signs: &[Sign::new(0, &[0x3B, 0x8C, 0xDC, 0xFC])],
        look: rockchip,
    },
    Format {
        signs: &[Sign::new(0, b"RKNS")],
        look: rockchip_new,
    },
    Format {
        signs: &[
            Sign::new(0, &[0xD1, 0x00, 0x20, 0x40]),
            Sign::new(0, &[0xD1, 0x00, 0x20, 0x41]),
            Sign::new(0, &[0xD1, 0x00, 0x20, 0x43]),
        ],
        look: freescale,
    },
    Format {
        signs: &[Sign::new(20, b"CHSETTINGS\0")],
        look: texas,
    },
];

/// Bytes in which a version is looked for.
const VERSION_IN: u64 = 1 << 20;
/// Boot ROMs load into memory on the chip, or a little beyond.
const LOADER_MAX: u64 = 16 << 20;

/// The version that a loader carries, to be appended to what it says.
fn version(view: &mut View<'_>, len: u64) -> String {
    let mut bytes = vec![0; len.min(VERSION_IN).min(view.len()) as usize];
    if view.read(0, &mut bytes).is_none() {
        return String::new();
    }
    let at = [&b"U-Boot SPL 20"[..], b"U-Boot 20", b"U-Boot TPL 20"]
        .into_iter()
        .find_map(|text| memmem::find(&bytes, text));
    let Some(at) = at else {
        return String::new();
    };
    let text = bytes[at..].iter().take(100);
    let text = text.take_while(|byte| matches!(byte, b' '..=b'~')).copied();
    format!(", {}", printable(&text.collect::<Vec<u8>>()))
}

/// Allwinner's loaders: the sum of all words, with a stamp in the place of the sum.
fn allwinner(view: &mut View<'_>) -> Option<Known> {
    const STAMP: u32 = 0x5F0A_6C39;
    let expected = view.le32(12)?;
    let len = u64::from(view.le32(16)?);
    if !(32..=LOADER_MAX).contains(&len) || !len.is_multiple_of(4) {
        return None;
    }
    let mut sum = STAMP.wrapping_sub(expected);
    let whole = view.each(0, len, |part| {
        let words = part.chunks_exact(4);
        sum = words.fold(sum, |sum, word| {
            sum.wrapping_add(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        });
    });
    let name = view.shown(4, 8)?;
    let version = version(view, len);
    Some(Known {
        name: "Allwinner boot loader",
        len: Some(len),
        says: format!("{name}{version}"),
        proven: whole.is_some() && sum == expected,
    })
}

/// The key with which Rockchip's boot ROMs hide their header.
const RC4_KEY: [u8; 16] = [124, 78, 3, 4, 85, 5, 9, 7, 45, 44, 123, 56, 23, 13, 23, 17];

/// RC4, once forward and back alike.
fn rc4(bytes: &mut [u8]) {
    let mut state: [u8; 256] = std::array::from_fn(|index| index as u8);
    let mut other = 0u8;
    for index in 0..256 {
        other = other
            .wrapping_add(state[index])
            .wrapping_add(RC4_KEY[index % 16]);
        state.swap(index, other.into());
    }
    let mut one = 0u8;
    let mut other = 0u8;
    for byte in bytes {
        one = one.wrapping_add(1);
        other = other.wrapping_add(state[usize::from(one)]);
        state.swap(one.into(), other.into());
        let index = state[usize::from(one)].wrapping_add(state[usize::from(other)]);
        *byte ^= state[usize::from(index)];
    }
}

fn rockchip(view: &mut View<'_>) -> Option<Known> {
    let mut head: [u8; 512] = view.get(0)?;
    rc4(&mut head);
    let field = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let offset = field(12);
    let size = field(506);
    let boot = field(508);
    let is_plausible = head.starts_with(&[0x55, 0xAA, 0xF0, 0x0F])
        && head[4..8] == [0; 4]
        && offset > 0
        && size > 0
        && boot >= size;
    let len = (offset + size) * 512;
    let version = if is_plausible {
        version(view, len)
    } else {
        String::new()
    };
    is_plausible.then(|| Known {
        name: "Rockchip boot loader",
        len: Some(len),
        says: format!("header at byte 0, loader at byte {}{version}", offset * 512),
        proven: false,
    })
}

/// Since RK3568: a list of up to four images, with hashes.
fn rockchip_new(view: &mut View<'_>) -> Option<Known> {
    let head: [u8; 2048] = view.get(0)?;
    let count = u16::from_le_bytes([head[10], head[11]]);
    let is_plausible =
        head[4..8] == [0; 4] && (1..=4).contains(&count) && head[16..120] == [0; 104];
    if !is_plausible {
        return None;
    }
    let ends = (0..u64::from(count)).map(|number| {
        let at = 120 + 88 * number;
        let first = view.le16(at)?;
        let blocks = view.le16(at + 2)?;
        Some((u64::from(first) + u64::from(blocks)) * 512)
    });
    let len = ends.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    let version = version(view, len);
    Some(Known {
        name: "Rockchip boot loader",
        len: Some(len),
        says: format!("RKNS, parts: {count}{version}"),
        proven: false,
    })
}

/// The image vector table of i.MX: pointers that must agree with one another.
fn freescale(view: &mut View<'_>) -> Option<Known> {
    let this = u64::from(view.le32(20)?);
    let data = u64::from(view.le32(16)?);
    let reserved = view.le32(8)? | view.le32(28)?;
    let place = data
        .checked_sub(this)
        .filter(|place| (32..4096).contains(place))?;
    let start = u64::from(view.le32(place)?);
    let len = u64::from(view.le32(place + 4)?);
    let before = this.checked_sub(start)?;
    let plugin = view.le32(place + 8)?;
    let is_plausible = reserved == 0 && plugin <= 1 && (before + 32..=1 << 30).contains(&len);
    let len = len.checked_sub(before)?;
    let version = if is_plausible {
        version(view, len)
    } else {
        String::new()
    };
    is_plausible.then(|| Known {
        name: "i.MX boot image",
        len: Some(len),
        says: format!(
            "image vector table, to be loaded at {this:#x}, {before} bytes behind the beginning \
             of its medium{version}"
        ),
        proven: false,
    })
}

/// The configuration header of OMAP and AM33xx, with the header of a loader behind it.
fn texas(view: &mut View<'_>) -> Option<Known> {
    let head: [u8; 76] = view.get(0)?;
    let toc = [0x40, 0, 0, 0, 0x0C, 0, 0, 0];
    let is_plausible = head[..8] == toc && head[32..64] == [0xFF; 32];
    let is_section = head[64..68] == [0xC1, 0xC0, 0xC0, 0xC0];
    let size = u64::from(view.le32(512)?);
    let load = view.le32(516)?;
    let fits = is_plausible && is_section && (8..=LOADER_MAX).contains(&size);
    let version = if fits {
        version(view, 512 + size)
    } else {
        String::new()
    };
    fits.then(|| Known {
        name: "TI boot loader",
        len: Some(512 + size),
        says: format!("CHSETTINGS, to be loaded at {load:#x}{version}"),
        proven: false,
    })
}
