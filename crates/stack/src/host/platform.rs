//! Platforms: TOML files of costs, each of which may inherit from another.
//!
//! A file has one section, `[host]`, with the keys of an experiment's `[host]`. A value is a number
//! or, with its source, `{ measured = 32_594, why = "vfat-create" }`; `given` and `assumed` are the
//! other labels. `inherits` names a platform of ours or the path of a file.

use super::costs::{FIELDS, Field};
use super::{Cost, Label};
use crate::error::Place;
use crate::suggest::nearest;
use crate::value::{Take, Value, quote};
use crate::{DescriptionError, Document, Section};
use std::path::{Path, PathBuf};

/// The largest cost, in any unit.
const MAX_COST: f64 = 1e9;
/// The longest line of ancestors.
const MAX_ANCESTORS: usize = 16;

/// The platforms of this crate: name and text.
pub(super) const BUILT_IN: [(&str, &str); 4] = [
    (
        "arm-400mhz",
        include_str!("../../platforms/arm-400mhz.toml"),
    ),
    ("pc-3ghz", include_str!("../../platforms/pc-3ghz.toml")),
    ("omap5912", include_str!("../../platforms/omap5912.toml")),
    ("omap2420", include_str!("../../platforms/omap2420.toml")),
];

/// A cost with its source.
#[derive(Clone, Debug, PartialEq)]
struct Declared {
    value: f64,
    label: Label,
    why: String,
}

/// What a platform declares; `None` for costs that it lacks. Parallel to [`FIELDS`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Platform(Vec<Option<Declared>>);

impl Platform {
    /// Loads the platform that `key` of `section` names.
    pub fn load(section: &Section, key: &str, name: &str) -> Result<Self, DescriptionError> {
        let platform = load(section, key, name, &mut Vec::new())?;
        match &platform.0[..] {
            [Some(_), ..] => Ok(platform),
            _ => {
                let expected = format!("a platform that declares {}", FIELDS[0].key);
                Err(section.refuse(key, &quote(name), &expected))
            }
        }
    }

    /// Loads one of the platforms of this crate.
    pub fn built_in(name: &str) -> Result<Self, DescriptionError> {
        let nowhere = Section::new("host", Place::File("built-in platforms".into()), Vec::new());
        Self::load(&nowhere, "platform", name)
    }

    /// The costs that it has, in order.
    pub fn costs(&self) -> impl Iterator<Item = (&'static Field, Cost)> {
        FIELDS.iter().zip(&self.0).filter_map(|(field, declared)| {
            let declared = declared.as_ref()?;
            let cost = Cost {
                key: field.key,
                value: declared.value,
                unit: field.unit,
                label: declared.label,
                why: declared.why.clone(),
            };
            Some((field, cost))
        })
    }

    /// The keys of the costs that it lacks.
    pub fn lacking(&self) -> impl Iterator<Item = &'static str> {
        let absent = |(field, declared): (&'static Field, &Option<Declared>)| {
            declared.is_none().then_some(field.key)
        };
        FIELDS.iter().zip(&self.0).filter_map(absent)
    }

    fn inherit(self, parent: Self) -> Self {
        let pairs = self.0.into_iter().zip(parent.0);
        Self(pairs.map(|(own, inherited)| own.or(inherited)).collect())
    }
}

/// Takes a cost in its range, or `fallback`.
pub(super) fn take_cost(
    section: &mut Section,
    field: &Field,
    fallback: f64,
) -> Result<f64, DescriptionError> {
    section.checked(field.key, fallback, in_range, &range(field))
}

fn in_range(value: &f64) -> bool {
    (0.0..=MAX_COST).contains(value)
}

fn range(field: &Field) -> String {
    format!("{} from 0 to {MAX_COST}", field.unit)
}

/// Where a platform's text comes from.
#[derive(Clone, Debug, PartialEq)]
enum Source {
    BuiltIn(&'static str, &'static str),
    File(PathBuf),
}

