//! The superblock, with the rules that Linux holds it to (`validate_sb`).

use super::{Draft, Fault, Kind, le16, le32, le64, node};
use crate::error::{Result, UbifsError};
use crate::format::KeyHash;
use alloc::vec::Vec;

/// Flags of a volume.
pub(crate) const BIG_LPT: u32 = 0x02;
const SPACE_FIXUP: u32 = 0x04;
pub(crate) const DOUBLE_HASH: u32 = 0x08;
const ENCRYPTION: u32 = 0x10;
const AUTHENTICATION: u32 = 0x20;
/// The least and the greatest length of a logical block.
const LEB_MIN: u32 = 15_360;
const LEB_MAX: u32 = 2 << 20;
/// The newest version of the format.
const VERSION: u32 = 5;
/// Journal heads: for collected nodes, for inodes and entries, for data.
pub(crate) const HEADS: u32 = 3;
/// Logical blocks of the main area at least, beside the journal's heads.
const MAIN_SPARE: u32 = 6;
/// The superblock and the two master blocks.
const FIXED: u64 = 3;
const LOG_FIRST: u32 = 3;
/// Bytes of the shortest and of the longest node of the journal.
const LEAST_NODE: u32 = 56;
const GREATEST_NODE: u32 = 4256;

/// Where the areas of a volume lie. Nothing in it leaves the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes that are written at once at least; 8 or more.
    pub min_io: u32,
    /// Bytes of a logical block.
    pub leb: u32,
    /// Logical blocks of the volume.
    pub lebs: u32,
    /// Logical blocks that it may grow to.
    pub lebs_max: u32,
    /// Those of the log, of the properties tree, and of orphans.
    pub log_lebs: u32,
    /// Those of the tree of properties.
    pub lpt_lebs: u32,
    /// Logical blocks of the orphan area.
    pub orphan_lebs: u32,
    /// Branches of an index node at most.
    pub fanout: u32,
}

impl Geometry {
    /// The first block of the log.
    pub fn log_first(&self) -> u32 {
        LOG_FIRST
    }

    /// The first block of the tree of properties.
    pub fn lpt_first(&self) -> u32 {
        LOG_FIRST + self.log_lebs
    }

    /// The first block for orphans.
    pub fn orphan_first(&self) -> u32 {
        self.lpt_first() + self.lpt_lebs
    }

    /// The first block of the main area, which reaches to the end.
    pub fn main_first(&self) -> u32 {
        self.orphan_first() + self.orphan_lebs
    }

    /// Blocks of the main area.
    pub fn main_lebs(&self) -> u32 {
        self.lebs - self.main_first()
    }

    /// Bytes of the main area.
    pub fn main_bytes(&self) -> u64 {
        u64::from(self.main_lebs()) * u64::from(self.leb)
    }

    /// Less space than this in a block holds no node.
    pub fn dead_bytes(&self) -> u32 {
        LEAST_NODE.next_multiple_of(self.min_io)
    }

    /// As much space in a block holds any node.
    pub fn dark_bytes(&self) -> u32 {
        GREATEST_NODE.next_multiple_of(self.min_io)
    }

    /// Bytes of a block with so much space that may stay unused, since a node may not fit.
    pub fn dark_of(&self, space: u32) -> u32 {
        let most = self.dark_bytes();
        match space {
            space if space < most => space,
            space if space - most < LEAST_NODE => space - LEAST_NODE,
            _ => most,
        }
    }

    /// Whether a node may lie there.
    pub fn is_main(&self, lnum: u32, offs: u32, len: u32) -> bool {
        let inside = u64::from(offs) + u64::from(len) <= self.leb.into();
        (self.main_first()..self.lebs).contains(&lnum) && inside && offs.is_multiple_of(8)
    }
}

/// A superblock as it lies on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Super {
    /// Where the areas of the volume lie.
    pub geometry: Geometry,
    /// How names become keys.
    pub key_hash: KeyHash,
    /// The flag bits, as on the medium.
    pub flags: u32,
    /// The version of the format.
    pub version: u32,
    /// The compressor of new files.
    pub compressor: u16,
    /// Bytes of the journal at most.
    pub bud_bytes: u64,
    /// Bytes that are kept for one user.
    pub reserved_bytes: u64,
    /// Blocks that are worth reading first, in the large form of the tree of properties.
    pub saved_lebs: u32,
    /// The number of the volume.
    pub uuid: [u8; 16],
}

fn refuse<T>(fault: Fault) -> Result<T> {
    Err(fault.at(0, 0))
}

