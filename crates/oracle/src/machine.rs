//! The guest as QEMU's command line.
//!
//! The console is a serial port that ends in a file. Data have a port of their own, since kernel
//! messages come between any two bytes of a console: a virtio port that ends in QEMU's standard
//! output.

use crate::{Disk, Guest, OracleError, tools};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that runs a guest.
pub const QEMU: &str = "qemu-system-x86_64";

/// The files of one guest.
#[derive(Clone, Debug)]
pub struct Files {
    /// The initial file system, or the disk with the guest's files.
    pub archive: PathBuf,
    /// What comes out of the guest's console.
    pub console: PathBuf,
    /// What QEMU complains of.
    pub complaints: PathBuf,
    /// The socket of QEMU's monitor.
    pub monitor: PathBuf,
}

impl Files {
    /// Files of these names in a directory.
    pub fn inside(directory: &Path) -> Self {
        let [archive, console, complaints, monitor] =
            ["archive", "console", "complaints", "monitor"].map(|name| directory.join(name));
        Self {
            archive,
            console,
            complaints,
            monitor,
        }
    }
}

/// How a guest begins.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// It boots this kernel, with its files.
    Boot(&'a Path),
    /// It boots this kernel, and waits to be saved. QEMU's monitor is open.
    ToBeSaved(&'a Path),
    /// It goes on from this state of a guest that waited.
    From(&'a Path),
}

/// The variable in which QEMU finds the path of a saved state. A shell reads it, which a path with
/// any character survives.
pub const STATE: &str = "NANDLAB_STATE";

/// Kernel parameters: a panic ends the guest, addresses are the same in each boot, no time goes
/// into defences against other guests.
const KERNEL_PARAMETERS: &str = "console=ttyS0 panic=-1 quiet nokaslr norandmaps mitigations=off";

/// Where the guest's clock is the host's. The kernel would test the timer, and a busy host is too
/// late for it. A clock that counts instructions keeps the test: no host is late for it. Without
/// the test the clock would interrupt at other places, and change the counts.
const HOST_CLOCK_PARAMETERS: &str = "no_timer_check cryptomgr.notests";

/// The command that runs the guest. `setpriv` sees to it that QEMU dies with the thread that starts
/// it.
pub fn command(start: Start<'_>, files: &Files, guest: &Guest) -> Result<Command, OracleError> {
    let mut command = Command::new(tools::locate("setpriv")?);
    command
        .args(["--pdeathsig", "KILL"])
        .arg(tools::locate(QEMU)?);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    match start {
        Start::ToBeSaved(_) => command
            .arg("-chardev")
            .arg(option(
                "socket,id=monitor,server=on,wait=off,path=",
                &files.monitor,
            ))
            .args(["-monitor", "chardev:monitor"]),
        Start::Boot(_) | Start::From(_) => command.args(["-monitor", "none"]),
    };
    command.arg("-m").arg(guest.memory_mib.to_string());
    match guest.icount_shift {
        Some(shift) => command
            .args([
                "-accel",
                "tcg",
                "-smp",
                "1",
                "-rtc",
                "base=2020-01-01,clock=vm",
                "-seed",
                "1",
            ])
            .arg("-icount")
            .arg(format!("shift={shift},sleep=off")),
        None => command.args(["-accel", "tcg,thread=multi", "-smp", "2"]),
    };
    command
        .arg("-chardev")
        .arg(option("file,id=console,path=", &files.console))
        .args(["-serial", "chardev:console"]);
    // Not QEMU's own `stdio`: that closes the port when standard input ends. No `ioeventfd`, so
    // that the guest stands still while QEMU takes its data; otherwise the host's scheduler would
    // show in virtual time.
    command.args([
        "-chardev",
        "file,id=data,path=/dev/stdout",
        "-device",
        "virtio-serial-pci,ioeventfd=off",
        "-device",
        "virtserialport,chardev=data,name=data",
    ]);
    for disk in &guest.disks {
        command.arg("-drive").arg(drive(disk));
    }
    match start {
        Start::Boot(kernel) | Start::ToBeSaved(kernel) => boot(&mut command, kernel, files, guest),
        Start::From(state) => go_on(&mut command, state, files),
    }
    Ok(command)
}

fn boot(command: &mut Command, kernel: &Path, files: &Files, guest: &Guest) {
    command
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(&files.archive)
        .arg("-append")
        .arg(match guest.icount_shift {
            Some(_) => KERNEL_PARAMETERS.into(),
            None => format!("{KERNEL_PARAMETERS} {HOST_CLOCK_PARAMETERS}"),
        });
}

/// The disk with the guest's files is in the last slot of the bus, so that it gets the last name.
fn go_on(command: &mut Command, state: &Path, files: &Files) {
    let archive = "if=none,id=files,driver=raw,read-only=on,file.driver=file,file.filename=";
    command
        .arg("-drive")
        .arg(option(archive, &files.archive))
        .args([
            "-device",
            "virtio-blk-pci,drive=files,serial=files,addr=1f",
            "-incoming",
        ])
        .arg(format!("exec:cat \"${STATE}\""))
        .env(STATE, state);
}

fn drive(disk: &Disk) -> OsString {
    match disk {
        Disk::File(path) => option(
            "if=virtio,driver=raw,cache=unsafe,discard=unmap,file.driver=file,file.filename=",
            path,
        ),
        Disk::Nbd { socket } => option(
            "if=virtio,driver=nbd,cache.direct=on,discard=unmap,server.type=unix,server.path=",
            socket,
        ),
    }
}

/// A QEMU option that ends in a path. A comma would end the path, so it is written twice.
fn option(before: &str, path: &Path) -> OsString {
    let mut bytes = before.as_bytes().to_vec();
    for byte in OsStr::as_bytes(path.as_os_str()) {
        bytes.extend(std::iter::repeat_n(
            *byte,
            if *byte == b',' { 2 } else { 1 },
        ));
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_stays_in_the_path() {
        assert_eq!(option("path=", Path::new("/a,b/c")), "path=/a,,b/c");
        assert!(
            drive(&Disk::Nbd {
                socket: "/s".into()
            })
            .to_string_lossy()
            .ends_with("server.type=unix,server.path=/s")
        );
    }
}
