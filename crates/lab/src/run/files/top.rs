//! What the program calls: the file system, or the write-back routine in front of it.

use super::moment;
use nandlab_pagecache::write_back::{Tally, WriteBack};
use nandlab_sim::{Clock, Nanos};
use nandlab_stack::{HostDescription, WriteBackDescription};
use nandlab_vfs::{FileSystem, Time};

type Watch = Box<dyn Fn() -> Time>;

pub enum Top<'a> {
    Plain(Box<dyn FileSystem + 'a>),
    Deferred {
        fs: Box<WriteBack<Box<dyn FileSystem + 'a>, Watch>>,
        clock: Clock,
        /// What queueing an element costs, ns.
        element: Nanos,
        /// Elements that have been paid for.
        paid: u64,
    },
}

impl<'a> Top<'a> {
    /// Puts the routine in front, if it is described.
    pub fn new(
        fs: Box<dyn FileSystem + 'a>,
        routine: Option<WriteBackDescription>,
        host: Option<&HostDescription>,
        clock: &Clock,
    ) -> Self {
        let Some(WriteBackDescription { settings }) = routine else {
            return Self::Plain(fs);
        };
        let watched = clock.clone();
        let watch: Watch = Box::new(move || moment(watched.now()));
        // An element pins a page that the page cache takes in for it.
        let element = host.map_or(0, |host| host.time(host.costs.defer + host.costs.page_in));
        Self::Deferred {
            fs: Box::new(WriteBack::new(fs, watch, settings)),
            clock: clock.clone(),
            element,
            paid: 0,
        }
    }

    pub fn fs(&mut self) -> &mut (dyn FileSystem + 'a) {
        match self {
            Self::Plain(fs) => &mut **fs,
            Self::Deferred { fs, .. } => &mut **fs,
        }
    }

    /// What was deferred, and written for whom.
    pub fn deferred(&self) -> Tally {
        match self {
            Self::Plain(_) => Tally::default(),
            Self::Deferred { fs, .. } => fs.tally(),
        }
    }

    /// A call has ended: what it has queued takes its time.
    pub fn called(&mut self) {
        if let Self::Deferred {
            fs,
            clock,
            element,
            paid,
        } = self
        {
            let queued = fs.tally().deferred;
            clock.spend((queued - *paid) * *element);
            *paid = queued;
        }
    }
}
