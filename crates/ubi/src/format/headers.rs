//! The two headers of a physical erase block: how often it was erased, and which logical block it
//! holds.

use super::{
    FieldError, LAYOUT_VOLUME, Parsed, VOLUMES_MAX, VolumeKind, be32, be64, crc, put, rule, value,
};

/// Bytes of either header.
pub const HEADER_BYTES: usize = 64;
/// The largest erase counter.
pub const EC_MAX: u32 = 0x7FFF_FFFF;

const EC_MAGIC: u32 = 0x5542_4923;
const VID_MAGIC: u32 = 0x5542_4921;
const VERSION: u8 = 1;
const CRC_AT: usize = HEADER_BYTES - 4;

/// The erase-counter header, at the beginning of every physical erase block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcHeader {
    /// The erase counter of the block.
    pub ec: u32,
    /// Offset of the volume header, in bytes.
    pub vid_offset: u32,
    /// Offset of the data, in bytes.
    pub data_offset: u32,
    /// The image that the block was flashed with; 0 is any.
    pub image_seq: u32,
}

/// What an implementation that does not know an internal volume is to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Erase the blocks of the volume.
    Delete,
    /// Write nothing at all.
    ReadOnly,
    /// Leave its blocks alone.
    Preserve,
    /// Refuse to attach the device.
    Reject,
}

impl Compat {
    /// The byte on flash.
    pub fn code(self) -> u8 {
        match self {
            Self::Delete => 1,
            Self::ReadOnly => 2,
            Self::Preserve => 4,
            Self::Reject => 5,
        }
    }

    /// Of a byte on flash.
    pub fn of(code: u8) -> Option<Self> {
        [Self::Delete, Self::ReadOnly, Self::Preserve, Self::Reject]
            .into_iter()
            .find(|compat| compat.code() == code)
    }
}

/// The volume header: which logical erase block a physical one holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VidHeader {
    /// The type of the volume.
    pub kind: VolumeKind,
    /// Written whole with `data_size` and `data_crc`, so that an unfinished one is recognized.
    pub copy: bool,
    /// See [`Compat`]; 0 in volumes of the user.
    pub compat: u8,
    /// The id of the volume.
    pub volume: u32,
    /// The logical erase block.
    pub lnum: u32,
    /// Bytes that `data_crc` covers.
    pub data_size: u32,
    /// Logical erase blocks that a static volume's contents take.
    pub used_ebs: u32,
    /// Bytes at the end that the volume's alignment leaves unused.
    pub data_pad: u32,
    /// Checksum of the data of static volumes and copies.
    pub data_crc: u32,
    /// Grows with every header written: the larger is the newer.
    pub sqnum: u64,
}

/// Magic number and checksum of a header.
fn sound(bytes: &[u8], magic: u32) -> Result<(), FieldError> {
    value(0, "magic", be32(bytes, 0), magic)?;
    value(
        CRC_AT as u32,
        "header checksum",
        be32(bytes, CRC_AT),
        crc(&bytes[..CRC_AT]),
    )
}

fn parse<T>(bytes: &[u8], magic: u32, judge: impl FnOnce() -> Result<T, FieldError>) -> Parsed<T> {
    if bytes.len() < HEADER_BYTES || bytes[..HEADER_BYTES].iter().all(|&byte| byte == 0xFF) {
        return Parsed::Empty;
    }
    match sound(bytes, magic) {
        Err(error) => Parsed::Damaged(error),
        Ok(()) => judge().map_or_else(Parsed::Refused, Parsed::Good),
    }
}

fn sealed(magic: u32, fill: impl FnOnce(&mut [u8])) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    put(&mut bytes, 0, &magic.to_be_bytes());
    bytes[4] = VERSION;
    fill(&mut bytes);
    let sum = crc(&bytes[..CRC_AT]);
    put(&mut bytes, CRC_AT, &sum.to_be_bytes());
    bytes
}

