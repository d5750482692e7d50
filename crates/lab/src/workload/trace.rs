//! Recorded requests: the keys of `type = "trace"`.

use super::{
    Decided, Feed, FitRule, Kind, OpenError, Requests, TraceDescription, WorkloadDescription,
};
use crate::trace_file::TraceFeed;
use nandlab_stack::value::Size;
use nandlab_stack::{DescriptionError, Section, units};
use nandlab_workload::trace::{Action, Format, Options, Unit, Units};
use std::num::NonZeroU64;
use std::path::Path;

pub(super) const KIND: Kind = Kind {
    name: "trace",
    keys: &[
        "file",
        "format",
        "action",
        "unit",
        "units",
        "stack",
        "passes",
        "fit",
        "span",
        "time-scale",
    ],
    take: |section| {
        Ok(WorkloadDescription::requests(TraceDescription::take(
            section,
        )?))
    },
};

impl Requests for TraceDescription {
    fn has_times(&self) -> bool {
        true
    }

    fn file(&self) -> Option<&Path> {
        Some(&self.file)
    }

    fn open(
        &self,
        bytes: u64,
        sector: u64,
        _seed: u64,
    ) -> Result<(Box<dyn Feed>, Decided), OpenError> {
        Ok((Box::new(TraceFeed::open(self, bytes, sector)?), Vec::new()))
    }
}

impl TraceDescription {
    fn take(section: &mut Section) -> Result<Self, DescriptionError> {
        let file = section
            .path("file")?
            .ok_or_else(|| section.missing("file", "the path of a trace"))?;
        let formats = [
            ("auto", None),
            ("msr", Some(Format::Msr)),
            ("blkparse", Some(Format::Blkparse)),
            ("fio", Some(Format::Fio)),
            ("spc", Some(Format::Spc)),
        ];
        let format = section.choice("format", &formats, None)?;
        let actions = [
            ("queue", Action::Queue),
            ("issue", Action::Issue),
            ("complete", Action::Complete),
        ];
        let action = section.choice("action", &actions, Action::Queue)?;
        let units = trace_units(section)?;
        let passes = section.checked("passes", 1, |n| *n > 0, "at least 1")?;
        let options = Options {
            action,
            units,
            passes: NonZeroU64::new(passes).unwrap_or(NonZeroU64::MIN),
        };
        let rules = [
            ("refuse", FitRule::Refuse),
            ("wrap", FitRule::Wrap),
            ("scale", FitRule::Scale(None)),
        ];
        let mut fit = section.choice("fit", &rules, FitRule::Refuse)?;
        if fit == FitRule::Scale(None) {
            fit = FitRule::Scale(section.given::<Size>("span")?.map(|span| span.0));
            if fit == FitRule::Scale(Some(0)) {
                return Err(section.refuse(
                    "span",
                    "0",
                    "the trace's address range, at least 1 byte",
                ));
            }
        } else {
            section.inapplicable(&["span"], "fit = \"scale\"")?;
        }
        let time_scale = section.checked(
            "time-scale",
            1.0,
            |scale| *scale >= 0.0,
            "a factor, not negative",
        )?;
        Ok(Self {
            file,
            format,
            options,
            fit,
            time_scale,
        })
    }
}

/// Which disks of a trace, and where they go.
fn trace_units(section: &mut Section) -> Result<Units, DescriptionError> {
    if let Some(unit) = section.given::<String>("unit")? {
        section.conflicting(&["units", "stack"], "unit")?;
        return Ok(Units::Only(unit));
    }
    if let Some(list) = section.given::<Vec<String>>("stack")? {
        section.conflicting(&["units"], "stack")?;
        let unit = |text: &String| {
            let (name, size) = text.rsplit_once('=')?;
            Some(Unit {
                name: name.trim().into(),
                bytes: units::parse_size(size)?,
            })
        };
        let stacked: Option<Vec<Unit>> = list.iter().map(unit).collect();
        let expected = "units with their sizes, such as [\"usr,0 = 10 GiB\", \"usr,1 = 5 GiB\"]";
        return stacked
            .filter(|list| !list.is_empty())
            .map(Units::Stacked)
            .ok_or_else(|| section.refuse("stack", &format!("{list:?}"), expected));
    }
    let overlaid = section.choice("units", &[("single", false), ("overlaid", true)], false)?;
    Ok(if overlaid {
        Units::Overlaid
    } else {
        Units::Single
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::take;
    use nandlab_stack::Document;

    #[test]
    fn each_bad_trace_description_is_refused_at_its_key() {
        let cases = [
            (
                "",
                "e.toml:1:2: workload.file: missing, expected the path of a trace",
            ),
            (
                "file = \"t\"\nformat = \"csv\"",
                "workload.format: found \"csv\", expected one of \"auto\", \"msr\"",
            ),
            (
                "file = \"t\"\naction = \"Q\"",
                "workload.action: found \"Q\"",
            ),
            (
                "file = \"t\"\npasses = 0",
                "workload.passes: found 0, expected at least 1",
            ),
            (
                "file = \"t\"\nfit = \"shrink\"",
                "workload.fit: found \"shrink\", expected one of \"refuse\", \"wrap\", \"scale\"",
            ),
            (
                "file = \"t\"\nspan = 1",
                "workload.span: has no effect, it needs fit = \"scale\"",
            ),
            (
                "file = \"t\"\nfit = \"scale\"\nspan = 0",
                "workload.span: found 0, expected the trace's address range",
            ),
            (
                "file = \"t\"\ntime-scale = -1",
                "workload.time-scale: found -1.0, expected a factor",
            ),
            (
                "file = \"t\"\nunit = \"a\"\nunits = \"single\"",
                "workload.units: conflicts with ",
            ),
            (
                "file = \"t\"\nunits = \"all\"",
                "workload.units: found \"all\", expected one of \"single\", \"overlaid\"",
            ),
            (
                "file = \"t\"\nstack = [\"a\"]",
                "workload.stack: found [\"a\"], expected units with their sizes",
            ),
            (
                "file = \"t\"\nstack = []",
                "workload.stack: found [], expected units with their sizes",
            ),
            (
                "file = \"t\"\nblock = 512",
                "workload.block: has no effect, it needs type = \"pattern\"",
            ),
        ];
        for (text, expected) in cases {
            let error = take(&format!("type = \"trace\"\n{text}"))
                .err()
                .unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_trace_may_stack_its_units() {
        let text = "[workload]\nfile = \"t\"\nstack = [\"usr,0 = 1 GiB\", \"usr,1=2 GiB\"]";
        let mut document = Document::parse("e.toml", Path::new("dir"), text, &[]).unwrap();
        let trace = TraceDescription::take(&mut document.section("workload")).unwrap();
        let unit = |name: &str, bytes| Unit {
            name: name.into(),
            bytes,
        };
        assert_eq!(
            trace.options.units,
            Units::Stacked(vec![unit("usr,0", 1 << 30), unit("usr,1", 2 << 30)])
        );
        assert_eq!(trace.file, Path::new("dir/t"));
    }
}
