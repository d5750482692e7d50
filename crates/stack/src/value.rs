//! What a key holds, and how it becomes a typed value.

use crate::units::{parse_size, parse_time, write_size, write_time};
use nandlab_nand::Ecc;
use std::collections::BTreeMap;
use toml::de::{DeInteger, DeString, DeValue};

/// A value of a TOML document, without its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A boolean: `true` or `false`.
    Bool(bool),
    /// A number without a fraction.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// A string of TOML.
    Text(String),
    /// An array of values.
    List(Vec<Value>),
    /// An inline table of keys and values.
    Table(BTreeMap<String, Value>),
    /// What no key of a description takes: a date, a number beyond 64 bits.
    Other,
}

impl Value {
    /// The value as TOML has it.
    pub(crate) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Boolean(b) => Self::Bool(*b),
            DeValue::Integer(n) => integer(n).map_or(Self::Other, Self::Integer),
            DeValue::Float(x) => x
                .as_str()
                .replace('_', "")
                .parse()
                .map_or(Self::Other, Self::Float),
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Array(list) => {
                Self::List(list.iter().map(|item| Self::of(item.get_ref())).collect())
            }
            DeValue::Table(table) => Self::Table(table.iter().map(pair).collect()),
            DeValue::Datetime(_) => Self::Other,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }
}

fn pair(
    (key, value): (&toml::Spanned<DeString<'_>>, &toml::Spanned<DeValue<'_>>),
) -> (String, Value) {
    (key.get_ref().to_string(), Value::of(value.get_ref()))
}

fn integer(n: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()).ok()
}

/// Text as TOML writes it.
pub fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A type that a key can have.
pub trait Take: Sized {
    /// The value, if it is of this type and in its range.
    fn take(value: &Value) -> Option<Self>;
    /// What would do, in words.
    fn expected() -> String;
    /// As TOML writes it.
    fn write(&self) -> String;
}

/// Bytes, as a number or with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A time in nanoseconds, always with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Take for $type {
            fn take(value: &Value) -> Option<Self> {
                if let Value::Integer(n) = value { <$type>::try_from(*n).ok() } else { None }
            }
            fn expected() -> String {
                format!("a whole number from 0 to {}", <$type>::MAX.min(i64::MAX as u64 as $type))
            }
            fn write(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
whole_numbers!(u8, u16, u32, u64);

impl Take for bool {
    fn take(value: &Value) -> Option<Self> {
        if let Value::Bool(b) = value {
            Some(*b)
        } else {
            None
        }
    }
    fn expected() -> String {
        "true or false".into()
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

impl Take for f64 {
    fn take(value: &Value) -> Option<Self> {
        value.number().filter(|x| x.is_finite())
    }
    fn expected() -> String {
        "a number".into()
    }
    fn write(&self) -> String {
        format!("{self:?}")
    }
}

impl Take for String {
    fn take(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value {
            Some(text.clone())
        } else {
            None
        }
    }
    fn expected() -> String {
        "text in quotes".into()
    }
    fn write(&self) -> String {
        quote(self)
    }
}

impl Take for Size {
    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(n) => u64::try_from(*n).ok().map(Self),
            Value::Text(text) => parse_size(text).map(Self),
            _ => None,
        }
    }
    fn expected() -> String {
        "a size such as 4096, \"4 KiB\" or \"8 GiB\"".into()
    }
    fn write(&self) -> String {
        quote(&write_size(self.0))
    }
}

impl Take for Time {
    fn take(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value {
            parse_time(text).map(Self)
        } else {
            None
        }
    }
    fn expected() -> String {
        "a time such as \"25 us\", \"1.5 ms\" or \"2 s\"".into()
    }
    fn write(&self) -> String {
        quote(&write_time(self.0))
    }
}

/// A number that grows with wear: one for all wear, or the fresh and the worn one.
impl Take for [f64; 2] {
    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::List(list) => match list.as_slice() {
                [fresh, worn] => Some([f64::take(fresh)?, f64::take(worn)?]),
                _ => None,
            },
            single => f64::take(single).map(|x| [x, x]),
        }
    }
    fn expected() -> String {
        "a number, or two: [fresh, at the rated wear]".into()
    }
    fn write(&self) -> String {
        if self[0] == self[1] {
            self[0].write()
        } else {
            format!("[{}, {}]", self[0].write(), self[1].write())
        }
    }
}

impl Take for Vec<String> {
    fn take(value: &Value) -> Option<Self> {
        if let Value::List(list) = value {
            list.iter().map(String::take).collect()
        } else {
            None
        }
    }
    fn expected() -> String {
        "a list of texts in quotes".into()
    }
    fn write(&self) -> String {
        format!(
            "[{}]",
            self.iter()
                .map(|text| quote(text))
                .collect::<Vec<_>>()
                .join(", ")
        )
    }
}

impl Take for Ecc {
    fn take(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else {
            return None;
        };
        if text == "none" {
            return Some(Self::None);
        }
        if let Some(codeword) = text.strip_prefix("hamming-") {
            return Some(Self::Hamming {
                codeword: codeword.parse().ok()?,
            });
        }
        let (bits, codeword) = text.strip_prefix("bch-")?.split_once('/')?;
        Some(Self::Bch {
            bits: bits.parse().ok()?,
            codeword: codeword.parse().ok()?,
        })
    }
    fn expected() -> String {
        "\"none\", \"hamming-512\" (bytes a codeword) or \"bch-40/1024\" (bits corrected in so many bytes)".into()
    }
    fn write(&self) -> String {
        match self {
            Self::None => quote("none"),
            Self::Hamming { codeword } => quote(&format!("hamming-{codeword}")),
            Self::Bch { bits, codeword } => quote(&format!("bch-{bits}/{codeword}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        Value::of(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn every_type_reads_what_it_writes() {
        fn back<T: Take + PartialEq + std::fmt::Debug>(value: T) {
            assert_eq!(T::take(&parsed(&value.write())), Some(value));
        }
        back(7u8);
        back(u64::MAX >> 1);
        back(true);
        back(1e-9);
        back(0.07);
        back(String::from("a \"b\"\n"));
        back(Size(8 << 30));
        back(Time(25_000));
        back([1e-6, 2e-6]);
        back([0.5, 0.5]);
        back(vec![String::from("usr,0")]);
        for ecc in [
            Ecc::None,
            Ecc::Hamming { codeword: 256 },
            Ecc::Bch {
                bits: 40,
                codeword: 1024,
            },
        ] {
            back(ecc);
        }
    }

    #[test]
    fn numbers_outside_their_type_are_none() {
        assert_eq!(u8::take(&parsed("256")), None);
        assert_eq!(u32::take(&parsed("-1")), None);
        assert_eq!(u32::take(&parsed("1.0")), None);
        assert_eq!(u64::take(&parsed("0xff")), Some(255));
        assert_eq!(u64::take(&parsed("99999999999999999999")), None);
        assert_eq!(f64::take(&parsed("nan")), None);
        assert_eq!(f64::take(&parsed("inf")), None);
        assert_eq!(f64::take(&parsed("3")), Some(3.0));
        assert_eq!(Time::take(&parsed("25")), None);
        assert_eq!(<[f64; 2]>::take(&parsed("[1, 2, 3]")), None);
        assert_eq!(Ecc::take(&parsed("\"bch-40\"")), None);
    }
}
