//! Papers reproduced: their numbers beside ours, their claims judged by our runs, everything that
//! was assumed declared.
//!
//! *Promises.* The basis of a row or claim is `calibrated` if an assumption was chosen with its
//! published value in view, otherwise `predicted`; it is computed from what the assumptions say
//! that they had in view. Whether a claim holds is computed from the runs, and is undecided where
//! another seed could turn it over. What a paper leaves open is an assumption with its value, its
//! label and a reason, and where it decides the result, all its values are run.

mod exhibit;
mod f2fs;
mod ftl_study;
mod jffs2_wb;
mod jftl;
mod page;
mod runs;
mod ubil;

pub use nandlab_lab::report::number::Quantity;
/// The interface for recording the rival's requests.
pub mod f2fs_rival {
    pub use super::f2fs::{MARK_BYTES, MARKS, SET_UP, Work, counted, place_of_mark};
}

pub use exhibit::{BarExhibit, Drawn, Exhibit, Figure, TableExhibit};
use exhibit::{line, listed};

use nandlab_lab::run::{Progress, RunError};
use nandlab_lab::verdict::SEEDS;
use nandlab_lab::verdict::{Sample, Verdict};
use nandlab_stack::DescriptionError;
use nandlab_stack::host::built_in_costs;
use runs::{Described, Watch};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// How large a reproduction is, where the published sizes take long. The others have one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// Enough to see that everything runs. F2FS has shorter runs, which decide few of its claims.
    /// The FTL study has fewer places, caches and options, JFTL fewer points, and both
    /// have fewer seeds.
    Small,
    /// Scaled down so that all takes minutes.
    #[default]
    Usual,
    /// As published, where that can be run at all.
    Published,
}

impl Size {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 3] = [
        ("small", Self::Small),
        ("usual", Self::Usual),
        ("published", Self::Published),
    ];

    /// Seeds of a comparison.
    pub(crate) fn seeds(self) -> usize {
        if self == Self::Small { 3 } else { SEEDS }
    }
}

/// A paper that can be reproduced.
pub struct Paper {
    /// Its name on the command line.
    pub id: &'static str,
    /// The title of the paper.
    pub title: &'static str,
    reproduce: fn(Watch<'_>, Size) -> Result<Found, PaperError>,
}

/// Every paper, in the order in which their stacks stand on each other.
pub const ALL: [Paper; 5] = [
    Paper {
        id: "ftl-study",
        title: "FTL performance in conjunction with a file system pursuing data integrity (Doh et al., 2010)",
        reproduce: ftl_study::reproduce,
    },
    Paper {
        id: "jftl",
        title: "Journal Remap-Based FTL for Journaling File System with Flash Memory (2007)",
        reproduce: jftl::reproduce,
    },
    Paper {
        id: "jffs2-wb",
        title: "Write Back Routine for JFFS2 Efficient I/O (2006)",
        reproduce: |watch, _| jffs2_wb::reproduce(watch),
    },
    Paper {
        id: "ubil",
        title: "UBI with Logging (2010)",
        reproduce: |watch, _| ubil::reproduce(watch),
    },
    Paper {
        id: "f2fs",
        title: "F2FS: A New File System Designed for Flash Storage in Mobile (2012)",
        reproduce: f2fs::reproduce,
    },
];

impl Paper {
    /// Runs everything; `watch` receives the progress.
    pub fn reproduce(
        &self,
        size: Size,
        watch: &(dyn Fn(Progress) + Sync),
    ) -> Result<Reproduction, PaperError> {
        let mut found = (self.reproduce)(watch, size)?;
        let dangling = found.set_bases();
        if let Some(id) = dangling.first() {
            let what = format!(
                "an assumption had {id} in view, or a row rests on it; there is no such row, \
                claim or assumption"
            );
            return Err(PaperError::wrong(self.id, what));
        }
        if let Some(series) = found.exhibits.iter().find_map(Exhibit::empty_series) {
            let what = format!("the series {series} of a figure has no points");
            return Err(PaperError::wrong(self.id, what));
        }
        let result = PaperResult {
            paper: self.id.into(),
            rows: found.rows,
            claims: found.claims,
            assumptions: found.assumptions,
        };
        Ok(Reproduction {
            result,
            title: self.title,
            exhibits: found.exhibits,
        })
    }
}

/// What the runs of a paper show.
struct Found {
    rows: Vec<Row>,
    claims: Vec<Claim>,
    assumptions: Vec<Assumption>,
    exhibits: Vec<Exhibit>,
}

impl Found {
    /// Sets the basis of all rows and claims; gives what assumptions had in view that is none, and
    /// what rows rest on that is no assumption.
    fn set_bases(&mut self) -> Vec<String> {
        let views = self.assumptions.iter().flat_map(|one| one.in_view.iter());
        let mut dangling: Vec<String> = views.cloned().collect();
        let views = dangling.clone();
        let rows = self
            .rows
            .iter_mut()
            .map(|row| (row.id.as_str(), &row.rests_on[..], &mut row.basis));
        let claims = self
            .claims
            .iter_mut()
            .map(|claim| (claim.id, &[][..], &mut claim.basis));
        let mut unknown = Vec::new();
        for (id, rests_on, basis) in rows.chain(claims) {
            let of_it = |view: &String| {
                let rest = id.strip_prefix(view.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let mut is_calibrated = views.iter().any(of_it);
            for name in rests_on {
                match self.assumptions.iter().find(|one| one.name == *name) {
                    Some(one) => is_calibrated |= !one.in_view.is_empty(),
                    None => unknown.push(name.clone()),
                }
            }
            *basis = Basis::of(is_calibrated);
            dangling.retain(|view| !of_it(view));
        }
        dangling.extend(unknown);
        dangling
    }
}

/// Why a paper could not be reproduced: a fault of this program.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// An experiment of it is wrong.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// A run of it broke down.
    #[error("{0}: {1}")]
    Run(String, Box<RunError>),
    /// A run of it lost something.
    #[error("{0}: {1}")]
    Wrong(String, String),
}

impl PaperError {
    /// A run of this name lost something.
    fn wrong(name: impl Into<String>, what: impl Display) -> Self {
        Self::Wrong(name.into(), what.to_string())
    }
}

/// What came of a paper.
pub struct Reproduction {
    /// The figures and claims, for programs.
    pub result: PaperResult,
    /// The title of the paper.
    pub title: &'static str,
    /// Tables and figures, in order.
    pub exhibits: Vec<Exhibit>,
}

/// Numbers, claims and assumptions of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperResult {
    /// Its name on the command line.
    pub paper: String,
    /// Its numbers beside ours.
    pub rows: Vec<Row>,
    /// The claims of the paper, each judged.
    pub claims: Vec<Claim>,
    /// What it does not say.
    pub assumptions: Vec<Assumption>,
}

/// A figure of the paper beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Where it stands: `table-1/nftl/hot`.
    pub id: String,
    /// What it is, in words.
    pub what: String,
    /// The unit of both values.
    pub unit: &'static str,
    /// As published; none if it goes beyond the paper.
    pub published: Option<f64>,
    /// The value that was measured here.
    pub measured: f64,
    /// How the measured value came about: computed from the assumptions.
    pub basis: Basis,
    /// The assumptions that feed it, by name, where others of its paper do not.
    #[serde(skip)]
    rests_on: Vec<String>,
}