impl Source {
    fn find(directory: &Path, name: &str) -> Option<Self> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Some(Self::BuiltIn(name, text));
        }
        name.ends_with(".toml")
            .then(|| Self::File(directory.join(name)))
    }

    fn read(&self) -> Result<Document, DescriptionError> {
        match self {
            Self::BuiltIn(name, text) => {
                let file = format!("platforms/{name}.toml");
                Document::parse(&file, Path::new("platforms"), text, &[])
            }
            Self::File(path) => Document::read(path, &[]),
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(two)) => match (one.canonicalize(), two.canonicalize()) {
                (Ok(one), Ok(two)) => one == two,
                _ => one == two,
            },
            _ => self == other,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::BuiltIn(name, _) => (*name).into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Loads a platform behind its `descendants`.
fn load(
    section: &Section,
    key: &str,
    name: &str,
    descendants: &mut Vec<Source>,
) -> Result<Platform, DescriptionError> {
    let refuse = |expected: &str| section.refuse(key, &quote(name), expected);
    let source =
        Source::find(&section.directory(key), name).ok_or_else(|| refuse(&known(key, name)))?;
    if descendants.iter().any(|descendant| descendant.is(&source)) {
        let line: Vec<String> = descendants.iter().map(Source::name).collect();
        let line = line.join(" -> ");
        return Err(refuse(&format!("no circle: {line} -> {}", source.name())));
    }
    if descendants.len() == MAX_ANCESTORS {
        return Err(refuse(&format!("at most {MAX_ANCESTORS} ancestors")));
    }
    let mut document = source.read().map_err(|error| match error {
        DescriptionError::Unreadable { reason, .. } => {
            refuse(&format!("a file that can be read ({reason})"))
        }
        error => error,
    })?;
    descendants.push(source);
    let mut own = document.section("host");
    let parent: Option<String> = own.given("inherits")?;
    let declared: Result<_, _> = FIELDS
        .iter()
        .map(|field| declare(&mut own, field))
        .collect();
    let platform = Platform(declared?);
    own.clone().finish()?;
    document.finish()?;
    match parent {
        None => Ok(platform),
        Some(parent) => Ok(platform.inherit(load(&own, "inherits", &parent, descendants)?)),
    }
}

fn declare(section: &mut Section, field: &Field) -> Result<Option<Declared>, DescriptionError> {
    let declared: Option<Declared> = section.given(field.key)?;
    match declared {
        Some(declared) if !in_range(&declared.value) => {
            Err(section.refuse(field.key, &declared.value.write(), &range(field)))
        }
        declared => Ok(declared),
    }
}

/// The names that would do, and the one that was probably meant.
fn known(key: &str, name: &str) -> String {
    let none = ["none"].into_iter().filter(|_| key == "platform");
    let names: Vec<&str> = none.chain(BUILT_IN.map(|(name, _)| name)).collect();
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let hint =
        nearest(name, names).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    format!(
        "one of {}, or the path of a .toml file{hint}",
        quoted.join(", ")
    )
}

impl Take for Declared {
    fn take(value: &Value) -> Option<Self> {
        let Value::Table(keys) = value else {
            return f64::take(value).map(|value| Self {
                value,
                label: Label::Assumed,
                why: "no source is named".into(),
            });
        };
        let (Some(Value::Text(why)), 2) = (keys.get("why"), keys.len()) else {
            return None;
        };
        let labelled = |label: Label| Some((label, keys.get(label.name())?));
        let (label, value) = Label::ALL.into_iter().find_map(labelled)?;
        Some(Self {
            value: f64::take(value)?,
            label,
            why: why.clone(),
        })
    }

    fn expected() -> String {
        "a number, or { measured = 5, why = \"...\" } with \"measured\", \"given\" or \"assumed\""
            .into()
    }

    fn write(&self) -> String {
        let value = self.value.write();
        format!(
            "{{ {} = {value}, why = {} }}",
            self.label.name(),
            quote(&self.why)
        )
    }
}
