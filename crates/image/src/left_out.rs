//! Losses that no error of a read reports.
//!
//! *Promises.* JFFS2 leaves damaged nodes out of its tree, as Linux does: each such loss that the
//! medium reports is listed, with the path of its file and the range of its bytes where these are
//! known. In a salvage, also what may be a loss: of JFFS2, writes that may have been interrupted,
//! inodes without a name, and bytes that are no node; of other formats, each finding of a check
//! that is more than a wrong count, since a chain or a block number that leads elsewhere reads
//! without an error. *Knows nothing of* what reading a file tells by itself.

use crate::check::{check, failed};
use crate::error::Result;
use crate::volume::{Mounted, Volume};
use crate::walk::Losses;
use crate::words::counted;
use nandlab_jffs2::{Finding, Holds, Jffs2, Severity};
use nandlab_mtd::Mtd;
use std::collections::{BTreeMap, BTreeSet};

/// What a format leaves out without a word when it is read: nodes of JFFS2 whose checksums are
/// wrong. Other formats say so when they are read, or when they are checked.
///
/// A name that cannot be read is among them, though a power cut may have torn it: what it named is
/// nowhere to be seen.
pub fn left_out(volume: &mut Volume, salvage: bool) -> Result<Losses> {
    match &mut volume.mounted {
        Some(Mounted::Jffs2(fs)) => of_jffs2(fs, salvage),
        _ => Ok(Losses::default()),
    }
}

/// What is known to be missing before anything is read: what the format leaves out, and in a
/// salvage each finding of a check that may lose contents, with its place.
pub fn known_losses(volume: &mut Volume, salvage: bool) -> Result<Losses> {
    let mut losses = Losses::default();
    let whole = volume.truncation.is_none() && !matches!(volume.mounted, Some(Mounted::Jffs2(_)));
    if !salvage || !whole {
        for trouble in volume.troubles.iter().chain(&volume.unrecovered) {
            losses.add(b"", trouble.as_str());
        }
        losses.merge(left_out(volume, salvage)?);
        return Ok(losses);
    }
    let checked = match check(volume) {
        Ok(checked) => checked,
        Err(error) => {
            losses.add(b"", format!("the image cannot be checked: {error}"));
            return Ok(losses);
        }
    };
    for finding in checked.findings.iter().filter(|finding| finding.may_lose) {
        let what = match finding.severity {
            Severity::Damage => finding.what.clone(),
            _ => format!("more may be missing: {}", finding.what),
        };
        losses.add_at(b"", finding.offset, what);
    }
    losses.more += checked.more;
    Ok(losses)
}

fn of_jffs2<M: Mtd>(fs: &mut Jffs2<M>, salvage: bool) -> Result<Losses> {
    let report = fs.check_structure().map_err(failed)?;
    let is_reported = |finding: &&Finding| is_loss(finding, salvage);
    let reported: Vec<&Finding> = report.findings.iter().filter(is_reported).collect();
    let wanted: BTreeSet<u32> = reported
        .iter()
        .filter_map(|finding| Some(finding.inode()?.0))
        .collect();
    let paths = match wanted.is_empty() {
        true => BTreeMap::new(),
        false => fs.paths(&wanted).map_err(failed)?,
    };
    let mut losses = Losses::default();
    for finding in reported {
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
fn is_loss(finding: &Finding, salvage: bool) -> bool {
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
        // Findings that are reported together.
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
    let mut places = 0u64;
    let mut bytes = 0u64;
    let mut first = None;
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
            "more may be missing: {} cannot be read{first}; {} are no node",
            counted(places, "place"),
            counted(bytes, "byte")
        )
    })
}
