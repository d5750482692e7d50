//! The fastmap: what a scan would find out, in one place, and the few blocks that must be looked at
//! all the same.
//!
//! Written into internal volumes that older kernels delete. The super block is at the beginning of
//! the anchor block's data, everything else follows it without gaps, also from one block into the
//! next. Kinds of volumes are 3 and 4 here, as in the kernel's interface to programs; elsewhere on
//! flash they are 1 and 2.

use super::{FieldError, LAYOUT_VOLUME, VolumeKind, be16, be32, crc_of, put, rule, value};
use alloc::{vec, vec::Vec};

/// The volume of anchor blocks.
pub const FM_SB_VOLUME: u32 = LAYOUT_VOLUME + 1;
/// The volume of the other blocks of a fastmap.
pub const FM_DATA_VOLUME: u32 = LAYOUT_VOLUME + 2;
/// The anchor is one of the first so many blocks.
pub const FM_MAX_START: u32 = 64;
/// The most blocks of a fastmap.
pub const FM_MAX_BLOCKS: usize = 32;
/// The most blocks of a pool.
pub const FM_MAX_POOL: usize = 256;
/// Bytes of the super block.
pub const SUPER_BYTES: usize = 312;

const SUPER_MAGIC: u32 = 0x7B11_D69F;
const HEADER_MAGIC: u32 = 0xD4B8_2EF7;
const VOLUME_MAGIC: u32 = 0xFA37_0ED1;
const POOL_MAGIC: u32 = 0x67AF_4D08;
const EBA_MAGIC: u32 = 0xF0C0_40A8;
const HEADER: usize = 32;
const POOL: usize = 8 + 4 * FM_MAX_POOL + 16;
const VOLUME: usize = 32;
const UNMAPPED: u32 = u32::MAX;

/// Where a fastmap lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuperBlock {
    /// Its blocks, the anchor first, and their erase counters.
    pub blocks: Vec<(u32, u32)>,
    /// Checksum of all blocks' data with this field zero.
    pub data_crc: u32,
}

/// Blocks that may have been written since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The numbers of the physical erase blocks in the pool.
    pub pebs: Vec<u32>,
    /// How many it may hold.
    pub max: u16,
}

/// A volume and its map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FmVolume {
    /// The id of the volume.
    pub id: u32,
    /// The type of the volume.
    pub kind: VolumeKind,
    /// Bytes that its alignment leaves unused.
    pub data_pad: u32,
    /// Logical erase blocks with contents (of a dynamic volume: all).
    pub used_ebs: u32,
    /// Bytes in the last of them.
    pub last_bytes: u32,
    /// The physical block of each logical one.
    pub map: Vec<Option<u32>>,
}

/// A fastmap's contents. The lists are pairs of block and erase counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fastmap {
    /// Blocks that get the next logical ones.
    pub pool: Pool,
    /// Blocks that get the next copies.
    pub wl_pool: Pool,
    /// Free blocks, without the pools'.
    pub free: Vec<(u32, u32)>,
    /// Mapped blocks, each with its erase counter.
    pub used: Vec<(u32, u32)>,
    /// Mapped blocks that are to be moved.
    pub scrub: Vec<(u32, u32)>,
    /// Blocks that are to be erased.
    pub erase: Vec<(u32, u32)>,
    /// The number of bad blocks.
    pub bad: u32,
    /// The volumes, the layout volume among them.
    pub volumes: Vec<FmVolume>,
}

/// Space for the fastmap of a device of that many blocks, a whole number of logical ones
/// (`ubi_calc_fm_size`, drivers/mtd/ubi/fastmap.c; kernels that count differently differ by less
/// than two kilobytes, and fall back to a scan where that makes another number of blocks).
pub fn fastmap_bytes(pebs: u32, leb_bytes: u32) -> u64 {
    let fixed = (SUPER_BYTES + HEADER + 2 * POOL + 8 + 128 * VOLUME) as u64;
    (fixed + u64::from(pebs) * 12).next_multiple_of(u64::from(leb_bytes))
}

