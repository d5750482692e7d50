//! What is wrong with an image, in the words of its own format.
//!
//! *Promises.* Every structure is looked at, nothing is changed. *Knows nothing of* repair: see
//! [`crate::edit`] for the repairs of a mount.

use crate::error::{ImageError, Result, Shown};
use crate::flips::{Flips, flips};
use crate::sink::{Bytes, Sink};
use crate::tree::Entry;
use crate::volume::{Mounted, Volume};
use crate::walk::Losses;
use crate::words::placed;
use nandlab_vfs::Errno;
pub use nandlab_vfs::report::Severity;
use nandlab_vfs::report::{self, FINDINGS_MAX, Report};
use serde::{Serialize, Serializer};
use std::fmt;

/// A deviation that the check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    #[serde(serialize_with = "in_words")]
    pub severity: Severity,
    /// Where it is, in bytes of the file system, or for UBI of the flash's data, where that is one
    /// place.
    pub offset: Option<u64>,
    /// The finding, in words.
    pub what: String,
    /// Whether contents may be missing because of it.
    #[serde(skip)]
    pub may_lose: bool,
}

impl Finding {
    /// A finding of an image; damage may lose contents.
    pub(crate) fn new(severity: Severity, offset: Option<u64>, what: String) -> Self {
        Self {
            severity,
            offset,
            what,
            may_lose: severity == Severity::Damage,
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The findings in the order of their discovery.
    pub findings: Vec<Finding>,
    /// Findings beyond those that are kept.
    pub more: u64,
    /// Parts that were not looked at.
    pub unseen: Vec<String>,
    /// The feature that is not supported, if there is one. It is no damage.
    pub unsupported: Option<String>,
    /// What error correction did, in a dump that has it.
    pub flips: Option<Flips>,
}

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All was looked at, and nothing is damaged.
    Sound,
    /// At least one finding is damage.
    Damaged,
    /// Nothing is damaged in what was looked at, which was not all.
    NotLookedAt,
    /// A feature of the file system is not supported.
    NotSupported,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "sound",
            Self::Damaged => "damaged",
            Self::NotLookedAt => "not looked at",
            Self::NotSupported => "not supported",
        })
    }
}

fn in_words<S: Serializer>(severity: &Severity, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_str(severity)
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, placed(self.offset, &self.what))
    }
}

impl Checked {
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding)
        } else {
            self.more += 1
        }
    }

    /// Adds what a file system found; `place` gives the byte of a finding.
    fn absorb<F: report::Finding + fmt::Display, T>(
        &mut self,
        report: Report<F, T>,
        mut place: impl FnMut(&F) -> Option<u64>,
    ) {
        self.more += report.more;
        self.findings
            .extend(report.findings.iter().map(|finding| Finding {
                severity: finding.severity(),
                offset: place(finding),
                what: finding.to_string(),
                may_lose: finding.may_lose(),
            }));
    }

    /// What it comes to.
    pub fn verdict(&self) -> Verdict {
        if self.worst() == Some(Severity::Damage) {
            Verdict::Damaged
        } else if self.unsupported.is_some() {
            Verdict::NotSupported
        } else if self.unseen.is_empty() {
            Verdict::Sound
        } else {
            Verdict::NotLookedAt
        }
    }

    /// Returns the severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Names that a file system does not list, though their nodes are whole: JFFS2 drops names that no
/// path can hold.
pub fn unlisted(volume: &Volume) -> Losses {
    let mut losses = Losses::default();
    if let Some(Mounted::Jffs2(fs)) = &volume.mounted {
        let noted = fs.noted();
        let names = noted
            .findings
            .iter()
            .filter(|finding| matches!(finding, nandlab_jffs2::Finding::Name { .. }));
        names.for_each(|finding| losses.add_at(b"", finding.place(), finding.to_string()));
        losses.more = noted.more;
    }
    losses
}

pub(crate) fn failed(why: impl std::fmt::Display) -> ImageError {
    ImageError::Call {
        path: Shown::path(b""),
        error: Errno::Io,
        why: why.to_string(),
    }
}

/// Returns the damage that a write would make worse, in words. A volume with such damage must not
/// be edited.
pub(crate) fn danger(volume: &mut Volume) -> Result<Option<String>> {
    match &mut volume.mounted {
        Some(Mounted::Fat(fs)) => {
            let report = fs.check().map_err(failed)?;
            let mut findings = report.findings.iter();
            let found = findings.find(|finding| finding.endangers_writes());
            // The finding may be among those that were not kept.
            let unknown = || (report.more > 0).then(|| format!("over {FINDINGS_MAX} findings"));
            let found = found.map(ToString::to_string).or_else(unknown);
            Ok(found.map(|what| format!("{what}; check --repair may repair it")))
        }
        Some(Mounted::Jffs2(fs)) => {
            let found = fs.crossing_node().map_err(failed)?;
            let advice = "give the size of an erase block if it is larger";
            Ok(found.map(|what| format!("{what}; {advice}")))
        }
        Some(Mounted::Ubifs(fs)) => {
            let report = fs.check();
            let mut findings = report.findings.iter();
            let found = findings.find(|finding| finding.endangers_writes());
            Ok(found.map(ToString::to_string))
        }
        _ => Ok(None),
    }
}

