//! Where the prepared kernel is kept between runs, and what was built for it.
//!
//! *Promises.* A prepared kernel (headers, modules) is built aside and renamed into place, so it is
//! there whole or not at all; one process builds, others wait on a lock that dies with its holder;
//! a kernel prepared by another recipe lies in another directory, and one that lost a part is built
//! anew.

use crate::error::At;
use crate::kernel::{self, Kernel};
use crate::{OracleError, tools};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Prefix of directories in which a kernel is being built.
const BUILDING: &str = "building-";

/// The oracle's cache directory, from the environment.
pub fn directory() -> Result<PathBuf, OracleError> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("NANDLAB_CACHE")
        .or_else(|| {
            set("XDG_CACHE_HOME")
                .or_else(|| set("HOME").map(|home| home.join(".cache")))
                .map(|cache| cache.join("nandlab"))
        })
        .map(|cache| cache.join("oracle"))
        .ok_or(OracleError::NoCacheDirectory)
}

/// The kernel kept in `root`; prepares it if it is not there.
pub fn kernel(root: &Path) -> Result<Kernel, OracleError> {
    kept(root, "kernel", &kernel::recipe(), kernel::open, |into| {
        kernel::prepare(into, &tools::locate("depmod")?)
    })
}

/// What `open` finds in the directory of `root` that belongs to a `kind` of things and a `recipe`;
/// calls `build` to fill it if `open` finds nothing whole.
pub fn kept<T>(
    root: &Path,
    kind: &str,
    recipe: &str,
    open: impl Fn(&Path) -> Option<T>,
    build: impl FnOnce(&Path) -> Result<(), OracleError>,
) -> Result<T, OracleError> {
    let place = root.join(format!("{kind}-{:08x}", crc32fast::hash(recipe.as_bytes())));
    if let Some(kept) = open(&place) {
        return Ok(kept);
    }
    fs::create_dir_all(root).at(root)?;
    let lock_path = root.join("lock");
    let lock = File::options()
        .create(true)
        .append(true)
        .open(&lock_path)
        .at(&lock_path)?;
    flock(&lock, FlockOperation::LockExclusive).at(&lock_path)?;
    if let Some(kept) = open(&place) {
        return Ok(kept);
    }
    remove_abandoned(root)?;
    let aside = tempfile::Builder::new()
        .prefix(BUILDING)
        .tempdir_in(root)
        .at(root)?;
    build(aside.path())?;
    if place.exists() {
        fs::remove_dir_all(&place).at(&place)?;
    }
    fs::rename(aside.keep(), &place).at(&place)?;
    open(&place).ok_or_else(|| OracleError::Package {
        package: place.display().to_string(),
        found: "incomplete although just built".into(),
    })
}

/// Removes what a killed builder left; called under the lock, so none is at work.
fn remove_abandoned(root: &Path) -> Result<(), OracleError> {
    for entry in fs::read_dir(root).at(root)? {
        let entry = entry.at(root)?;
        if entry.file_name().to_string_lossy().starts_with(BUILDING) {
            fs::remove_dir_all(entry.path()).at(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    fn open(place: &Path) -> Option<String> {
        fs::read_to_string(place.join("content"))
            .ok()
            .filter(|text| text == "whole")
    }

    fn build(into: &Path) -> Result<(), OracleError> {
        fs::write(into.join("content"), "whole").at(into)
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn one_builds_while_others_wait() {
        let root = tempfile::tempdir().unwrap();
        let builds = AtomicU32::new(0);
        let slow = |into: &Path| {
            builds.fetch_add(1, SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(50));
            build(into)
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert_eq!(
                        kept(root.path(), "kernel", "recipe", open, slow).unwrap(),
                        "whole"
                    )
                });
            }
        });
        assert_eq!(builds.load(SeqCst), 1);
    }

    #[test]
    fn damaged_and_abandoned_builds_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        kept(root.path(), "kernel", "recipe", open, build).unwrap();
        let place = root.path().join(&names(root.path())[0]);
        fs::write(place.join("content"), "half").unwrap();
        fs::create_dir(root.path().join("building-dead")).unwrap();
        assert_eq!(
            kept(root.path(), "kernel", "recipe", open, build).unwrap(),
            "whole"
        );
        assert_eq!(
            names(root.path()).len(),
            2,
            "one kernel and the lock: {:?}",
            names(root.path())
        );
    }

    #[test]
    fn a_failed_build_leaves_nothing_and_another_recipe_has_its_own_place() {
        let root = tempfile::tempdir().unwrap();
        kept(root.path(), "kernel", "recipe", open, |_| {
            Err(OracleError::NoCacheDirectory)
        })
        .unwrap_err();
        assert_eq!(names(root.path()), ["lock"]);
        kept(root.path(), "kernel", "recipe", open, build).unwrap();
        kept(root.path(), "kernel", "other recipe", open, build).unwrap();
        assert_eq!(names(root.path()).len(), 3);
    }
}
