//! The LEB properties tree is compared with the index, in both of its forms.

use crate::made::{SHAPES, mounted};
use nandlab_testkit::host::tree;
use nandlab_ubifs::format::{LptShape, Props};
use nandlab_ubifs::{Bare, Ubifs};
use std::path::Path;

type Volume = Ubifs<Bare<Vec<u8>>>;

/// mkfs.ubifs takes the big form when the tree outgrows one block.
const FORMS: [(&str, bool); 2] = [("1000", false), ("4000", true)];

fn made(root: &Path, lebs: &str) -> Vec<u8> {
    crate::made::made(root, SHAPES[0], &["-c", lebs])
}

/// The place of the leaf with the first blocks of the main area, in the bytes of the volume.
fn first_leaf(bytes: &[u8], fs: &Volume) -> usize {
    let shape = LptShape::new(fs.head());
    let leb = fs.head().geometry.leb as usize;
    let at = |(lnum, offs): (u32, u32)| lnum as usize * leb + offs as usize;
    let mut place = at(fs.master().lpt_root);
    let mut number = 1;
    for level in (1..=shape.height).rev() {
        let node = shape.parse_nnode(&bytes[place..][..shape.nnode_bytes()], number);
        place = at(node.unwrap()[0].unwrap());
        number = shape.nnode_number(number, level, 0);
    }
    place
}

#[test]
fn both_forms_agree_with_the_index_of_mkfs_ubifs() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for (lebs, is_big) in FORMS {
        let mut fs = mounted(made(dir.path(), lebs));
        assert_eq!(fs.head().has_big_lpt(), is_big, "{lebs} blocks");
        assert_eq!(fs.check().findings, [], "{lebs} blocks");
    }
}

#[test]
fn a_leaf_is_packed_as_mkfs_ubifs_packs_it_and_each_wrong_property_is_found() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    for (lebs, _) in FORMS {
        let bytes = made(dir.path(), lebs);
        let fs = mounted(bytes.clone());
        let shape = LptShape::new(fs.head());
        let place = first_leaf(&bytes, &fs);
        let old = &bytes[place..][..shape.pnode_bytes()];
        let props = shape.parse_pnode(old, 0).unwrap();
        assert_eq!(shape.pnode(0, &props), old, "{lebs} blocks");
        let first = fs.head().geometry.main_first();
        type Forge = fn(&mut Props);
        let forgeries: [(Forge, &str); 3] = [
            (|props| props.dirty += 8, "used bytes"),
            (|props| props.free += 512, "free bytes"),
            (|props| props.is_index = true, "flag of an index block"),
        ];
        for (forge, what) in forgeries {
            let mut forged = props;
            // The second block: what is free in the first one is not known beforehand.
            forge(&mut forged[1]);
            let mut struck = bytes.clone();
            struck[place..][..old.len()].copy_from_slice(&shape.pnode(0, &forged));
            let report = mounted(struck).check();
            let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            let expected = format!("LEB {}: {what}: found ", first + 1);
            assert!(
                said.iter().any(|one| one.starts_with(&expected)),
                "{expected}: {said:?}"
            );
        }
    }
}

#[test]
fn a_node_with_a_wrong_sum_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (lebs, _) in FORMS {
        let mut bytes = made(dir.path(), lebs);
        let fs = mounted(bytes.clone());
        let place = first_leaf(&bytes, &fs);
        bytes[place + 5] ^= 1;
        let report = mounted(bytes).check();
        let [finding] = &report.findings[..] else {
            panic!("{report:?}");
        };
        let leb = SHAPES[0].1 as usize;
        assert_eq!(
            finding.leb(),
            Some(((place / leb) as u32, (place % leb) as u32))
        );
        let expected = "the checksum of a node of the properties is ";
        assert!(finding.to_string().contains(expected), "{finding}");
    }
}
