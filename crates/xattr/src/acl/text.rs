//! Access lists as text, as archives carry them: `user::rwx,user:1000:r--,group::r-x,mask::r-x,
//! other::---` (POSIX.1e draft 17, section 23.3; users and groups by number, since names are a
//! machine's own).

use super::{NAMED, NOBODY, Order, SHOWN_VERSION, UNNAMED, head, word};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use nandlab_vfs::Errno;

/// Tag, its name and the name's short form.
const TAGS: [(u16, &str, &str); 6] = [
    (1, "user", "u"),
    (2, "user", "u"),
    (4, "group", "g"),
    (8, "group", "g"),
    (16, "mask", "m"),
    (32, "other", "o"),
];

/// The text of an attribute's value. [`Errno::Invalid`]: it is no list.
pub fn to_text(value: &[u8]) -> Result<String, Errno> {
    let order = Order::Little;
    if order.u32(word(value, 0)?) != SHOWN_VERSION || value.len() % 8 != 4 {
        return Err(Errno::Invalid);
    }
    let mut text = String::new();
    for at in (4..value.len()).step_by(8) {
        let (tag, permissions) = head(value, at, order)?;
        let (_, name, _) = TAGS.iter().find(|row| row.0 == tag).ok_or(Errno::Invalid)?;
        let whom = match NAMED.contains(&tag) {
            true => order.u32(word(value, at + 4)?).to_string(),
            false => String::new(),
        };
        let may = |bit, letter| if permissions & bit == 0 { '-' } else { letter };
        let comma = if text.is_empty() { "" } else { "," };
        let read = may(4, 'r');
        let write = may(2, 'w');
        let execute = may(1, 'x');
        text += &format!("{comma}{name}:{whom}:{read}{write}{execute}");
    }
    Ok(text)
}

/// The number of a user (`true`) or a group of this name.
pub type Numbers<'a> = &'a dyn Fn(bool, &str) -> Option<u32>;

/// An entry of a text that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {0:?}, expected such as \"user:1000:r-x\", with a number for whom this machine does not know"
)]
pub struct BadEntry(pub String);

/// The attribute's value of a text: entries apart by commas or lines, with comments; a number may
/// stand behind the permissions, as star has it; `numbers` tells those of names.
pub fn from_text(text: &str, numbers: Numbers<'_>) -> Result<Vec<u8>, BadEntry> {
    let lines = text.split(['\n', ',']);
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut entries = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        entries.push(entry(line, numbers).ok_or_else(|| BadEntry(line.into()))?);
    }
    // The order that the kernel asks for.
    entries.sort_unstable();
    let mut value = Vec::new();
    Order::Little.put32(&mut value, SHOWN_VERSION);
    for (tag, whom, permissions) in entries {
        Order::Little.put16(&mut value, tag);
        Order::Little.put16(&mut value, permissions);
        Order::Little.put32(&mut value, whom);
    }
    Ok(value)
}

/// Tag, whom it names, and permissions.
fn entry(line: &str, numbers: Numbers<'_>) -> Option<(u16, u32, u16)> {
    let mut fields = line.split(':').map(str::trim);
    let kind = fields.next()?;
    let whom = fields.next()?;
    let letters = fields.next()?;
    let number = fields.next();
    let tags = if whom.is_empty() {
        &UNNAMED[..]
    } else {
        &NAMED[..]
    };
    let named =
        |row: &&(u16, &str, &str)| (row.1 == kind || row.2 == kind) && tags.contains(&row.0);
    let (tag, ..) = TAGS.iter().find(named)?;
    let whom = match whom {
        "" => NOBODY,
        whom => match number.unwrap_or(whom).parse() {
            Ok(number) => number,
            Err(_) => numbers(*tag == 2, whom)?,
        },
    };
    let mut permissions = 0;
    for letter in letters.chars() {
        permissions |= match letter {
            'r' => 4,
            'w' => 2,
            'x' => 1,
            '-' => 0,
            _ => return None,
        };
    }
    Some((*tag, whom, permissions))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str) -> Result<Vec<u8>, BadEntry> {
        super::from_text(text, &|user, name| (user && name == "otto").then_some(1000))
    }

    const TEXT: &str = "user::rwx,user:1000:r--,group::r-x,group:7:-w-,mask::r-x,other::---";

    #[test]
    fn a_list_and_its_text_are_the_same() {
        let value = from_text(TEXT).unwrap();
        assert_eq!(value.len(), 4 + 6 * 8);
        assert_eq!(value[12..20], [2, 0, 4, 0, 0xe8, 3, 0, 0]);
        assert_eq!(to_text(&value).unwrap(), TEXT);
    }

    #[test]
    fn other_orders_short_names_lines_comments_and_numbers_behind_are_understood() {
        let text =
            "o::---\nm::r-x # as reported\ng:staff:-w-:7\n\nu:lisa:r--:1000\ng::r-x\nu::rwx\n";
        for text in [text, &text.replace("lisa:r--:1000", "otto:r--")] {
            assert_eq!(from_text(text).unwrap(), from_text(TEXT).unwrap());
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "user:lisa:r--",
            "user",
            "user::rwz",
            "other:7:r--",
            "mask:1:r--",
            "boss::r",
        ] {
            assert_eq!(from_text(text), Err(BadEntry(text.into())));
        }
        let value = from_text(TEXT).unwrap();
        for len in 0..value.len() {
            assert_eq!(to_text(&value[..len]).is_ok(), len % 8 == 4, "{len} bytes");
        }
        assert!(to_text(&[2, 0, 0, 0, 3, 0, 7, 0, 255, 255, 255, 255]).is_err());
    }
}
