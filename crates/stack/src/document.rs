//! A description as text: sections of keys with their places, and overrides on top.

use crate::error::{DescriptionError, Place};
use crate::section::{Entry, Section, shorten};
use crate::suggest::nearest;
use crate::value::{Take as _, Value, quote};
use std::collections::BTreeMap;
use std::io::Read;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// The longest description that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A description whose sections are taken one by one.
#[derive(Clone, Debug)]
pub struct Document {
    file: Arc<str>,
    /// What relative paths in the file are relative to.
    directory: PathBuf,
    sections: BTreeMap<String, (Place, Vec<Entry>)>,
    known: Vec<&'static str>,
}

impl Document {
    /// Reads a file and lays `overrides` (`section.key=value`) over it.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self, DescriptionError> {
        let unreadable = |reason: String| DescriptionError::Unreadable {
            file: path.display().to_string(),
            reason,
        };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(|e| unreadable(e.to_string()))?;
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| unreadable(e.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(unreadable(format!(
                "found more than {MAX_BYTES} bytes, expected a description in TOML"
            )));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            unreadable(format!(
                "found no UTF-8 text at byte {at}, expected a description in TOML"
            ))
        })?;
        Self::parse(
            &path.display().to_string(),
            path.parent().unwrap_or(Path::new("")),
            &text,
            overrides,
        )
    }

    /// The same for `text` that is said to come from `file`; relative paths in it start at
    /// `directory`.
    pub fn parse(
        file: &str,
        directory: &Path,
        text: &str,
        overrides: &[String],
    ) -> Result<Self, DescriptionError> {
        let source = Source {
            file: file.into(),
            text,
        };
        let table = DeTable::parse(text).map_err(|error| {
            let place = error
                .span()
                .map_or(Place::File(source.file.clone()), |span| source.place(&span));
            let reason = match error.message().lines().next() {
                Some("duplicate key") => "duplicate key; keep one of them",
                Some(reason) => reason,
                None => "not TOML",
            };
            DescriptionError::Syntax {
                place,
                reason: reason.into(),
            }
        })?;
        let mut document = Self {
            file: file.into(),
            directory: directory.into(),
            sections: BTreeMap::new(),
            known: Vec::new(),
        };
        for (name, value) in table.get_ref() {
            let place = source.place(&name.span());
            let DeValue::Table(keys) = value.get_ref() else {
                let hint = "expected keys in sections such as [chip]".into();
                return Err(DescriptionError::UnknownKey {
                    place,
                    key: name.get_ref().to_string(),
                    hint,
                });
            };
            let mut entries: Vec<(usize, Entry)> = keys
                .iter()
                .map(|(key, value)| source.entry(key, value))
                .collect();
            entries.sort_by_key(|(start, _)| *start);
            document.sections.insert(
                name.get_ref().to_string(),
                (place, entries.into_iter().map(|(_, entry)| entry).collect()),
            );
        }
        overrides.iter().try_for_each(|text| document.set(text))?;
        Ok(document)
    }

    /// Lays one override over the description. A value that is not TOML is taken as text; none at
    /// all takes the key away.
    fn set(&mut self, text: &str) -> Result<(), DescriptionError> {
        let malformed = || DescriptionError::Override { found: text.into() };
        let (path, value) = text.split_once('=').ok_or_else(malformed)?;
        let (section, key) = path.trim().split_once('.').ok_or_else(malformed)?;
        let name = |part: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        };
        if !name(section) || !name(key) {
            return Err(malformed());
        }
        let value = value.trim();
        if value.is_empty() {
            if let Some((_, entries)) = self.sections.get_mut(section) {
                entries.retain(|entry| entry.key != key);
            }
            return Ok(());
        }
        let (value, written) = match DeValue::parse(value) {
            Ok(parsed) => (Value::of(parsed.get_ref()), value.into()),
            Err(_) => (Value::Text(value.into()), quote(value)),
        };
        self.insert(section, key, value, written, Place::Override(text.into()));
        Ok(())
    }

    fn insert(&mut self, section: &str, key: &str, value: Value, written: String, place: Place) {
        let entries = &mut self
            .sections
            .entry(section.into())
            .or_insert_with(|| (place.clone(), Vec::new()))
            .1;
        entries.retain(|entry| entry.key != key);
        entries.push(Entry {
            key: key.into(),
            key_place: place.clone(),
            value,
            written,
            place,
            directory: PathBuf::new(),
        });
    }

    /// Replaces a whole section by texts under keys, as if an option said so, unless an override
    /// spoke of it: that stays on top.
    pub fn replace(&mut self, section: &str, keys: &[(&str, &str)]) {
        if let Some((_, entries)) = self.sections.get_mut(section) {
            entries.retain(|entry| matches!(entry.place, Place::Override(_)));
        }
        for (key, text) in keys {
            let stays = self
                .sections
                .get(section)
                .is_some_and(|(_, entries)| entries.iter().any(|entry| entry.key == *key));
            if !stays {
                let place = Place::Override(format!("{section}.{key}={text}").into());
                self.insert(
                    section,
                    key,
                    Value::Text((*text).into()),
                    quote(text),
                    place,
                );
            }
        }
    }

    /// A section will be taken: messages list sections in the order in which this was said.
    pub(crate) fn know(&mut self, name: &'static str) {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
    }

    /// Whether a section is there.
    pub fn has(&self, section: &str) -> bool {
        self.sections.contains_key(section)
    }

    /// The file that it was read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The file that it was read from, and every file that one of its values names.
    pub fn files(&self) -> Vec<PathBuf> {
        let named = self.sections.values().flat_map(|(_, entries)| entries);
        let named = named.filter_map(|entry| match (&entry.value, &entry.place) {
            (Value::Text(text), Place::Override(_)) => Some(PathBuf::from(text)),
            (Value::Text(text), _) => Some(self.directory.join(text)),
            _ => None,
        });
        iter::once(PathBuf::from(&*self.file))
            .chain(named.filter(|path| path.is_file()))
            .collect()
    }

    /// Takes a section out; an absent one is empty.
    pub fn section(&mut self, name: &'static str) -> Section {
        self.know(name);
        let (place, entries) = self
            .sections
            .remove(name)
            .unwrap_or((Place::File(self.file.clone()), Vec::new()));
        let resolved = entries.into_iter().map(|mut entry| {
            if !matches!(entry.place, Place::Override(_)) {
                entry.directory.clone_from(&self.directory);
            }
            entry
        });
        Section::new(name, place, resolved.collect())
    }

    /// Takes a section of numbers whose names are the description's own.
    pub fn numbers(&mut self, name: &'static str) -> Result<Vec<(String, f64)>, DescriptionError> {
        self.know(name);
        let entries = self
            .sections
            .remove(name)
            .map(|(_, entries)| entries)
            .unwrap_or_default();
        let number = |entry: Entry| match f64::take(&entry.value) {
            Some(value) => Ok((entry.key, value)),
            None => {
                let key = format!("{name}.{}", entry.key);
                Err(DescriptionError::Value {
                    place: entry.place,
                    key,
                    found: shorten(&entry.written),
                    expected: f64::expected(),
                })
            }
        };
        entries.into_iter().map(number).collect()
    }

    /// The error that `key`, whose section has been taken, does not fit another.
    pub fn refuse(&self, key: &str, found: &str, expected: &str) -> DescriptionError {
        let place = Place::File(self.file.clone());
        DescriptionError::Value {
            place,
            key: key.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), DescriptionError> {
        match self.sections.into_iter().next() {
            None => Ok(()),
            Some((found, (place, _))) => {
                let all = || {
                    format!(
                        "expected {}",
                        self.known
                            .iter()
                            .map(|name| format!("[{name}]"))
                            .collect::<Vec<_>>()
                            .join(", ")
                    )
                };
                let hint = nearest(&found, self.known.iter().copied())
                    .map_or_else(all, |name| format!("did you mean [{name}]?"));
                Err(DescriptionError::UnknownSection { place, found, hint })
            }
        }
    }
}