impl SuperBlock {
    /// From the beginning of an anchor's data.
    pub fn parse(bytes: &[u8]) -> Result<Self, FieldError> {
        rule(
            bytes.len() >= SUPER_BYTES,
            0,
            "super block",
            bytes.len() as u64,
            "312 bytes or more",
        )?;
        value(0, "fastmap magic", be32(bytes, 0), SUPER_MAGIC)?;
        value(4, "fastmap version", bytes[4], 1u8)?;
        let used = be32(bytes, 12);
        rule(
            (1..=FM_MAX_BLOCKS as u32).contains(&used),
            12,
            "fastmap blocks",
            used,
            "1 to 32",
        )?;
        let blocks = (0..used as usize)
            .map(|i| (be32(bytes, 16 + 4 * i), be32(bytes, 144 + 4 * i)))
            .collect();
        Ok(Self {
            blocks,
            data_crc: be32(bytes, 8),
        })
    }

    fn encode(&self, bytes: &mut [u8]) {
        put(bytes, 0, &SUPER_MAGIC.to_be_bytes());
        bytes[4] = 1;
        put(bytes, 12, &(self.blocks.len() as u32).to_be_bytes());
        for (i, (peb, ec)) in self.blocks.iter().enumerate() {
            put(bytes, 16 + 4 * i, &peb.to_be_bytes());
            put(bytes, 144 + 4 * i, &ec.to_be_bytes());
        }
    }
}

/// Reads one structure after the other.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize, what: &'static str) -> Result<(u32, &'a [u8]), FieldError> {
        let at = self.at as u32;
        let rest = self.bytes.len() - self.at;
        rule(
            length <= rest,
            at,
            what,
            length as u64,
            "no more bytes than the fastmap has left",
        )?;
        self.at += length;
        Ok((at, &self.bytes[self.at - length..self.at]))
    }

    fn pool(&mut self) -> Result<Pool, FieldError> {
        let (at, bytes) = self.take(POOL, "pool")?;
        value(at, "pool magic", be32(bytes, 0), POOL_MAGIC)?;
        let size = be16(bytes, 4);
        let max = be16(bytes, 6);
        rule(
            usize::from(size) <= FM_MAX_POOL,
            at + 4,
            "pool size",
            size,
            "no more than 256",
        )?;
        rule(
            usize::from(max) <= FM_MAX_POOL,
            at + 6,
            "largest pool size",
            max,
            "no more than 256",
        )?;
        Ok(Pool {
            pebs: (0..usize::from(size))
                .map(|i| be32(bytes, 8 + 4 * i))
                .collect(),
            max,
        })
    }

    fn list(&mut self, count: u32) -> Result<Vec<(u32, u32)>, FieldError> {
        let (_, bytes) = self.take((count as usize).saturating_mul(8), "list of blocks")?;
        Ok(bytes
            .chunks_exact(8)
            .map(|pair| (be32(pair, 0), be32(pair, 4)))
            .collect())
    }

    fn volume(&mut self) -> Result<FmVolume, FieldError> {
        let (at, bytes) = self.take(VOLUME, "volume")?;
        value(at, "volume magic", be32(bytes, 0), VOLUME_MAGIC)?;
        let kind = kind(at, bytes[8])?;
        let (eba_at, eba) = self.take(8, "map")?;
        value(eba_at, "map magic", be32(eba, 0), EBA_MAGIC)?;
        let (_, map) = self.take((be32(eba, 4) as usize).saturating_mul(4), "map")?;
        Ok(FmVolume {
            id: be32(bytes, 4),
            kind,
            data_pad: be32(bytes, 12),
            used_ebs: be32(bytes, 16),
            last_bytes: be32(bytes, 20),
            map: map.chunks_exact(4).map(mapped).collect(),
        })
    }
}

/// The block of an entry. Linux's "unmapped" is -1; it takes any negative number for it.
fn mapped(entry: &[u8]) -> Option<u32> {
    Some(be32(entry, 0)).filter(|peb| *peb <= i32::MAX as u32)
}

fn kind(at: u32, found: u8) -> Result<VolumeKind, FieldError> {
    match found {
        3 => Ok(VolumeKind::Dynamic),
        4 => Ok(VolumeKind::Static),
        other => Err(rule(false, at + 8, "volume type", other, "3 or 4").unwrap_err()),
    }
}

