//! Losses that no error of a read tells of.
//!
//! *Promises.* JFFS2 leaves damaged nodes out of its tree, as Linux does: each such loss that the
//! medium tells of is listed, with the path of its file and the range of its bytes where these are
//! known. In a salvage, also what may be a loss: of JFFS2, writes that may have been interrupted,
//! inodes without a name, and bytes that are no node; of ext, FAT and F2FS, each finding of their
//! checks that is more than a wrong count, since a chain or a block number that leads elsewhere
//! reads without an error. *Knows nothing of* what reading a file tells by itself.

use crate::check::failed;
use crate::error::Result;
use crate::volume::{Mounted, Volume};
use crate::walk::Losses;
use crate::words::counted;
use nandlab_jffs2::{Finding, Holds, Jffs2, Severity};
use nandlab_mtd::Mtd;
use nandlab_vfs::report::{self, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a format leaves out without a word when it is read: nodes of JFFS2 whose checksums are
/// wrong. In a salvage, also what the checks of other formats find.
///
/// A name that cannot be read is among them, though a power cut may have torn it: what it named is
/// nowhere to be seen.
pub fn left_out(volume: &mut Volume, salvage: bool) -> Result<Losses> {
    // Structures of a part of a volume cannot be judged; reading tells what lies behind its end.
    let whole = salvage && volume.lack.is_none();
    match &mut volume.mounted {
        Some(Mounted::Jffs2(fs)) => of_jffs2(fs, salvage),
        Some(Mounted::Ext(fs)) if whole => {
            let report = fs.check().map_err(failed);
            Ok(found(report, ext_counts, |finding| fs.place_of(finding)))
        }
        Some(Mounted::F2fs(fs)) if whole => {
            let report = fs.check().map_err(failed);
            Ok(found(report, f2fs_counts, |finding| fs.place_of(finding)))
        }
        Some(Mounted::Fat(fs)) if whole => {
            let report = fs.check().map_err(failed);
            Ok(found(report, |_| false, |finding| fs.place_of(finding)))
        }
        _ => Ok(Losses::default()),
    }
}

/// Counts and marks of ext, from which no contents hang.
fn ext_counts(finding: &nandlab_ext::Finding) -> bool {
    use nandlab_ext::Finding::{Count, Padding, Undated};
    matches!(finding, Count { .. } | Padding { .. } | Undated { .. })
}

/// The same of F2FS.
fn f2fs_counts(finding: &nandlab_f2fs::Finding) -> bool {
    matches!(finding, nandlab_f2fs::Finding::Count { .. })
}

/// What a check found, as losses of the whole volume.
fn found<F: report::Finding + fmt::Display, T>(
    report: Result<Report<F, T>>,
    is_count: impl Fn(&F) -> bool,
    mut place: impl FnMut(&F) -> Option<u64>,
) -> Losses {
    let mut losses = Losses::default();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            losses.add(b"", format!("the volume cannot be checked: {error}"));
            return losses;
        }
    };
    for finding in &report.findings {
        if finding.severity() > Severity::Note && !is_count(finding) {
            losses.add_at(
                b"",
                place(finding),
                format!("more may be missing: {finding}"),
            );
        }
    }
    losses.more += report.more;
    losses
}

fn of_jffs2<M: Mtd>(fs: &mut Jffs2<M>, salvage: bool) -> Result<Losses> {
    let report = fs.check_structure().map_err(failed)?;
    let told = |finding: &&Finding| is_told(finding, salvage);
    let told: Vec<&Finding> = report.findings.iter().filter(told).collect();
    let wanted: BTreeSet<u32> = told
        .iter()
        .filter_map(|finding| Some(finding.inode()?.0))
        .collect();
    let paths = match wanted.is_empty() {
        true => BTreeMap::new(),
        false => fs.paths(&wanted).map_err(failed)?,
    };
    let mut losses = Losses::default();
    for finding in told {
        losses.add_at(&path(finding, &paths), finding.place(), finding.to_string());
    }
    let unknown = report
        .findings
        .iter()
        .filter(|finding| finding.is_unknown());
    if let Some(what) = passed_over(unknown, report.more).filter(|_| salvage) {
        losses.add(b"", what);
    }
    losses.more += report.more;
    Ok(losses)
}

/// Whether a finding is a loss, and one that reading does not tell.
fn is_told(finding: &Finding, salvage: bool) -> bool {
    let is_lost = match finding {
        Finding::Node { holds, .. } => match holds {
            Holds::Nothing | Holds::Unknown { .. } => false,
            Holds::Name { .. } => true,
            Holds::Removal { .. } => salvage,
            _ => salvage || finding.severity() == Severity::Damage,
        },
        Finding::Unreachable { .. } | Finding::Gap { .. } => {
            salvage || finding.severity() == Severity::Damage
        }
        // Told together.
        Finding::Garbage { .. } | Finding::Page { .. } => false,
        _ => finding.severity() == Severity::Damage,
    };
    is_lost && !finding.is_met_by_reading()
}

/// The path that a finding is about, as far as it is known.
fn path(finding: &Finding, paths: &BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let Some((ino, below)) = finding.inode() else {
        return match finding {
            Finding::Unreachable { path, .. } => path.clone(),
            _ => Vec::new(),
        };
    };
    let above = paths.get(&ino).cloned();
    let above = above.unwrap_or_else(|| format!("#{ino}").into_bytes());
    let separator: &[u8] = match above.is_empty() || below.is_empty() {
        true => b"",
        false => b"/",
    };
    [&above, separator, below].concat()
}

/// What says that more may be missing than is listed.
fn passed_over<'a>(unknown: impl Iterator<Item = &'a Finding>, more: u64) -> Option<String> {
    let (mut places, mut bytes, mut first) = (0u64, 0u64, None);
    for finding in unknown {
        places += 1;
        if let Finding::Garbage { len, .. } = finding {
            bytes += u64::from(*len);
        }
        first = first.or(finding.place());
    }
    let first = first.map_or(String::new(), |at| format!(", the first at byte {at:#x}"));
    (places > 0 || more > 0).then(|| {
        format!(
            "more may be missing: {} hold something that cannot be read{first}; {} of them are no node",
            counted(places, "place"),
            counted(bytes, "byte")
        )
    })
}