impl Row {
    /// The same, fed by an assumption: calibrated if that was chosen with any result in view.
    fn resting_on(mut self, assumption: &str) -> Self {
        self.rests_on.push(assumption.into());
        self
    }

    fn new(
        id: impl Into<String>,
        what: impl Into<String>,
        unit: &'static str,
        published: Option<f64>,
        measured: f64,
    ) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            unit,
            published,
            measured,
            basis: Basis::Predicted,
            rests_on: Vec::new(),
        }
    }
}

/// How a value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// No constant in it was chosen with its published value in view.
    Predicted,
    /// A constant was chosen so that it fits: it shows nothing.
    Calibrated,
}

impl Basis {
    fn of(is_calibrated: bool) -> Self {
        match is_calibrated {
            true => Self::Calibrated,
            false => Self::Predicted,
        }
    }

    /// Returns the word that reports print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Calibrated => "calibrated",
        }
    }
}

/// A claim of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The name of the claim, unique in its paper.
    pub id: &'static str,
    /// The sentence that is judged.
    pub statement: String,
    /// Whether our runs show the same.
    pub verdict: Verdict,
    /// The numbers that decide.
    pub evidence: String,
    /// How they came about: computed from the assumptions.
    pub basis: Basis,
}

impl Claim {
    /// A claim with its verdict.
    fn new(
        id: &'static str,
        statement: impl Into<String>,
        verdict: Verdict,
        evidence: impl Into<String>,
    ) -> Self {
        Self {
            id,
            statement: statement.into(),
            verdict,
            evidence: evidence.into(),
            basis: Basis::Predicted,
        }
    }
}

/// What had to be assumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What it is about.
    pub name: String,
    /// The value that this reproduction takes.
    pub value: String,
    /// `given`, `datasheet`, `measured`, `calibrated on ...` or `assumed`.
    pub label: String,
    /// The reason for that value.
    pub why: String,
    /// The rows and claims whose published values were in view when it was chosen, by the
    /// beginnings of their ids: `figure-2`.
    #[serde(default, rename = "in-view")]
    pub in_view: Vec<String>,
}

impl Assumption {
    /// The assumptions in a file, and the costs of the platform.
    fn all(open: &Described, platform: Option<&str>) -> Result<Vec<Self>, PaperError> {
        #[derive(Deserialize)]
        struct Open {
            assumption: Vec<Assumption>,
        }
        let open: Open =
            toml::from_str(open.text).map_err(|error| PaperError::wrong(open.file, error))?;
        let costs = platform.map_or(Ok(Vec::new()), built_in_costs)?;
        let costs = costs.into_iter().map(|cost| Self {
            name: format!("host.{}", cost.key),
            value: format!("{} {}", cost.value, cost.unit),
            label: cost.label.name().into(),
            why: cost.why,
            in_view: Vec::new(),
        });
        Ok(open.assumption.into_iter().chain(costs).collect())
    }
}