/// Looks at everything in an opened image.
pub fn check(volume: &mut Volume) -> Result<Checked> {
    let mut checked = Checked::default();
    if let Some(why) = &volume.unrecovered {
        checked.findings.push(Finding::new(
            Severity::Damage,
            None,
            format!("the journal cannot be recovered: {why}"),
        ));
    }
    // UBIFS recovers in memory, at each mount.
    let in_use = matches!(&volume.mounted, Some(Mounted::Ubifs(fs)) if fs.journal().in_use);
    if volume.recovered || in_use {
        let what = "the journal is still to be recovered: the volume was not unmounted".into();
        checked.add(Finding::new(Severity::Note, None, what));
    }
    for what in &volume.troubles {
        checked.add(Finding::new(Severity::Damage, None, what.clone()));
    }
    checked.unsupported = volume.unsupported.clone();
    checked.unseen = unseen(volume);
    checked.flips = flips(volume, &mut checked)?;
    check_ubi(volume, &mut checked)?;
    if volume.truncation.is_some() && volume.mounted.is_some() {
        check_short(volume, &mut checked)?;
        return Ok(checked);
    }
    match &mut volume.mounted {
        Some(Mounted::Jffs2(fs)) => {
            checked.absorb(fs.check().map_err(failed)?, nandlab_jffs2::Finding::place)
        }
        Some(Mounted::Ext(fs)) => {
            checked.absorb(fs.check().map_err(failed)?, |finding| fs.place_of(finding))
        }
        Some(Mounted::F2fs(fs)) => {
            checked.absorb(fs.check().map_err(failed)?, |finding| fs.place_of(finding))
        }
        Some(Mounted::Fat(fs)) => {
            checked.absorb(fs.check().map_err(failed)?, |finding| fs.place_of(finding))
        }
        Some(Mounted::Squashfs(fs)) => {
            let report = fs.check().map_err(failed)?;
            checked.absorb(report, nandlab_squashfs::Finding::place);
        }
        Some(Mounted::Ubifs(fs)) => {
            let report = fs.check();
            let leb = u64::from(fs.head().geometry.leb);
            let place = |(lnum, offs)| u64::from(lnum) * leb + u64::from(offs);
            checked.absorb(report, |finding| finding.leb().map(place));
        }
        None => {}
    }
    Ok(checked)
}

/// File systems in UBI volumes that a check does not look into.
fn unseen(volume: &Volume) -> Vec<String> {
    let volumes = volume.ubi_volumes();
    let known = volume.mounted.is_some() || volume.unsupported.is_some();
    if volumes.is_none() && !known && volume.troubles.is_empty() {
        return vec!["what lies on it, since it begins like no file system that is known".into()];
    }
    let others = volumes.into_iter().flatten().filter_map(|one| {
        let holds = one.holds.filter(|_| volume.looked_into != Some(one.id))?;
        Some(format!("{holds} in volume {} ({})", one.id, one.name))
    });
    others.chain(features_of_ext4(volume)).collect()
}

/// What features add to a volume that can be read without them.
fn features_of_ext4(volume: &Volume) -> Option<String> {
    let Some(Mounted::Ext(fs)) = &volume.mounted else {
        return None;
    };
    let features = fs.layout().unchecked_features();
    (!features.is_empty()).then(|| format!("what features of ext4 add: {}", features.join(", ")))
}

/// Of a truncated file system: the unreadable parts of its tree. Its cross-references cannot be
/// judged without all of them.
fn check_short(volume: &mut Volume, checked: &mut Checked) -> Result<()> {
    let mut nothing = |_| {};
    let mut walk = volume.walk(true, &mut nothing)?;
    walk.run(b"", &mut Reader)?;
    let losses = walk.losses;
    for loss in losses.list {
        checked.add(Finding::new(
            Severity::Damage,
            loss.offset,
            format!("{}: {}", loss.path, loss.what),
        ));
    }
    checked.more += losses.more;
    let what = "only the tree was looked at: bitmaps, tables and counts cannot be judged by a part of them".into();
    checked.add(Finding::new(Severity::Note, None, what));
    Ok(())
}

/// Reads contents, and keeps nothing.
struct Reader;

impl Sink for Reader {
    fn put(&mut self, _: &Entry, bytes: &mut dyn Bytes) -> Result<()> {
        bytes.each(&mut |_, _| Ok(()))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// UBI by its headers and checksums; where there are no headers by what its log says.
fn check_ubi(volume: &Volume, checked: &mut Checked) -> Result<()> {
    if let Some(mut survey) = volume.survey(None)? {
        // Blocks of a log have no volume header either.
        if !volume.has_ubi_log() {
            survey.find_unerased(&mut *volume.flash()?)?;
        }
        survey
            .checked
            .findings
            .into_iter()
            .for_each(|finding| checked.add(finding));
        checked.more += survey.checked.more;
        return Ok(());
    }
    let Some(volumes) = volume.ubi_volumes() else {
        return Ok(());
    };
    let mut ubi = volume.attached()?;
    for one in volumes.iter().filter(|one| one.kind == "static") {
        let lost = ubi.check_volume(one.id).map_err(|error| ImageError::Open {
            layer: "UBI",
            why: error.to_string(),
        })?;
        for lnum in lost {
            let what = format!(
                "volume {} ({}), LEB {lnum}: no block with the right checksum",
                one.id, one.name
            );
            checked.add(Finding::new(Severity::Damage, None, what));
        }
    }
    Ok(())
}
