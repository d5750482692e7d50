//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use nandlab_image::words::visible;
use nandlab_lab::Progress;

/// Steps of the bar.
const STEPS: u64 = 1000;

/// One run's bar; gone when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar for the run of this name.
    pub fn new(name: &str) -> Self {
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new(STEPS).with_prefix(visible(name).into_owned());
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} {msg:12} [{wide_bar}] {percent:>3} % {eta:>5}")
        {
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