impl Fastmap {
    /// From the data of all blocks, one after the other.
    pub fn parse(bytes: &[u8]) -> Result<(SuperBlock, Self), FieldError> {
        let superblock = SuperBlock::parse(bytes)?;
        value(
            8,
            "fastmap checksum",
            superblock.data_crc,
            crc_of(&[&bytes[..8], &[0; 4], &bytes[12..]]),
        )?;
        let mut cursor = Cursor {
            bytes,
            at: SUPER_BYTES,
        };
        let (at, header) = cursor.take(HEADER, "fastmap header")?;
        value(at, "header magic", be32(header, 0), HEADER_MAGIC)?;
        let count = |i: usize| be32(header, 4 * i);
        let map = Self {
            pool: cursor.pool()?,
            wl_pool: cursor.pool()?,
            free: cursor.list(count(1))?,
            used: cursor.list(count(2))?,
            scrub: cursor.list(count(3))?,
            erase: cursor.list(count(5))?,
            bad: count(4),
            volumes: (0..count(6))
                .map(|_| cursor.volume())
                .collect::<Result<_, _>>()?,
        };
        Ok((superblock, map))
    }

    /// As on flash, `bytes` long; none if that is too little.
    pub fn encode(&self, blocks: &[(u32, u32)], length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; SUPER_BYTES];
        SuperBlock {
            blocks: blocks.into(),
            data_crc: 0,
        }
        .encode(&mut bytes);
        let lists = [&self.free, &self.used, &self.scrub, &self.erase];
        let [free, used, scrub, erase] = lists.map(|list| list.len() as u32);
        for field in [
            HEADER_MAGIC,
            free,
            used,
            scrub,
            self.bad,
            erase,
            self.volumes.len() as u32,
            0,
        ] {
            bytes.extend(field.to_be_bytes());
        }
        for pool in [&self.pool, &self.wl_pool] {
            let end = bytes.len() + POOL;
            bytes.extend(POOL_MAGIC.to_be_bytes());
            bytes.extend((pool.pebs.len() as u16).to_be_bytes());
            bytes.extend(pool.max.to_be_bytes());
            pool.pebs
                .iter()
                .take(FM_MAX_POOL)
                .for_each(|peb| bytes.extend(peb.to_be_bytes()));
            bytes.resize(end, 0);
        }
        for (peb, ec) in lists.into_iter().flatten() {
            bytes.extend(peb.to_be_bytes());
            bytes.extend(ec.to_be_bytes());
        }
        self.volumes
            .iter()
            .for_each(|volume| volume.encode(&mut bytes));
        if bytes.len() > length {
            return None;
        }
        bytes.resize(length, 0);
        let sum = crc_of(&[&bytes]);
        put(&mut bytes, 8, &sum.to_be_bytes());
        Some(bytes)
    }
}

