//! The volume table: a record for each volume that may exist.

use super::{FieldError, VolumeKind, be16, be32, crc, put, rule, value};
use alloc::{string::String, vec, vec::Vec};

/// The most volumes of a device.
pub const VOLUMES_MAX: u32 = 128;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 172;
/// The longest name, in bytes.
pub const NAME_MAX: usize = 127;
/// The volume is to take all free blocks at the first attach.
pub const FLAG_AUTORESIZE: u8 = 1;
/// The contents of the static volume are not checked when it is opened.
pub const FLAG_SKIP_CHECK: u8 = 2;

const CRC_AT: usize = RECORD_BYTES - 4;

/// A volume as the table knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Physical erase blocks that are reserved for it.
    pub reserved: u32,
    /// Its logical erase blocks are a multiple of this long, in bytes.
    pub alignment: u32,
    /// Bytes that the alignment leaves unused.
    pub data_pad: u32,
    /// The type of the volume.
    pub kind: VolumeKind,
    /// An update was begun and not finished.
    pub updating: bool,
    /// The name of the volume.
    pub name: String,
    /// See [`FLAG_AUTORESIZE`] and [`FLAG_SKIP_CHECK`].
    pub flags: u8,
}

/// What a table is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Bytes of a logical erase block.
    pub leb_bytes: u32,
    /// The write unit, in bytes.
    pub write_unit: u32,
    /// Good erase blocks of the device.
    pub good: u32,
}

/// Records of a table in logical erase blocks of that length.
pub fn slots(leb_bytes: u32) -> u32 {
    (leb_bytes / RECORD_BYTES as u32).min(VOLUMES_MAX)
}

/// The table as on flash.
pub fn encode_table(records: &[Option<Record>]) -> Vec<u8> {
    let mut bytes = vec![0; records.len() * RECORD_BYTES];
    for (record, bytes) in records.iter().zip(bytes.chunks_exact_mut(RECORD_BYTES)) {
        if let Some(record) = record {
            record.encode(bytes);
        }
        let sum = crc(&bytes[..CRC_AT]);
        put(bytes, CRC_AT, &sum.to_be_bytes());
    }
    bytes
}

/// The table from flash. Offsets of errors count from its beginning.
pub fn parse_table(bytes: &[u8], limits: &TableLimits) -> Result<Vec<Option<Record>>, FieldError> {
    let mut records: Vec<Option<Record>> = Vec::new();
    for (i, bytes) in bytes
        .chunks_exact(RECORD_BYTES)
        .take(VOLUMES_MAX as usize)
        .enumerate()
    {
        let at = (i * RECORD_BYTES) as u32;
        let record = Record::parse(bytes, limits).map_err(|error| FieldError {
            offset: error.offset + at,
            ..error
        })?;
        let name = record.as_ref().map(|record| &record.name);
        let taken = records
            .iter()
            .flatten()
            .any(|other| name == Some(&other.name));
        rule(
            !taken,
            at + 16,
            "volume name",
            i as u64,
            "a name of its own",
        )?;
        records.push(record);
    }
    Ok(records)
}

impl Record {
    fn encode(&self, bytes: &mut [u8]) {
        put(bytes, 0, &self.reserved.to_be_bytes());
        put(bytes, 4, &self.alignment.to_be_bytes());
        put(bytes, 8, &self.data_pad.to_be_bytes());
        bytes[12] = self.kind.code();
        bytes[13] = u8::from(self.updating);
        put(bytes, 14, &(self.name.len() as u16).to_be_bytes());
        put(bytes, 16, self.name.as_bytes());
        bytes[144] = self.flags;
    }

