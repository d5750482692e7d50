//! From power-on to the first bytes of a file: the attach of UBI, the mount of UBIFS on its volume,
//! and a read.

use super::attach::{self, Attach, Size, WAYS, Way};
use crate::runs::{Runs, Watch};
use crate::{Exhibit, PaperError, line};
use nandlab_nand::{Chip, ChipSpec};
use nandlab_sim::Nanos;
use nandlab_stack::HostDescription;
use nandlab_stack::units::write_size;
use nandlab_ubi::{Headers, Options, Ubi, VolumeSpec};
use nandlab_ubifs::{Format, UbiLebs, Ubifs};
use nandlab_vfs::{Caller, FileSystem as _, Ino, NewNode, Time};
use std::error::Error;

/// Devices in blocks of 128 KiB: 64 MiB to 1 GiB.
const SIZES: [u32; 5] = [512, 1024, 2048, 4096, 8192];
/// The ways that are compared: a scan, fastmap and UBIL as the paper has it.
const COMPARED: [usize; 3] = [0, 1, 2];
/// The file, and what is read of it.
const FILE: usize = 4 << 20;
const READ: usize = 4096;

/// Times from power-on, ns.
#[derive(Clone, Copy, Debug)]
struct Started {
    attach: Attach,
    /// Flash and driver, until UBIFS is mounted.
    mount: Nanos,
    read: Nanos,
}

impl Started {
    fn total(&self) -> f64 {
        self.attach.total() + (self.mount + self.read) as f64
    }
}

/// All of them, by way and size.
pub struct Starts(Runs<(usize, u32), Started>);

impl Starts {
    pub fn run(
        chip: &ChipSpec,
        host: &HostDescription,
        watch: Watch<'_>,
    ) -> Result<Self, PaperError> {
        let sizes = SIZES.into_iter().rev();
        let wanted = sizes.flat_map(|blocks| COMPARED.map(|way| (way, blocks)));
        let one = |&(way, blocks): &(usize, u32)| {
            let name = || format!("mount, {}, {blocks} blocks", WAYS[way].name);
            start(&WAYS[way], blocks, chip, host).map_err(|error| PaperError::wrong(name(), error))
        };
        let wanted = wanted.collect();
        Ok(Self(Runs::all(wanted, (watch, "mounts"), one)?))
    }

    pub fn table(&self) -> Exhibit {
        let row = |way: usize| {
            let cells = SIZES.map(|blocks| {
                let start = self.0.of(&(way, blocks));
                let [all, mount, read] =
                    [start.total(), start.mount as f64, start.read as f64].map(|ns| ns / 1e6);
                format!("{all:.1} ({mount:.1} + {read:.1})")
            });
            line(WAYS[way].name, cells)
        };
        Exhibit::table(
            "From power-on to the first read",
            "ms of the attach after a detach, the mount of UBIFS and a read of 4 KiB; in brackets \
            the mount and the read. The volume takes the whole device and holds a file of 4 MiB. \
            The processor's time is in the attach only: UBIFS's is not counted.",
            line("", SIZES.map(|blocks| write_size(u64::from(blocks) << 17))),
            COMPARED.map(row),
        )
    }
}

/// Makes the volume, puts it away, and starts.
fn start(
    way: &Way,
    blocks: u32,
    chip: &ChipSpec,
    host: &HostDescription,
) -> Result<Started, Box<dyn Error>> {
    let size = Size {
        large: false,
        blocks,
    };
    let geometry = size.geometry();
    let options = Options {
        memory: way.memory,
        headers: Headers::At(geometry.page),
        ..Options::default()
    };
    let spec = ChipSpec {
        geometry,
        ..chip.clone()
    };
    let (ubi, volume) = made(Chip::new(spec)?, options)?;
    let (ubi, attach) = attach::attach(ubi.detach()?, options, host)?;
    let clock = ubi.medium().clock().clone();
    let from = clock.now();
    let mut fs = Ubifs::mount(UbiLebs::new(ubi, volume)?)?;
    let mounted = clock.now();
    let file = fs.lookup(Ino::ROOT, b"file")?.ino;
    let mut buf = vec![0; READ];
    let read = fs.read(file, 0, &mut buf)?;
    if read != READ || buf != contents()[..READ] {
        return Err("the file is not what was written".into());
    }
    Ok(Started {
        attach,
        mount: mounted - from,
        read: clock.now() - mounted,
    })
}

fn contents() -> Vec<u8> {
    (0..FILE).map(|at| (at / 7) as u8).collect()
}

/// UBI with a volume of UBIFS, unmounted, and the volume's number.
fn made(chip: Chip, options: Options) -> Result<(Ubi<Chip>, u32), Box<dyn Error>> {
    let mut ubi = Ubi::format(chip, options)?;
    let lebs = ubi.info().available;
    let volume = ubi.create_volume(&VolumeSpec {
        name: "files".into(),
        lebs,
        ..VolumeSpec::default()
    })?;
    let lebs = nandlab_ubifs::format(UbiLebs::new(ubi, volume)?, &Format::default())?;
    let mut fs = Ubifs::mount_writable(lebs)?;
    let now = Time::new(1);
    let file = fs
        .create(Ino::ROOT, b"file", NewNode::File, 0o644, Caller::root(now))?
        .ino;
    fs.write(file, 0, &contents(), now)?;
    fs.unmount()?;
    Ok((fs.into_lebs().into_ubi(), volume))
}