/// The text, to find places in.
struct Source<'a> {
    file: Arc<str>,
    text: &'a str,
}

impl Source<'_> {
    fn place(&self, span: &Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() as u32 + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count() as u32
            + 1;
        Place::At {
            file: self.file.clone(),
            line,
            column,
        }
    }

    /// An entry, and where its key begins.
    fn entry(
        &self,
        key: &toml::Spanned<toml::de::DeString<'_>>,
        value: &toml::Spanned<DeValue<'_>>,
    ) -> (usize, Entry) {
        let entry = Entry {
            key: key.get_ref().to_string(),
            key_place: self.place(&key.span()),
            value: Value::of(value.get_ref()),
            written: self
                .text
                .get(value.span())
                .unwrap_or_default()
                .trim()
                .to_string(),
            place: self.place(&value.span()),
            directory: PathBuf::new(),
        };
        (key.span().start, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, overrides: &[&str]) -> Result<Document, DescriptionError> {
        let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
        Document::parse("e.toml", Path::new("lab"), text, &overrides)
    }

    #[test]
    fn numbers_have_names_of_their_own() {
        let parse = |text: &str| {
            Document::parse(
                "e.toml",
                Path::new(""),
                &format!("[published]\n{text}"),
                &[],
            )
            .unwrap()
            .numbers("published")
        };
        assert_eq!(
            parse("nftl-hot = 9731.15\nbast-hot = 1116").unwrap(),
            [
                ("nftl-hot".to_string(), 9731.15),
                ("bast-hot".to_string(), 1116.0)
            ]
        );
        let error = parse("nftl-hot = \"9731 s\"").unwrap_err().to_string();
        assert_eq!(
            error,
            "e.toml:2:12: published.nftl-hot: found \"9731 s\", expected a number"
        );
    }

    #[test]
    fn an_override_without_a_value_takes_the_key_away() {
        let mut document = parse(
            "[chip]\npage = 512\noob = 16\n",
            &["chip.page=", "ftl.scheme="],
        )
        .unwrap();
        let mut chip = document.section("chip");
        assert_eq!(
            (chip.or("page", 0u32), chip.or("oob", 0u32)),
            (Ok(0), Ok(16))
        );
    }

    #[test]
    fn places_are_those_of_the_text() {
        let mut document = parse("# über\n[chip]\n  page = 512\n\"oob\" =  16\n", &[]).unwrap();
        let mut chip = document.section("chip");
        let refusal = |chip: &Section, key| chip.refuse(key, "x", "y").to_string();
        assert_eq!(chip.or("page", 0u32), Ok(512));
        assert_eq!(
            refusal(&chip, "page"),
            "e.toml:3:10: chip.page: found x, expected y"
        );
        assert_eq!(chip.or("oob", 0u32), Ok(16));
        assert_eq!(
            refusal(&chip, "oob"),
            "e.toml:4:10: chip.oob: found x, expected y"
        );
    }

    #[test]
    fn overrides_replace_and_add_and_may_be_bare_text() {
        let mut document = parse(
            "[chip]\npage = 512\n",
            &[
                "chip.page=2048",
                "ftl.victim=cost-benefit",
                "chip.read=25 us",
            ],
        )
        .unwrap();
        let mut chip = document.section("chip");
        assert_eq!(
            (chip.or("page", 0u32), chip.or("read", String::new())),
            (Ok(2048), Ok("25 us".into()))
        );
        assert_eq!(
            document.section("ftl").or("victim", String::new()),
            Ok("cost-benefit".into())
        );
    }

    #[test]
    fn what_is_no_description_is_refused_with_its_place() {
        let error = |text: &str, overrides: &[&str]| {
            parse(text, overrides)
                .and_then(Document::finish)
                .unwrap_err()
                .to_string()
        };
        assert!(
            error("[chip\n", &[]).starts_with("e.toml:1:6: "),
            "{}",
            error("[chip\n", &[])
        );
        assert!(error("[chip]\npage = 1\npage = 2\n", &[]).starts_with("e.toml:3:1: "));
        assert_eq!(
            error("page = 1\n", &[]),
            "e.toml:1:1: page: unknown key, expected keys in sections such as [chip]"
        );
        for bad in ["chip.page", "page=1", ".page=1", "chip.=1", "chip.a.b=1"] {
            assert_eq!(
                error("", &[bad]),
                format!("--set {bad}: expected section.key=value")
            );
        }
        let mut document = parse("[chip]\n[chap]\n", &[]).unwrap();
        document.section("chip");
        assert_eq!(
            document.finish().unwrap_err().to_string(),
            "e.toml:2:2: [chap]: unknown section, did you mean [chip]?"
        );
        let mut document = parse("[nvram]\n", &[]).unwrap();
        document.section("chip");
        document.section("ftl");
        assert_eq!(
            document.finish().unwrap_err().to_string(),
            "e.toml:1:2: [nvram]: unknown section, expected [chip], [ftl]"
        );
    }
}