    /// None is an empty record (`vtbl_check`, drivers/mtd/ubi/vtbl.c).
    fn parse(bytes: &[u8], limits: &TableLimits) -> Result<Option<Self>, FieldError> {
        value(
            CRC_AT as u32,
            "record checksum",
            be32(bytes, CRC_AT),
            crc(&bytes[..CRC_AT]),
        )?;
        let reserved = be32(bytes, 0);
        if reserved == 0 {
            let stray = bytes[..CRC_AT].iter().position(|&byte| byte != 0);
            return stray.map_or(Ok(None), |at| {
                Err(rule(false, at as u32, "empty record", bytes[at], "0").unwrap_err())
            });
        }
        let alignment = be32(bytes, 4);
        let name_len = usize::from(be16(bytes, 14));
        rule(
            reserved <= limits.good,
            0,
            "reserved blocks",
            reserved,
            "no more than the good blocks",
        )?;
        let fine = alignment == 1 || alignment.is_multiple_of(limits.write_unit);
        rule(
            alignment > 0 && alignment <= limits.leb_bytes && fine,
            4,
            "alignment",
            alignment,
            "1, or write units up to a logical block",
        )?;
        value(8, "padding", be32(bytes, 8), limits.leb_bytes % alignment)?;
        let Some(kind) = VolumeKind::of(bytes[12]) else {
            return Err(rule(false, 12, "volume type", bytes[12], "1 or 2").unwrap_err());
        };
        rule(bytes[13] <= 1, 13, "update marker", bytes[13], "0 or 1")?;
        rule(
            (1..=NAME_MAX).contains(&name_len),
            14,
            "name length",
            name_len as u64,
            "1 to 127",
        )?;
        let name = &bytes[16..16 + name_len];
        let ends = bytes[16 + name_len] == 0 && !name.contains(&0);
        rule(
            ends,
            16,
            "name",
            name_len as u64,
            "as many bytes as its length says, then 0",
        )?;
        let name = core::str::from_utf8(name).map_err(|error| {
            rule(
                false,
                16 + error.valid_up_to() as u32,
                "name",
                name[error.valid_up_to()],
                "UTF-8",
            )
            .unwrap_err()
        })?;
        Ok(Some(Self {
            reserved,
            alignment,
            data_pad: be32(bytes, 8),
            kind,
            updating: bytes[13] == 1,
            name: name.into(),
            flags: bytes[144],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TableLimits = TableLimits {
        leb_bytes: 126_976,
        write_unit: 2048,
        good: 100,
    };

    fn record(name: &str) -> Record {
        Record {
            reserved: 10,
            alignment: 1,
            name: name.into(),
            ..Record::default()
        }
    }

    #[test]
    fn a_table_comes_back_and_has_room_for_what_fits() {
        let mut records = vec![None; slots(LIMITS.leb_bytes) as usize];
        records[0] = Some(record("root"));
        let pad = LIMITS.leb_bytes % 4096;
        records[127] = Some(Record {
            alignment: 4096,
            data_pad: pad,
            kind: VolumeKind::Static,
            updating: true,
            flags: FLAG_AUTORESIZE,
            ..record(&"n".repeat(127))
        });
        let bytes = encode_table(&records);
        assert_eq!(bytes.len(), 22_016);
        assert_eq!(parse_table(&bytes, &LIMITS).unwrap(), records);
        assert_eq!((slots(15_872), slots(171)), (92, 0));
    }

    #[test]
    fn errors_count_from_the_tables_beginning() {
        let twice = encode_table(&[Some(record("a")), Some(record("a"))]);
        assert_eq!(parse_table(&twice, &LIMITS).unwrap_err().offset, 172 + 16);
        let large = encode_table(&[
            None,
            Some(Record {
                reserved: 101,
                ..record("a")
            }),
        ]);
        assert_eq!(parse_table(&large, &LIMITS).unwrap_err().offset, 172);
        let mut torn = encode_table(&[None, None]);
        torn[200] = 1;
        assert_eq!(
            parse_table(&torn, &LIMITS).unwrap_err().field,
            "record checksum"
        );
        for bad in [
            Record {
                alignment: 0,
                ..record("a")
            },
            Record {
                alignment: 100,
                ..record("a")
            },
            Record {
                data_pad: 1,
                ..record("a")
            },
            record(""),
        ] {
            assert!(
                parse_table(&encode_table(&[Some(bad.clone())]), &LIMITS).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn each_rule_of_a_record_holds_from_its_bound_on() {
        let parsed = |record: Record| {
            let records = [Some(record)];
            parse_table(&encode_table(&records), &LIMITS).is_ok_and(|found| found == records)
        };
        let leb = LIMITS.leb_bytes;
        let reserved = |reserved| {
            parsed(Record {
                reserved,
                ..record("a")
            })
        };
        assert!(reserved(1) && reserved(100) && !reserved(101));
        let aligned = |alignment| {
            let data_pad = leb % alignment;
            parsed(Record {
                alignment,
                data_pad,
                ..record("a")
            })
        };
        assert!(aligned(1) && aligned(2048) && aligned(leb));
        assert!(!aligned(2) && !aligned(2049) && !aligned(leb + 2048));
        // Bytes that no record of ours has.
        let byte = |at: usize, value: u8| {
            let mut bytes = encode_table(&[Some(record("ab"))]);
            bytes[at] = value;
            let sum = crc(&bytes[..CRC_AT]);
            put(&mut bytes, CRC_AT, &sum.to_be_bytes());
            parse_table(&bytes, &LIMITS).map_err(|error| error.offset)
        };
        assert!(byte(12, 1).is_ok() && byte(12, 2).is_ok() && byte(13, 1).is_ok());
        assert_eq!(
            (byte(12, 0), byte(12, 3), byte(13, 2)),
            (Err(12), Err(12), Err(13))
        );
        // The name has two bytes, and a zero behind it.
        assert_eq!((byte(15, 1), byte(15, 3)), (Err(16), Err(16)));
        assert_eq!(
            (byte(15, 0), byte(15, 128), byte(14, 1)),
            (Err(14), Err(14), Err(14))
        );
        assert_eq!((byte(17, 0), byte(17, 0xFF)), (Err(16), Err(17)));
    }
}
