//! Publications reproduced: their numbers beside ours, their claims judged by our runs, everything
//! that was assumed declared.
//!
//! *Promises.* A row's basis is `calibrated` if any constant was chosen with its published value in
//! view, otherwise `predicted`. Whether a claim holds is computed from the runs. What a publication
//! leaves open is an assumption with its value, its label and a reason, and where it decides the
//! result, all its values are run.

mod exhibit;
mod f2fs;
mod ftl_study;
mod jffs2_wb;
mod jftl;
mod page;
mod ubil;

pub use nandlab_lab::report::number::Quantity;
/// What whoever records the rival's requests needs.
pub mod f2fs_rival {
    pub use super::f2fs::{MARK_BYTES, MARKS, PARTITION, Work, place_of_mark};
}

pub use exhibit::{BarExhibit, Drawn, Exhibit, Figure, TableExhibit};

use nandlab_lab::run::{Progress, RunError};
use nandlab_stack::DescriptionError;
use nandlab_stack::host::built_in_costs;
use serde::Serialize;

/// A publication that can be reproduced.
pub struct Paper {
    /// Its name on the command line.
    pub id: &'static str,
    /// What was published.
    pub title: &'static str,
    reproduce: fn(&(dyn Fn(Progress) + Sync)) -> Result<Reproduction, PaperError>,
}

/// Every publication, in the order in which their stacks stand on each other.
pub const ALL: [Paper; 5] = [
    Paper {
        id: "ftl-study",
        title: ftl_study::TITLE,
        reproduce: ftl_study::reproduce,
    },
    Paper {
        id: "jftl",
        title: jftl::TITLE,
        reproduce: jftl::reproduce,
    },
    Paper {
        id: "jffs2-wb",
        title: jffs2_wb::TITLE,
        reproduce: jffs2_wb::reproduce,
    },
    Paper {
        id: "ubil",
        title: ubil::TITLE,
        reproduce: ubil::reproduce,
    },
    Paper {
        id: "f2fs",
        title: f2fs::TITLE,
        reproduce: f2fs::reproduce,
    },
];

impl Paper {
    /// Runs everything; `watch` is told how far it is.
    pub fn reproduce(&self, watch: &(dyn Fn(Progress) + Sync)) -> Result<Reproduction, PaperError> {
        (self.reproduce)(watch)
    }
}

/// Why a publication could not be reproduced: a fault of this program.
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

/// What came of a publication.
pub struct Reproduction {
    /// For machines.
    pub result: PaperResult,
    /// What was published.
    pub title: &'static str,
    /// Tables and figures, in order.
    pub exhibits: Vec<Exhibit>,
}

/// Numbers, claims and assumptions of a publication.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperResult {
    /// Its name on the command line.
    pub paper: String,
    /// Its numbers beside ours.
    pub rows: Vec<Row>,
    /// Its claims.
    pub claims: Vec<Claim>,
    /// What it does not say.
    pub assumptions: Vec<Assumption>,
}

/// A number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Where it stands: `table-1/nftl/hot`.
    pub id: String,
    /// What it is, in words.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// As published; none if it goes beyond the publication.
    pub published: Option<f64>,
    /// As measured here.
    pub measured: f64,
    /// How the measured value came about.
    pub basis: Basis,
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
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Calibrated => "calibrated",
        }
    }
}

/// A claim of the publication.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// What is claimed.
    pub statement: String,
    /// Whether our runs show the same.
    pub holds: bool,
    /// The numbers that decide.
    pub evidence: String,
}

/// What had to be assumed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assumption {
    /// What it is about.
    pub name: String,
    /// What was taken.
    pub value: String,
    /// `given`, `datasheet`, `measured`, `calibrated on ...` or `assumed`.
    pub label: String,
    /// Why.
    pub why: String,
}

impl Assumption {
    /// A paper's open points (name, value, label, reason) and the costs of its platform.
    fn all(open: &[[&str; 4]], platform: Option<&str>) -> Result<Vec<Self>, DescriptionError> {
        let open = open.iter().map(|row| {
            let [name, value, label, why] = row.map(String::from);
            Self {
                name,
                value,
                label,
                why,
            }
        });
        let costs = platform.map_or(Ok(Vec::new()), built_in_costs)?;
        let costs = costs.into_iter().map(|cost| Self {
            name: format!("host.{}", cost.key),
            value: format!("{} {}", cost.value, cost.unit),
            label: cost.label.name().into(),
            why: cost.why,
        });
        Ok(open.chain(costs).collect())
    }
}

impl Reproduction {
    /// For the terminal.
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