/// A figure of one run, of which its seed decides a part.
fn once(value: f64) -> Sample {
    Sample::of(&[value])
}

/// The least and the largest.
fn range(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
}

impl Reproduction {
    /// Renders the result for a terminal.
    pub fn text(&self) -> String {
        page::text(self)
    }

    /// For machines: rows, claims and assumptions, and behind them every table.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            result: &'a PaperResult,
            tables: Vec<&'a TableExhibit>,
        }
        serde_json::to_string(&Whole {
            result: &self.result,
            tables: page::tables(self),
        })
    }

    /// For people: sections of a report.
    pub fn html(&self) -> String {
        page::html(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runs::described;

    fn files() -> [(Described, Option<&'static str>); 5] {
        [
            (described!("ftl-study/assumptions.toml"), Some("arm-400mhz")),
            (described!("jftl/assumptions.toml"), Some("pc-3ghz")),
            (described!("jffs2-wb/assumptions.toml"), Some("omap5912")),
            (described!("ubil/assumptions.toml"), Some("omap2420")),
            (described!("f2fs/assumptions.toml"), None),
        ]
    }

    #[test]
    fn the_assumptions_of_each_paper_are_read_whole() {
        for (file, platform) in files() {
            let reported = file.text.matches("[[assumption]]").count();
            let all = Assumption::all(&file, platform).unwrap();
            assert!(reported > 0 && all.len() >= reported, "{}", file.file);
            assert!(all.iter().all(|assumption| !assumption.why.is_empty()));
        }
    }

    #[test]
    fn whatever_was_chosen_with_a_result_in_view_says_which() {
        for (file, platform) in files() {
            for one in Assumption::all(&file, platform).unwrap() {
                let is_chosen = one.why.contains("in view") || one.label.contains("calibrated");
                assert_eq!(is_chosen, !one.in_view.is_empty(), "{}: {one:?}", file.file);
            }
        }
    }

    /// Rows `a/1`, `ab` and a claim `c`, with an assumption that had these in view.
    fn found(in_view: &[&str]) -> Found {
        let row = |id: &str| Row::new(id, "", "", None, 1.0);
        let assumption = Assumption {
            name: "n".into(),
            value: "v".into(),
            label: "calibrated on a".into(),
            why: "w".into(),
            in_view: in_view.iter().map(ToString::to_string).collect(),
        };
        Found {
            rows: vec![row("a/1"), row("ab")],
            claims: vec![Claim::new("c", "", Verdict::Holds, "")],
            assumptions: vec![assumption],
            exhibits: Vec::new(),
        }
    }

    #[test]
    fn a_value_that_was_in_view_is_calibrated_and_no_other() {
        use Basis::{Calibrated, Predicted};
        let bases = |in_view: &[&str]| {
            let mut found = found(in_view);
            let dangling = found.set_bases();
            let rows = found.rows.iter().map(|row| row.basis);
            let bases: Vec<Basis> = rows.chain([found.claims[0].basis]).collect();
            (bases, dangling)
        };
        let nothing = Vec::<String>::new();
        assert_eq!(
            bases(&["a"]),
            (vec![Calibrated, Predicted, Predicted], nothing.clone())
        );
        assert_eq!(
            bases(&["c"]),
            (vec![Predicted, Predicted, Calibrated], nothing)
        );
        assert_eq!(bases(&["d"]), (vec![Predicted; 3], vec!["d".to_string()]));
    }

    #[test]
    fn a_row_that_a_calibrated_value_feeds_is_calibrated_whatever_it_had_in_view() {
        let mut found = found(&["a"]);
        let fed = |id: &str, name: &str| Row::new(id, "", "", None, 1.0).resting_on(name);
        found.rows.extend([fed("d", "n"), fed("e", "no such")]);
        assert_eq!(found.set_bases(), ["no such"]);
        let bases = found.rows.iter().map(|row| row.basis);
        use Basis::{Calibrated, Predicted};
        assert_eq!(
            bases.collect::<Vec<_>>(),
            [Calibrated, Predicted, Calibrated, Predicted]
        );
    }

    #[test]
    fn a_figure_with_a_series_that_is_not_drawn_is_found() {
        let figure = |points: &[(f64, f64)]| Figure {
            title: String::new(),
            about: String::new(),
            x: String::new(),
            y: String::new(),
            drawn: Drawn::Lines,
            of: (Quantity::Count, Quantity::Count),
            series: vec![("s".into(), points.to_vec())],
        };
        let shown = |points: &[_]| Exhibit::Figures(String::new(), vec![figure(points)]);
        assert_eq!(shown(&[]).empty_series(), Some("s"));
        assert_eq!(shown(&[(0.0, 1.0), (1.0, 1.0)]).empty_series(), None);
    }
}