impl Super {
    /// Bytes that it takes on the medium.
    pub const BYTES: usize = 4096;

    /// The length and the number of logical blocks, as the head of a volume says.
    pub fn declared(head: &[u8]) -> Option<(u32, u32)> {
        let head = head.get(..Self::BYTES)?;
        let (header, bytes) = node(head, LEB_MAX, 8).ok()?;
        let leb = le32(bytes, 36);
        let fits = header.kind == Kind::Super && (LEB_MIN..=LEB_MAX).contains(&leb);
        fits.then(|| (leb, le32(bytes, 40)))
    }

    /// Whether a volume begins with `head`.
    pub fn begins(head: &[u8]) -> bool {
        Self::declared(head).is_some()
    }

    /// Reads the superblock of a volume of `lebs` blocks of `leb` bytes.
    pub fn parse(head: &[u8], leb: u32, lebs: u32, page: Option<u32>) -> Result<Self> {
        let (header, bytes) = match node(head, leb, 8) {
            Ok(node) => node,
            Err(fault) => return refuse(fault),
        };
        if header.kind != Kind::Super {
            return refuse(Fault::value(
                "the type of the first node",
                header.kind as u8,
                6u8,
            ));
        }
        let parsed = Self {
            geometry: Geometry {
                min_io: le32(bytes, 32).max(8),
                leb: le32(bytes, 36),
                lebs: le32(bytes, 40),
                lebs_max: le32(bytes, 44),
                log_lebs: le32(bytes, 56),
                lpt_lebs: le32(bytes, 60),
                orphan_lebs: le32(bytes, 64),
                fanout: le32(bytes, 72),
            },
            key_hash: if bytes[26] == 1 {
                KeyHash::Test
            } else {
                KeyHash::R5
            },
            flags: le32(bytes, 28),
            version: le32(bytes, 80),
            compressor: le16(bytes, 84),
            bud_bytes: le64(bytes, 48),
            reserved_bytes: le64(bytes, 96),
            saved_lebs: le32(bytes, 76),
            uuid: bytes[108..124].try_into().expect("16 bytes"),
        };
        parsed.features(le32(bytes, 124))?;
        let rest = (bytes[26], bytes[27], le32(bytes, 68), le32(bytes, 104));
        parsed
            .fields(rest)
            .and_then(|()| parsed.areas(leb, lebs, page))
            .or_else(refuse)?;
        Ok(parsed)
    }

    /// The bytes of a node with the flags, the number of logical blocks and the length of the
    /// journal that it has by now.
    pub(crate) fn again(&self, bytes: &[u8]) -> Vec<u8> {
        let mut node = Draft::again(bytes);
        node.put32(28, self.flags);
        node.put32(40, self.geometry.lebs);
        node.put64(48, self.bud_bytes);
        node.summed()
    }

    /// Asks for a fix-up of the free space, or no longer.
    pub(crate) fn set_fixup(&mut self, needed: bool) {
        match needed {
            true => self.flags |= SPACE_FIXUP,
            false => self.flags &= !SPACE_FIXUP,
        }
    }

    /// The node with its header still to be completed.
    pub(crate) fn draft(&self) -> Draft {
        let here = &self.geometry;
        let mut node = Draft::new(Kind::Super, Self::BYTES as u32);
        node.put8(26, (self.key_hash == KeyHash::Test).into());
        node.put64(48, self.bud_bytes);
        node.put16(84, self.compressor);
        node.put64(96, self.reserved_bytes);
        let words = [
            (28, self.flags),
            (32, here.min_io),
            (36, here.leb),
            (40, here.lebs),
            (44, here.lebs_max),
            (56, here.log_lebs),
            (60, here.lpt_lebs),
            (64, here.orphan_lebs),
            (68, 1),
            (72, here.fanout),
            (76, self.saved_lebs),
            (80, self.version),
            (104, 1_000_000_000),
        ];
        words.iter().for_each(|(at, word)| node.put32(*at, *word));
        node.bytes(108, &self.uuid);
        // No checksums of whole areas.
        node.put16(256, u16::MAX);
        node
    }

    fn features(&self, ro_compat: u32) -> Result<()> {
        let feature = |what| Err(UbifsError::Feature { what });
        let known = BIG_LPT | SPACE_FIXUP | DOUBLE_HASH | ENCRYPTION | AUTHENTICATION;
        match self.flags {
            flags if flags & AUTHENTICATION != 0 => feature("authentication"),
            flags if flags & ENCRYPTION != 0 => feature("encryption"),
            flags if flags & !known != 0 => feature("a flag beyond 0x3e"),
            _ if self.version > VERSION && ro_compat > 0 => feature("a format after 5"),
            _ if self.version < 3 => feature("a format before 3"),
            _ => Ok(()),
        }
    }

