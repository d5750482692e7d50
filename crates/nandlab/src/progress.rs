//! A progress bar on standard error, if that is a terminal.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use nandlab_image::words::visible;
use nandlab_lab::Progress;

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Characters beside the bar and the name.
const BESIDE: usize = 28;

/// One run's bar; gone when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar for the run of this name.
    pub fn new(name: &str) -> Self {
        // Hidden by itself where standard error is no terminal.
        let name = visible(name).into_owned();
        let steps = terminal::bar(name.chars().count() + BESIDE);
        let template = format!("{{prefix}} {{msg:12}} [{steps}] {{percent:>3}} % {{eta:>5}}");
        let bar = ProgressBar::new(STEPS).with_prefix(name);
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Shows how far the run has come.
    pub fn show(&self, progress: Progress) {
        self.0.set_message(progress.phase);
        self.0
            .set_position((progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