impl EcHeader {
    /// Returns the bytes of the header on flash.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        sealed(EC_MAGIC, |bytes| {
            put(bytes, 8, &u64::from(self.ec).to_be_bytes());
            put(bytes, 16, &self.vid_offset.to_be_bytes());
            put(bytes, 20, &self.data_offset.to_be_bytes());
            put(bytes, 24, &self.image_seq.to_be_bytes());
        })
    }

    /// From flash; the offsets are the caller's to compare.
    pub fn parse(bytes: &[u8]) -> Parsed<Self> {
        parse(bytes, EC_MAGIC, || {
            value(4, "version", bytes[4], VERSION)?;
            let ec = be64(bytes, 8);
            rule(
                ec <= u64::from(EC_MAX),
                8,
                "erase counter",
                ec,
                "below 2^31",
            )?;
            Ok(Self {
                ec: ec as u32,
                vid_offset: be32(bytes, 16),
                data_offset: be32(bytes, 20),
                image_seq: be32(bytes, 24),
            })
        })
    }
}

impl VidHeader {
    /// Returns the bytes of the header on flash.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        sealed(VID_MAGIC, |bytes| {
            bytes[5] = self.kind.code();
            bytes[6] = u8::from(self.copy);
            bytes[7] = self.compat;
            for (at, field) in [
                (8, self.volume),
                (12, self.lnum),
                (20, self.data_size),
                (24, self.used_ebs),
                (28, self.data_pad),
                (32, self.data_crc),
            ] {
                put(bytes, at, &field.to_be_bytes());
            }
            put(bytes, 40, &self.sqnum.to_be_bytes());
        })
    }

    /// From flash, on a device whose logical erase blocks have `leb_bytes`.
    pub fn parse(bytes: &[u8], leb_bytes: u32) -> Parsed<Self> {
        parse(bytes, VID_MAGIC, || {
            value(4, "version", bytes[4], VERSION)?;
            let Some(kind) = VolumeKind::of(bytes[5]) else {
                return Err(rule(false, 5, "volume type", bytes[5], "1 or 2").unwrap_err());
            };
            rule(bytes[6] <= 1, 6, "copy flag", bytes[6], "0 or 1")?;
            let header = Self {
                kind,
                copy: bytes[6] == 1,
                compat: bytes[7],
                volume: be32(bytes, 8),
                lnum: be32(bytes, 12),
                data_size: be32(bytes, 20),
                used_ebs: be32(bytes, 24),
                data_pad: be32(bytes, 28),
                data_crc: be32(bytes, 32),
                sqnum: be64(bytes, 40),
            };
            header.judge(leb_bytes)?;
            Ok(header)
        })
    }

    /// Whether it belongs to a volume of UBI's own.
    pub fn is_internal(&self) -> bool {
        self.volume >= LAYOUT_VOLUME
    }

    /// What no writer writes (`validate_vid_hdr`, drivers/mtd/ubi/io.c).
    pub(crate) fn judge(&self, leb_bytes: u32) -> Result<(), FieldError> {
        let signed =
            |at, name, field: u32| rule(field <= i32::MAX as u32, at, name, field, "below 2^31");
        signed(8, "volume id", self.volume)?;
        signed(12, "logical block", self.lnum)?;
        signed(24, "used blocks", self.used_ebs)?;
        rule(
            self.volume < VOLUMES_MAX || self.is_internal(),
            8,
            "volume id",
            self.volume,
            "below 128, or an internal one",
        )?;
        if self.is_internal() {
            rule(
                Compat::of(self.compat).is_some(),
                7,
                "compatibility",
                self.compat,
                "1, 2, 4 or 5",
            )?;
        } else {
            value(7, "compatibility", self.compat, 0u8)?;
        }
        rule(
            self.data_pad < leb_bytes / 2,
            28,
            "padding",
            self.data_pad,
            "below half a logical block",
        )?;
        rule(
            self.data_size <= leb_bytes,
            20,
            "data size",
            self.data_size,
            "no more than a logical block",
        )?;
        match self.kind {
            VolumeKind::Static => self.judge_static(leb_bytes - self.data_pad),
            VolumeKind::Dynamic if self.copy => rule(
                self.data_size > 0,
                20,
                "data size of a copy",
                self.data_size,
                "above 0",
            ),
            VolumeKind::Dynamic => {
                value(32, "data checksum of a dynamic volume", self.data_crc, 0u32)?;
                value(20, "data size of a dynamic volume", self.data_size, 0u32)
            }
        }?;
        let dynamic = self.kind == VolumeKind::Dynamic;
        rule(
            !dynamic || self.used_ebs == 0,
            24,
            "used blocks of a dynamic volume",
            self.used_ebs,
            "0",
        )
    }

    fn judge_static(&self, usable: u32) -> Result<(), FieldError> {
        rule(
            self.used_ebs > 0,
            24,
            "used blocks of a static volume",
            self.used_ebs,
            "above 0",
        )?;
        rule(
            self.data_size > 0,
            20,
            "data size of a static volume",
            self.data_size,
            "above 0",
        )?;
        rule(
            self.lnum < self.used_ebs,
            12,
            "logical block",
            self.lnum,
            "below the used blocks",
        )?;
        let whole = self.lnum + 1 == self.used_ebs || self.data_size == usable;
        rule(
            whole,
            20,
            "data size",
            self.data_size,
            "a whole logical block before the last",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Expected;

    const LEB: u32 = 126_976;

    #[test]
    fn headers_come_back() {
        let ec = EcHeader {
            ec: 7,
            vid_offset: 512,
            data_offset: 2048,
            image_seq: 0xDEAD_BEEF,
        };
        assert_eq!(EcHeader::parse(&ec.encode()), Parsed::Good(ec));
        assert_eq!(&ec.encode()[..5], b"UBI#\x01");
        let vid = VidHeader {
            kind: VolumeKind::Static,
            copy: true,
            volume: 3,
            lnum: 4,
            data_size: 100,
            used_ebs: 5,
            data_pad: 8,
            data_crc: 9,
            sqnum: 1 << 40,
            compat: 0,
        };
        assert_eq!(VidHeader::parse(&vid.encode(), LEB), Parsed::Good(vid));
        assert_eq!(&vid.encode()[..5], b"UBI!\x01");
    }

    #[test]
    fn damage_and_refusal_name_offset_found_and_expected() {
        assert_eq!(EcHeader::parse(&[0xFF; 64]), Parsed::Empty);
        let mut bytes = EcHeader::default().encode();
        bytes[9] ^= 1;
        let Parsed::Damaged(error) = EcHeader::parse(&bytes) else {
            panic!("a flipped bit")
        };
        assert_eq!((error.offset, error.field), (60, "header checksum"));
        let Parsed::Damaged(error) = EcHeader::parse(&[0; 64]) else {
            panic!("zeros")
        };
        assert_eq!(
            (error.offset, error.found, error.expected),
            (0, 0, Expected::Value(0x5542_4923))
        );
        let bytes = VidHeader {
            lnum: 1,
            data_size: 1,
            ..VidHeader::default()
        }
        .encode();
        let Parsed::Refused(error) = VidHeader::parse(&bytes, LEB) else {
            panic!("a dynamic volume's data size")
        };
        assert_eq!(
            (error.offset, error.found, error.expected),
            (20, 1, Expected::Value(0))
        );
    }

    #[test]
    fn what_no_writer_writes_is_refused() {
        let fine = VidHeader {
            kind: VolumeKind::Static,
            used_ebs: 3,
            data_size: LEB,
            ..VidHeader::default()
        };
        let refused =
            |vid: VidHeader| matches!(VidHeader::parse(&vid.encode(), LEB), Parsed::Refused(_));
        assert!(!refused(fine));
        assert!(!refused(VidHeader {
            lnum: 2,
            data_size: 1,
            ..fine
        }));
        for bad in [
            VidHeader { lnum: 3, ..fine },
            VidHeader {
                data_size: 5,
                ..fine
            },
            VidHeader {
                data_size: LEB + 1,
                ..fine
            },
            VidHeader {
                used_ebs: 0,
                ..fine
            },
            VidHeader {
                volume: 128,
                ..fine
            },
            VidHeader { compat: 1, ..fine },
            VidHeader {
                volume: LAYOUT_VOLUME,
                compat: 3,
                ..fine
            },
            VidHeader {
                data_pad: LEB / 2,
                ..fine
            },
            VidHeader {
                volume: u32::MAX,
                compat: 1,
                ..fine
            },
            VidHeader {
                copy: true,
                ..VidHeader::default()
            },
            VidHeader {
                used_ebs: 1,
                ..VidHeader::default()
            },
        ] {
            assert!(refused(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_last_values_within_the_rules_are_accepted() {
        let whole = VidHeader {
            kind: VolumeKind::Static,
            used_ebs: 1,
            data_size: LEB,
            ..VidHeader::default()
        };
        let dynamic = VidHeader::default();
        let pad = LEB / 2 - 1;
        let most = i32::MAX as u32;
        let within = [
            VidHeader {
                data_size: 1,
                ..whole
            },
            VidHeader {
                data_pad: pad,
                ..whole
            },
            VidHeader {
                used_ebs: most,
                lnum: most - 1,
                ..whole
            },
            VidHeader {
                used_ebs: 9,
                data_pad: pad,
                data_size: LEB - pad,
                ..whole
            },
            VidHeader {
                volume: 127,
                ..whole
            },
            VidHeader {
                volume: LAYOUT_VOLUME,
                compat: 5,
                ..whole
            },
            VidHeader {
                lnum: most,
                ..dynamic
            },
            VidHeader {
                copy: true,
                data_size: 1,
                data_crc: 7,
                ..dynamic
            },
            VidHeader {
                copy: true,
                data_size: LEB,
                ..dynamic
            },
        ];
        for vid in within {
            assert_eq!(VidHeader::parse(&vid.encode(), LEB), Parsed::Good(vid));
        }
        let beyond = [
            VidHeader {
                data_size: 0,
                ..whole
            },
            VidHeader {
                used_ebs: most + 1,
                lnum: 0,
                ..whole
            },
            VidHeader {
                used_ebs: 9,
                data_pad: pad,
                data_size: LEB - pad - 1,
                ..whole
            },
            VidHeader {
                volume: LAYOUT_VOLUME - 1,
                compat: 5,
                ..whole
            },
            VidHeader {
                lnum: most + 1,
                ..dynamic
            },
            VidHeader {
                copy: true,
                data_size: LEB + 1,
                ..dynamic
            },
            VidHeader {
                data_crc: 1,
                ..dynamic
            },
        ];
        for vid in beyond {
            let parsed = VidHeader::parse(&vid.encode(), LEB);
            assert!(matches!(parsed, Parsed::Refused(_)), "{vid:?}");
        }
    }

    #[test]
    fn an_erase_counter_has_31_bits_and_bytes_of_a_header_have_their_values() {
        let with = |magic, at: usize, value: u8| {
            sealed(magic, |bytes| {
                bytes[5] = 1;
                bytes[at] = value;
            })
        };
        let counter = |top: u8| EcHeader::parse(&with(EC_MAGIC, 12, top));
        let ec = 0x7F00_0000;
        let good = EcHeader {
            ec,
            ..EcHeader::default()
        };
        assert_eq!(counter(0x7F), Parsed::Good(good));
        assert!(matches!(counter(0x80), Parsed::Refused(_)));
        let byte = |at, value| VidHeader::parse(&with(VID_MAGIC, at, value), LEB);
        assert!(matches!(byte(5, 1), Parsed::Good(_)));
        for (at, value) in [(4, 2), (5, 0), (5, 3), (6, 2)] {
            assert!(
                matches!(byte(at, value), Parsed::Refused(_)),
                "byte {at}: {value}"
            );
        }
    }
}
