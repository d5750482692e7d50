//! The keys of one section, taken one by one: what was not asked for is unknown, what was asked for
//! is listed with its origin.

use crate::error::{DescriptionError, Place};
use crate::setting::{Origin, Setting};
use crate::suggest::nearest;
use crate::value::{Take, Value, quote};
use std::path::PathBuf;

/// The most of a value that an error repeats, in characters.
const MAX_FOUND: usize = 60;

/// A key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub key_place: Place,
    pub value: Value,
    /// The value as it was written.
    pub written: String,
    pub place: Place,
    /// What a relative path is relative to.
    pub directory: PathBuf,
}

/// A section while its keys are taken; end with [`finish`](Self::finish).
#[derive(Clone, Debug)]
pub struct Section {
    name: &'static str,
    place: Place,
    entries: Vec<Entry>,
    known: Vec<&'static str>,
    settings: Vec<Setting>,
    fallback: Origin,
}

impl Section {
    pub(crate) fn new(name: &'static str, place: Place, entries: Vec<Entry>) -> Self {
        Self {
            name,
            place,
            entries,
            known: Vec::new(),
            settings: Vec::new(),
            fallback: Origin::Default,
        }
    }

    /// From here on values that are not given come from a preset.
    pub fn on_preset(&mut self, name: &str) {
        self.fallback = Origin::Preset(name.into());
    }

    /// Takes keys that no preset speaks of.
    pub fn beside_preset<T>(&mut self, take: impl FnOnce(&mut Self) -> T) -> T {
        let preset = std::mem::replace(&mut self.fallback, Origin::Default);
        let taken = take(self);
        self.fallback = preset;
        taken
    }

    /// Whether a key is given.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// The value of a key, if it is given.
    pub fn given<T: Take>(&mut self, key: &'static str) -> Result<Option<T>, DescriptionError> {
        self.known.push(key);
        let Some(entry) = self.entry(key) else {
            return Ok(None);
        };
        let Some(value) = T::take(&entry.value) else {
            return Err(self.refuse(key, &shorten(&entry.written), &T::expected()));
        };
        let written = entry.written.clone();
        self.list(key, written, Origin::Given);
        Ok(Some(value))
    }

    /// The value of a key, or `fallback`.
    pub fn or<T: Take>(&mut self, key: &'static str, fallback: T) -> Result<T, DescriptionError> {
        match self.given(key)? {
            Some(value) => Ok(value),
            None => {
                self.list(key, fallback.write(), self.fallback.clone());
                Ok(fallback)
            }
        }
    }

    /// The value of a key, or `fallback`; refused unless `fine`.
    pub fn checked<T: Take>(
        &mut self,
        key: &'static str,
        fallback: T,
        fine: impl Fn(&T) -> bool,
        expected: &str,
    ) -> Result<T, DescriptionError> {
        let value = self.or(key, fallback)?;
        if fine(&value) {
            Ok(value)
        } else {
            Err(self.refuse(key, &value.write(), expected))
        }
    }

    /// The value of a key that must be given if there is no `fallback`.
    pub fn needed<T: Take>(
        &mut self,
        key: &'static str,
        fallback: Option<T>,
    ) -> Result<T, DescriptionError> {
        match fallback {
            Some(fallback) => self.or(key, fallback),
            None => self
                .given(key)?
                .ok_or_else(|| self.missing(key, &T::expected())),
        }
    }

    /// The value `fallback` of a key that was not given and must be known.
    pub fn or_missing<T: Take>(
        &mut self,
        key: &'static str,
        fallback: Option<T>,
    ) -> Result<T, DescriptionError> {
        let fallback = fallback.ok_or_else(|| self.missing(key, &T::expected()))?;
        self.list(key, fallback.write(), self.fallback.clone());
        Ok(fallback)
    }