impl FmVolume {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let kind = match self.kind {
            VolumeKind::Dynamic => 3,
            VolumeKind::Static => 4,
        };
        for field in [
            VOLUME_MAGIC,
            self.id,
            kind << 24,
            self.data_pad,
            self.used_ebs,
            self.last_bytes,
            0,
            0,
            EBA_MAGIC,
        ] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend((self.map.len() as u32).to_be_bytes());
        self.map
            .iter()
            .for_each(|peb| bytes.extend(peb.unwrap_or(UNMAPPED).to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Fastmap {
        let volume = FmVolume {
            id: 2,
            used_ebs: 3,
            last_bytes: 100,
            map: vec![Some(9), None, Some(11)],
            ..FmVolume::default()
        };
        Fastmap {
            pool: Pool {
                pebs: vec![1, 2, 3],
                max: 8,
            },
            wl_pool: Pool {
                pebs: vec![4],
                max: 4,
            },
            free: vec![(5, 50), (6, 60)],
            used: vec![(9, 90), (11, 110)],
            scrub: vec![],
            erase: vec![(12, 1)],
            bad: 2,
            volumes: vec![
                volume.clone(),
                FmVolume {
                    id: LAYOUT_VOLUME,
                    kind: VolumeKind::Static,
                    ..volume
                },
            ],
        }
    }

    #[test]
    fn a_fastmap_comes_back_and_damage_is_reported() {
        let blocks = [(7, 70), (8, 80)];
        let mut bytes = example().encode(&blocks, 8192).unwrap();
        let (superblock, map) = Fastmap::parse(&bytes).unwrap();
        assert_eq!(
            (superblock.blocks.as_slice(), map),
            (&blocks[..], example())
        );
        assert_eq!(
            bytes[SUPER_BYTES + HEADER + 2 * POOL + 5 * 8 + 8],
            3,
            "kinds as the kernel's programs know them"
        );
        bytes[5000] ^= 4;
        assert_eq!(
            Fastmap::parse(&bytes).unwrap_err().field,
            "fastmap checksum"
        );
        assert_eq!(example().encode(&blocks, 2048), None);
    }

    #[test]
    fn counts_from_flash_take_no_memory_that_is_not_there() {
        let mut bytes = example().encode(&[(7, 70)], 8192).unwrap();
        for field in 1..7 {
            let mut hostile = bytes.clone();
            put(
                &mut hostile,
                SUPER_BYTES + 4 * field,
                &u32::MAX.to_be_bytes(),
            );
            put(&mut hostile, 8, &[0; 4]);
            let sum = crc_of(&[&hostile]);
            put(&mut hostile, 8, &sum.to_be_bytes());
            assert_eq!(
                Fastmap::parse(&hostile).is_ok(),
                field == 4,
                "only the number of bad blocks is no length"
            );
        }
        bytes.truncate(100);
        assert_eq!(SuperBlock::parse(&bytes).unwrap_err().found, 100);
    }

    #[test]
    fn its_length_is_linuxs() {
        assert_eq!(fastmap_bytes(1024, 126_976), 126_976);
        assert_eq!(fastmap_bytes(8192, 15_360), 15_360 * 7);
    }

    /// The field that the parser refuses with another word and the right checksum.
    fn refused(at: usize, value: u32) -> Option<&'static str> {
        let mut bytes = example().encode(&[(7, 70)], 8192).unwrap();
        put(&mut bytes, at, &value.to_be_bytes());
        put(&mut bytes, 8, &[0; 4]);
        let sum = crc_of(&[&bytes]);
        put(&mut bytes, 8, &sum.to_be_bytes());
        Fastmap::parse(&bytes).err().map(|error| error.field)
    }

    #[test]
    fn each_rule_of_a_fastmap_holds_from_its_bound_on() {
        let pool = SUPER_BYTES + HEADER;
        let volume = pool + 2 * POOL + 5 * 8;
        #[rustfmt::skip]
        let rules = [
            (0, SUPER_MAGIC, SUPER_MAGIC + 1, "fastmap magic"),
            (4, 1 << 24, 2 << 24, "fastmap version"),
            (12, 1, 0, "fastmap blocks"),
            (12, 32, 33, "fastmap blocks"),
            (SUPER_BYTES, HEADER_MAGIC, 0, "header magic"),
            (pool, POOL_MAGIC, 0, "pool magic"),
            (pool + 4, 256 << 16, 257 << 16, "pool size"),
            (pool + 4, 256, 257, "largest pool size"),
            (pool + POOL, POOL_MAGIC, 0, "pool magic"),
            (volume, VOLUME_MAGIC, 0, "volume magic"),
            (volume + 8, 3 << 24, 2 << 24, "volume type"),
            (volume + 8, 4 << 24, 5 << 24, "volume type"),
            (volume + 32, EBA_MAGIC, 0, "map magic"),
            (volume + 36, 3, 4, "volume magic"),
        ];
        for (at, within, beyond, field) in rules {
            assert_eq!(refused(at, within), None, "byte {at}");
            assert_eq!(refused(at, beyond), Some(field), "byte {at}");
        }
        let entry = |word: u32| mapped(&word.to_be_bytes());
        assert_eq!(
            (entry(0x7FFF_FFFF), entry(0x8000_0000)),
            (Some(0x7FFF_FFFF), None)
        );
        // The super block alone has 312 bytes, with 32 blocks and their counters.
        let mut head = vec![0; SUPER_BYTES];
        let blocks: Vec<(u32, u32)> = (0..32).map(|i| (i, 100 + i)).collect();
        let all = SuperBlock {
            blocks,
            data_crc: 0,
        };
        all.encode(&mut head);
        assert_eq!(SuperBlock::parse(&head), Ok(all));
        assert!(SuperBlock::parse(&head[..SUPER_BYTES - 1]).is_err());
    }

    #[test]
    fn a_fastmap_takes_another_block_with_its_first_byte_too_many() {
        // 312 + 32 + 2 * 1048 + 8 + 128 * 32 bytes, and 12 for each block.
        let fixed = 6544;
        assert_eq!(
            fastmap_bytes(1000, fixed + 12_000),
            u64::from(fixed) + 12_000
        );
        assert_eq!(
            fastmap_bytes(1001, fixed + 12_000),
            2 * (u64::from(fixed) + 12_000)
        );
    }
}
