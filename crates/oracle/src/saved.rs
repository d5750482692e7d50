//! Guests that have booted and wait for their files. Most of a short guest's time went into its
//! boot; now each size of memory boots once, and is saved. A guest goes on from there.
//!
//! A guest in virtual time boots: the published counts of instructions belong to its boot.

use crate::error::At;
use crate::kernel::Kernel;
use crate::machine::{self, Files, STATE, Start};
use crate::{Guest, OracleError, Running, cache, initrd, tools};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file with the state.
const FILE: &str = "state";
/// The file with the length of the state; written last.
const COMPLETE: &str = "complete";
/// A boot takes seconds; this is for a host that is very busy.
const PATIENCE: Duration = Duration::from_secs(240);

/// The state of a guest with so much memory, kept between runs.
pub fn state(kernel: &Kernel, memory_mib: u32) -> Result<PathBuf, OracleError> {
    let recipe = recipe(kernel, memory_mib)?;
    cache::kept(&cache::directory()?, "saved", &recipe, open, |into| {
        save(into, kernel, memory_mib)
    })
}

/// All that a state depends on. Its first number stands for the machine that `machine` describes.
fn recipe(kernel: &Kernel, memory_mib: u32) -> Result<String, OracleError> {
    let machine = version(&tools::locate(machine::QEMU)?)?;
    let busybox = version(&tools::locate("busybox")?)?;
    let image = version(&kernel.image)?;
    let scripts = [initrd::WAITING_INIT, initrd::HELPERS];
    Ok(format!(
        "1 {memory_mib} {machine} {busybox} {image} {scripts:?}"
    ))
}

/// Tells a file from its later versions.
fn version(path: &Path) -> Result<String, OracleError> {
    let found = fs::metadata(path).at(path)?;
    let [length, seconds, nanos] = [found.len().cast_signed(), found.mtime(), found.mtime_nsec()];
    Ok(format!("{} {length} {seconds} {nanos}", path.display()))
}

/// The state in `place`, if it is whole.
fn open(place: &Path) -> Option<PathBuf> {
    let state = place.join(FILE);
    let length = fs::read_to_string(place.join(COMPLETE)).ok()?;
    let is_whole = fs::metadata(&state).ok()?.len().to_string() == length;
    is_whole.then_some(state)
}

fn save(into: &Path, kernel: &Kernel, memory_mib: u32) -> Result<(), OracleError> {
    let state = into.join(FILE);
    let scratch = tempfile::tempdir_in(into).at(into)?;
    let files = Files::inside(scratch.path());
    let guest = Guest::new(kernel.clone()).memory(memory_mib);
    initrd::write_waiting(&files.archive, &kernel.base)?;
    let mut command = machine::command(Start::ToBeSaved(&kernel.image), &files, &guest)?;
    command.env(STATE, &state);
    let monitor = files.monitor.clone();
    let mut guest = Running::start(command, scratch, files, PATIENCE)?;
    guest.wait_for("waits", PATIENCE)?;
    let answer = ask_to_save(&monitor).at(&monitor)?;
    drop(guest);
    if !answer.contains("completed") {
        return Err(OracleError::Program {
            command: format!("{} monitor: migrate", machine::QEMU),
            status: "not completed".into(),
            stderr: answer,
        });
    }
    let length = fs::metadata(&state).at(&state)?.len();
    let complete = into.join(COMPLETE);
    fs::write(&complete, length.to_string()).at(&complete)
}

/// The monitor's answer. QEMU ends with it. The guest is not stopped first: it would stand still
/// wherever it goes on.
fn ask_to_save(monitor: &Path) -> std::io::Result<String> {
    let mut monitor = UnixStream::connect(monitor)?;
    monitor.set_read_timeout(Some(PATIENCE))?;
    let save = format!("migrate \"exec:cat > \\\"${STATE}\\\"\"\n");
    for command in [&save, "info migrate\n", "quit\n"] {
        monitor.write_all(command.as_bytes())?;
    }
    let mut answer = Vec::new();
    monitor.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_lost_a_part_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(open(place.path()), None);
        fs::write(place.path().join(FILE), "12345").unwrap();
        assert_eq!(open(place.path()), None);
        fs::write(place.path().join(COMPLETE), "5").unwrap();
        assert_eq!(open(place.path()), Some(place.path().join(FILE)));
        fs::write(place.path().join(FILE), "1234").unwrap();
        assert_eq!(open(place.path()), None);
    }
}
