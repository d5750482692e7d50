//! Names of codes, as options and reports have them: `hamming`, `hamming-512`, `hamming-smc`,
//! `bch-8`, `bch-24-1024`.

use crate::{Code, CodeError, Order};
use core::fmt;
use core::str::FromStr;

/// A name that no code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not of the form of a name.
    #[error("expected hamming, hamming-512, hamming-smc, bch-N or bch-N-STEP")]
    Form,
    /// The name has the form, but the code does not exist.
    #[error(transparent)]
    Code(#[from] CodeError),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hamming { step, order } => {
                f.write_str("hamming")?;
                if *step != 256 {
                    write!(f, "-{step}")?;
                }
                match order {
                    Order::Linux => Ok(()),
                    Order::SmartMedia => f.write_str("-smc"),
                }
            }
            Self::Bch { step, strength } => {
                write!(f, "bch-{strength}")?;
                if *step == 512 {
                    return Ok(());
                }
                write!(f, "-{step}")
            }
        }
    }
}

impl FromStr for Code {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let mut words = name.split('-');
        let code = match words.next() {
            Some("hamming") => hamming(words),
            Some("bch") => bch(words),
            _ => None,
        };
        let code = code.ok_or(NameError::Form)?;
        code.check()?;
        Ok(code)
    }
}

fn hamming<'a>(words: impl Iterator<Item = &'a str>) -> Option<Code> {
    let mut words = words.peekable();
    let step = match words.next_if(|word| *word != "smc") {
        Some(word) => word.parse().ok()?,
        None => 256,
    };
    let order = match words.next() {
        Some("smc") => Order::SmartMedia,
        Some(_) => return None,
        None => Order::Linux,
    };
    words
        .next()
        .is_none()
        .then_some(Code::Hamming { step, order })
}

fn bch<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Code> {
    let strength = words.next()?.parse().ok()?;
    let step = words.next().map_or(Some(512), |word| word.parse().ok())?;
    words
        .next()
        .is_none()
        .then_some(Code::Bch { step, strength })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_code_is_found_by_its_name() {
        let hamming = |step, order| Code::Hamming { step, order };
        let bch = |step, strength| Code::Bch { step, strength };
        for (name, code) in [
            ("hamming", hamming(256, Order::Linux)),
            ("hamming-512", hamming(512, Order::Linux)),
            ("hamming-smc", hamming(256, Order::SmartMedia)),
            ("hamming-512-smc", hamming(512, Order::SmartMedia)),
            ("bch-8", bch(512, 8)),
            ("bch-24-1024", bch(1024, 24)),
        ] {
            assert_eq!((name.parse(), code.to_string()), (Ok(code), name.into()));
        }
        assert_eq!("hamming-256".parse(), Ok(Code::LINUX));
    }

    #[test]
    fn a_name_that_no_code_has_is_refused() {
        for name in ["", "bch", "bch-x", "bch-8-512-1", "hamming-smc-512", "rs-4"] {
            assert_eq!(name.parse::<Code>(), Err(NameError::Form), "{name}");
        }
        assert_eq!(
            "bch-99".parse::<Code>(),
            Err(NameError::Code(CodeError::Strength(99)))
        );
    }
}