    /// One of several named values.
    pub fn choice<T: Copy + PartialEq>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
        fallback: T,
    ) -> Result<T, DescriptionError> {
        let Some(text) = self.given_text(key) else {
            let name = choices
                .iter()
                .find(|(_, value)| *value == fallback)
                .map_or("", |(name, _)| name);
            return self.or(key, name.to_string()).map(|_| fallback);
        };
        self.known.push(key);
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => {
                self.list(key, quote(&text), Origin::Given);
                Ok(*value)
            }
            None => Err(self.refuse_choice(key, &text, choices)),
        }
    }

    fn refuse_choice<T>(
        &self,
        key: &'static str,
        text: &str,
        choices: &[(&str, T)],
    ) -> DescriptionError {
        let names: Vec<String> = choices.iter().map(|(name, _)| quote(name)).collect();
        self.refuse(key, &quote(text), &format!("one of {}", names.join(", ")))
    }

    fn given_text(&self, key: &str) -> Option<String> {
        if let Some(Entry {
            value: Value::Text(text),
            ..
        }) = self.entry(key)
        {
            Some(text.clone())
        } else {
            None
        }
    }

    /// A file's path; a relative one in a file starts where that file lies.
    pub fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>, DescriptionError> {
        let text: Option<String> = self.given(key)?;
        let directory = self.directory(key);
        match text {
            Some(text) if text.is_empty() => Err(self.refuse(key, "\"\"", "the path of a file")),
            text => Ok(text.map(|text| directory.join(text))),
        }
    }

    /// The directory that a relative path under this key starts from.
    pub(crate) fn directory(&self, key: &str) -> PathBuf {
        self.entry(key)
            .map(|entry| entry.directory.clone())
            .unwrap_or_default()
    }

    /// Refuses these keys, known as they are, because `needs` does not hold.
    pub fn inapplicable(
        &mut self,
        keys: &[&'static str],
        needs: &str,
    ) -> Result<(), DescriptionError> {
        self.known.extend(keys);
        match keys.iter().find_map(|key| self.entry(key)) {
            None => Ok(()),
            Some(entry) => Err(DescriptionError::Inapplicable {
                place: entry.key_place.clone(),
                key: self.full(&entry.key),
                needs: needs.into(),
            }),
        }
    }

    /// Refuses these keys beside the key `other`, which sets the same.
    pub fn conflicting(
        &mut self,
        keys: &[&'static str],
        other: &str,
    ) -> Result<(), DescriptionError> {
        self.known.extend(keys);
        let Some(entry) = keys.iter().find_map(|key| self.entry(key)) else {
            return Ok(());
        };
        Err(DescriptionError::Conflict {
            place: entry.key_place.clone(),
            key: self.full(&entry.key),
            other: self.full(other),
        })
    }

    /// Lists a value that was derived from others, unless the key has been listed.
    pub fn list_derived<T: Take>(&mut self, key: &'static str, value: &T) {
        let full = self.full(key);
        if !self.settings.iter().any(|setting| setting.key == full) {
            self.list(key, value.write(), Origin::Default);
        }
    }

    fn list(&mut self, key: &str, value: String, origin: Origin) {
        let key = self.full(key);
        self.settings.push(Setting { key, value, origin });
    }

    /// The error that `key` holds `found` and should be `expected`.
    pub fn refuse(&self, key: &str, found: &str, expected: &str) -> DescriptionError {
        let place = self
            .entry(key)
            .map_or(&self.place, |entry| &entry.place)
            .clone();
        DescriptionError::Value {
            place,
            key: self.full(key),
            found: found.into(),
            expected: expected.into(),
        }
    }

    /// The error that `key` must be given.
    pub fn missing(&self, key: &str, expected: &str) -> DescriptionError {
        DescriptionError::Missing {
            place: self.place.clone(),
            key: self.full(key),
            expected: expected.into(),
        }
    }

    /// Refuses keys that were not asked for; otherwise gives every setting, in the order of asking.
    pub fn finish(self) -> Result<Vec<Setting>, DescriptionError> {
        match self
            .entries
            .iter()
            .find(|entry| !self.known.contains(&entry.key.as_str()))
        {
            None => Ok(self.settings),
            Some(entry) => {
                let all = || format!("expected one of {}", self.known.join(", "));
                let hint = nearest(&entry.key, self.known.iter().copied())
                    .map_or_else(all, |key| format!("did you mean \"{key}\"?"));
                Err(DescriptionError::UnknownKey {
                    place: entry.key_place.clone(),
                    key: self.full(&entry.key),
                    hint,
                })
            }
        }
    }
}

/// The first line of a value, not too much of it.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(MAX_FOUND).collect();
    if short.len() < text.len() {
        format!("{short}...")
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;
    use std::path::Path;

    fn section(text: &str) -> Section {
        Document::parse("e.toml", Path::new("lab"), &format!("[run]\n{text}"), &[])
            .unwrap()
            .section("run")
    }

    #[test]
    fn values_defaults_and_presets_are_listed_with_their_origin() {
        let mut run = section("depth = 4\nfile = 'a'\n");
        run.or("depth", 1u32).unwrap();
        run.or("seed", 1u64).unwrap();
        run.on_preset("p");
        run.choice("mode", &[("a", 1), ("b", 2)], 2).unwrap();
        assert_eq!(run.path("file").unwrap().unwrap(), Path::new("lab/a"));
        let settings: Vec<String> = run
            .finish()
            .unwrap()
            .iter()
            .map(|s| format!("{} {} {}", s.key, s.value, s.origin))
            .collect();
        assert_eq!(
            settings,
            [
                "run.depth 4 given",
                "run.seed 1 default",
                "run.mode \"b\" preset p",
                "run.file 'a' given"
            ]
        );
    }

    #[test]
    fn each_kind_of_refusal_names_place_key_found_and_expected() {
        let text = |error: DescriptionError| error.to_string();
        let mut run = section("depth = \"four\"\nmode = \"x\"\nseed = 7\n");
        assert_eq!(
            text(run.or("depth", 1u32).unwrap_err()),
            "e.toml:2:9: run.depth: found \"four\", expected a whole number from 0 to 4294967295"
        );
        assert_eq!(
            text(run.choice("mode", &[("a", 1), ("b", 2)], 1).unwrap_err()),
            "e.toml:3:8: run.mode: found \"x\", expected one of \"a\", \"b\""
        );
        assert_eq!(
            text(
                run.checked("seed", 1u64, |n| *n < 5, "less than 5")
                    .unwrap_err()
            ),
            "e.toml:4:8: run.seed: found 7, expected less than 5"
        );
        assert_eq!(
            text(run.needed::<bool>("open", None).unwrap_err()),
            "e.toml:1:2: run.open: missing, expected true or false"
        );
        assert_eq!(
            text(run.inapplicable(&["seed"], "mode = \"a\"").unwrap_err()),
            "e.toml:4:1: run.seed: has no effect, it needs mode = \"a\""
        );
    }

    #[test]
    fn a_choice_that_is_no_text_is_refused() {
        let mut run = section("mode = 3\n");
        assert!(run.choice("mode", &[("a", 1)], 1).is_err());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_or_all() {
        let unknown = |text: &str| {
            let mut run = section(text);
            run.or("depth", 1u32)
                .and_then(|_| run.or("seed", 1u64))
                .unwrap();
            run.finish().unwrap_err().to_string()
        };
        assert_eq!(
            unknown("seed = 1\ndetph = 4"),
            "e.toml:3:1: run.detph: unknown key, did you mean \"depth\"?"
        );
        assert_eq!(
            unknown("voltage = 4"),
            "e.toml:2:1: run.voltage: unknown key, expected one of depth, seed"
        );
    }

    #[test]
    fn what_an_error_repeats_is_short() {
        let mut run = section(&format!("depth = \"{}\"", "x".repeat(10_000)));
        assert!(run.or("depth", 1u32).unwrap_err().to_string().len() < 200);
    }
}