    fn fields(&self, (hash, format, heads, time_gran): (u8, u8, u32, u32)) -> Result<(), Fault> {
        let double = self.version < 5 || self.flags & DOUBLE_HASH != 0;
        Fault::unless(
            double,
            "the flags of format 5",
            self.flags,
            "0x08 among them",
        )?;
        Fault::unless(hash < 2, "the hash of keys", hash, "0 or 1")?;
        Fault::unless(format == 0, "the format of keys", format, "0")?;
        Fault::unless(heads == 1, "the number of data heads", heads, "1")?;
        let compressor = self.compressor;
        Fault::unless(
            compressor < 4,
            "the default compressor",
            compressor,
            "0 to 3",
        )?;
        let fits = (1..=1_000_000_000).contains(&time_gran);
        Fault::unless(
            fits,
            "the granularity of times",
            time_gran,
            "1 to 1000000000 ns",
        )
    }

    fn areas(&self, leb: u32, lebs: u32, page: Option<u32>) -> Result<(), Fault> {
        let here = &self.geometry;
        if here.leb != leb {
            return Err(Fault::value("the length of logical blocks", here.leb, leb));
        }
        let fits = (LEB_MIN..=LEB_MAX).contains(&leb) && leb.is_multiple_of(8);
        Fault::unless(fits, "the length of logical blocks", leb, "15 KiB to 2 MiB")?;
        if let Some(page) = page.filter(|page| (*page).max(8) != here.min_io) {
            return Err(Fault::value("the least write", here.min_io, page));
        }
        let fits = here.min_io.is_power_of_two() && leb.is_multiple_of(here.min_io);
        Fault::unless(
            fits,
            "the least write",
            here.min_io,
            "a power of two in a block",
        )?;
        let fits = here.log_lebs >= 2 && here.lpt_lebs >= 2 && here.orphan_lebs >= 1;
        let least = here.log_lebs.min(here.lpt_lebs).min(here.orphan_lebs);
        Fault::unless(
            fits,
            "the blocks of an area",
            least,
            "2 (orphans: 1) or more",
        )?;
        let areas = [here.log_lebs, here.lpt_lebs, here.orphan_lebs];
        let before = FIXED + areas.into_iter().map(u64::from).sum::<u64>();
        // A volume grows at its first mount, and some of its areas are made for that.
        let least = before + u64::from(HEADS + MAIN_SPARE);
        let fits = u64::from(here.lebs) > before && u64::from(here.lebs_max) >= least;
        let expected = "room for each area";
        Fault::unless(fits, "the number of logical blocks", here.lebs, expected)?;
        let fits = here.lebs <= lebs && here.lebs <= here.lebs_max;
        let expected = "at most those of the volume, and at most the declared maximum";
        Fault::unless(fits, "the number of logical blocks", here.lebs, expected)?;
        let most = u64::from(here.fanout) * 20 + 28;
        let fits = here.fanout >= 3 && most <= leb.into();
        Fault::unless(
            fits,
            "the fanout",
            here.fanout,
            "3 or more, in a logical block",
        )?;
        let grown = Geometry {
            lebs: here.lebs_max,
            ..*here
        };
        let budget = grown.main_bytes();
        let fits = (3 * u64::from(leb)..=budget).contains(&self.bud_bytes);
        let expected = "3 logical blocks up to the main area";
        Fault::unless(fits, "the length of the journal", self.bud_bytes, expected)?;
        let fits = self.reserved_bytes <= budget;
        let expected = "at most the main area";
        Fault::unless(fits, "the reserved space", self.reserved_bytes, expected)
    }

    /// Whether every free byte must be erased anew before it is written.
    pub fn needs_fixup(&self) -> bool {
        self.flags & SPACE_FIXUP != 0
    }

    /// Whether entries carry a second hash.
    pub fn has_double_hash(&self) -> bool {
        self.flags & DOUBLE_HASH != 0
    }

    /// Whether the tree of properties has its large form.
    pub fn has_big_lpt(&self) -> bool {
        self.flags & BIG_LPT != 0
    }

    /// The name of the compressor of new files.
    pub fn compressor_name(&self) -> &'static str {
        match self.compressor {
            0 => "none",
            1 => "lzo",
            2 => "zlib",
            _ => "zstd",
        }
    }
}
