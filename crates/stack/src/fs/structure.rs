//! Whether a block of an ext volume holds metadata - names, block numbers, attributes - or contents
//! of a file, judged by its bytes.
//!
//! *Promises.* Every block of names and numbers that a file system writes is recognised. Contents
//! of workloads are noise (`Contents` of the crate `workload`), which looks like
//! neither: numbers of a volume are small, and records of names fill their block exactly. A file of
//! less than five bytes may be taken for numbers. *Knows nothing of* the journal, whose copies look
//! like what they are copies of.

/// First bytes of a block of extended attributes.
const ATTRIBUTES: [u8; 4] = 0xEA02_0000_u32.to_le_bytes();
/// Bytes of a record of a directory before its name.
const HEAD: usize = 8;

/// Whether the block holds metadata of a volume of so many blocks.
pub fn is_structure(block: &[u8], blocks: u32) -> bool {
    block.starts_with(&ATTRIBUTES) || are_numbers(block, blocks) || are_names(block)
}

/// Block numbers: each of the volume, not all zeros.
fn are_numbers(block: &[u8], blocks: u32) -> bool {
    let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    block.chunks_exact(4).all(|bytes| number(bytes) < blocks) && block.iter().any(|byte| *byte != 0)
}

/// Records of a directory that fill the block; a block of its index is one record without a name.
fn are_names(block: &[u8]) -> bool {
    let mut at = 0;
    while let Some(head) = block.get(at..at + HEAD) {
        let length = usize::from(u16::from_le_bytes([head[4], head[5]]));
        let name = usize::from(head[6]);
        if length < HEAD || !length.is_multiple_of(4) || name + HEAD > length {
            return false;
        }
        at += length;
    }
    at == block.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandlab_workload::files::{Contents, FileId};

    fn record(inode: u32, length: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = inode.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([name.len() as u8, 1]);
        bytes.extend(name);
        bytes.resize(length.into(), 0);
        bytes
    }

    #[test]
    fn names_numbers_and_attributes_are_structure() {
        let names = [
            record(2, 12, b"."),
            record(2, 12, b".."),
            record(11, 1000, b"lost+found"),
        ]
        .concat();
        assert!(is_structure(&names, 1000));
        assert!(is_structure(&record(0, 1024, b""), 1000));
        let numbers: Vec<u8> = (0..256u32)
            .flat_map(|n| {
                if n < 200 {
                    (n + 800).to_le_bytes()
                } else {
                    [0; 4]
                }
            })
            .collect();
        assert!(is_structure(&numbers, 1000) && !is_structure(&numbers, 900));
        assert!(is_structure(
            &[&ATTRIBUTES[..], &[0xFF; 1020]].concat(),
            1000
        ));
    }

    #[test]
    fn contents_are_not() {
        let mut block = vec![0; 1024];
        assert!(!is_structure(&block, 1000));
        for version in 0..2000 {
            Contents::new(1).fill(FileId(3), version, 0, &mut block);
            assert!(!is_structure(&block, 1 << 20), "{version}");
            let mut tail = vec![0; 1024];
            tail[..96].copy_from_slice(&block[..96]);
            assert!(!is_structure(&tail, 1 << 20), "{version}");
        }
    }
}
