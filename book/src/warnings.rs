//! mdBook reports problems as log events. This subscriber prints warnings and errors and counts
//! them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The number of warnings so far.
pub struct Warnings(Arc<AtomicU32>);

impl Warnings {
    /// Returns the number of warnings and errors since [`listen`].
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Prints and counts all warnings of this process from now on.
pub fn listen() -> Warnings {
    let count = Arc::new(AtomicU32::new(0));
    let counter = Counter(Arc::clone(&count));
    tracing::subscriber::set_global_default(counter).expect("this is the only subscriber");
    Warnings(count)
}

struct Counter(Arc<AtomicU32>);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        event.record(&mut Printer);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Printer;

impl Visit for Printer {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            eprintln!("mdBook: {value:?}");
        }
    }
}
