//! What a boot gave.

use crate::{Manifest, OracleError};
use std::collections::BTreeMap;
use std::time::Duration;

/// The guest prints this line when its script has ended.
const END: &str = "The script has ended.";

/// What a boot gave.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything on the guest's console: kernel messages and what the script printed.
    pub console: String,
    /// What the script said, in order, by key.
    pub values: BTreeMap<String, Vec<String>>,
    /// What the script sent, by key; the last one where a key was used twice.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The trees that the script listed, by key; the last one where a key was used twice.
    pub manifests: BTreeMap<String, Manifest>,
    /// The script's exit status; 137, as of a shell whose child was killed, if it did not get so
    /// far.
    pub exit: i32,
    /// Wall time from the start of QEMU to its end.
    pub wall: Duration,
    /// Whether QEMU was killed by [`Running::kill`](crate::Running::kill) before the guest had
    /// powered itself off.
    pub qemu_killed: bool,
}

impl Report {
    /// The last value said under `key`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.last().map(String::as_str)
    }

    /// The report, if the script ended with status zero.
    pub fn success(self) -> Result<Self, OracleError> {
        match self.exit {
            0 => Ok(self),
            exit => Err(OracleError::Script {
                exit,
                console: tail(of_script(&self.console)),
            }),
        }
    }
}

/// The console up to the end of the script.
fn of_script(console: &str) -> &str {
    console.rfind(END).map_or(console, |end| &console[..end])
}

/// The last lines of a console; from the kernel's panic on where there was one, since the trace
/// behind it may be long.
pub(crate) fn tail(console: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<_> = console.lines().collect();
    let last = lines.len().saturating_sub(LINES);
    let panic = lines
        .iter()
        .rposition(|line| line.contains("Kernel panic"))
        .unwrap_or(last);
    lines[panic.min(last)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_behind_the_script_does_not_hide_the_reason() {
        let later = "later\n".repeat(100);
        let console = format!("earlier\nthe reason\n{END}\n{later}");
        assert_eq!(tail(of_script(&console)), "earlier\nthe reason");
        assert_eq!(of_script(&later), later);
    }

    #[test]
    fn a_failed_script_is_an_error_that_shows_the_end_of_the_console() {
        let console: String = (0..100).map(|i| format!("line {i}\n")).collect();
        assert_eq!(Report::default().success().unwrap().exit, 0);
        let error = Report {
            exit: 3,
            console,
            ..Report::default()
        }
        .success()
        .unwrap_err()
        .to_string();
        assert!(
            error.contains("exit status 3")
                && error.ends_with("line 99")
                && !error.contains("line 59"),
            "{error}"
        );
    }
}
