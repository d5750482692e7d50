//! Images harmed at places that are found by what the tree's files hold, the same for every format.

use super::tree::{contents, data};
use std::path::Path;

/// What is done to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends in the middle of the contents.
    Truncated,
    /// A bit in each of five files' contents.
    Data,
    /// A bit in each of five names, wherever they are.
    Names,
}

pub const ALL: [(Damage, &str); 3] = [
    (Damage::Truncated, "truncated"),
    (Damage::Data, "5 bits in contents"),
    (Damage::Names, "5 bits in names"),
];

impl Damage {
    /// Does it to a copy.
    pub fn make(self, image: &Path, to: &Path) {
        let mut bytes = std::fs::read(image).expect("an image");
        match self {
            Self::Truncated => {
                let at = place(&bytes, &contents(10)[4096..4160], &data(10));
                bytes.truncate(at / 512 * 512);
            }
            Self::Data => (0..5).for_each(|number| {
                let at = place(&bytes, &contents(number)[8192..8256], &data(number));
                bytes[at + 9] ^= 4;
            }),
            Self::Names => (40..45).for_each(|number| {
                let name = format!("name-{number:03}");
                // FAT has a short name in capitals, and whether they were none.
                let places = |name: &str| {
                    (0..bytes.len() - 8)
                        .filter(|at| bytes[*at..].starts_with(name.as_bytes()))
                        .collect::<Vec<_>>()
                };
                let found = Some(places(&name))
                    .filter(|places| !places.is_empty())
                    .unwrap_or_else(|| places(&name.to_uppercase()));
                assert!(!found.is_empty(), "{name} is in no image");
                found.into_iter().for_each(|at| bytes[at] ^= 1);
            }),
        }
        std::fs::write(to, bytes).expect("space for an image");
    }
}

fn place(bytes: &[u8], part: &[u8], of: &str) -> usize {
    bytes
        .windows(part.len())
        .position(|found| found == part)
        .unwrap_or_else(|| panic!("the contents of {of} are in no image"))
}
