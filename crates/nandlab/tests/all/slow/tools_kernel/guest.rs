//! What the real kernel says of the images, in one boot: what is in them, and what is in them after
//! it has used them.

use super::seen::{Tree, of_guest};
use nandlab_oracle::{Disk, Report};
use nandlab_testkit::{kernel, xattrs};
use std::path::{Path, PathBuf};

/// Flash of the guest, in MiB.
const FLASH: u64 = 8;

/// How files, names and directories are used: overwritten, cut, appended to, renamed, replaced,
/// removed.
const USE: &str = "
    for i in 11 12 13; do dd if=data/14.bin of=data/$i.bin bs=1000 count=3 seek=5 conv=notrunc 2>/dev/null; done
    truncate -s 7000 data/15.bin && cat data/16.bin >>data/17.bin
    mv data/18.bin data/moved.bin && mv data/19.bin data/05.bin && mv deep/er tmp/other
    rm names/name-00* names/name-01* && echo new >names/new && echo again >names/name-000.txt && rm etc/empty && mkdir etc/empty
";

/// An image and what it is.
pub struct Image {
    pub format: &'static str,
    pub name: String,
    pub path: PathBuf,
    /// Whether the kernel uses it, and does not only look.
    pub used: bool,
}

/// What the kernel showed of each image, and its version.
pub struct Judged {
    report: Report,
    pub kernel: String,
}

impl Judged {
    pub fn tree(&self, image: &Image) -> Tree {
        of_guest(&self.report, &image.name)
    }
}

/// Shows the images to the kernel; those that are used are changed.
pub fn judge(images: &[Image]) -> Judged {
    let mut guest = kernel::guest().file("/xattrs", xattrs::program());
    let mut script = format!(
        "mp f2fs && mp ext4 && mp vfat && mp nls_cp437 && mp nls_iso8859-1 && mp nls_ascii && mp mtdram total_size={} erase_size=64 && mp mtdblock && mp jffs2 || exit 1
        say kernel $(uname -r)\n",
        FLASH * 1024
    );
    for (image, letter) in images.iter().zip('a'..) {
        if image.format == "JFFS2" {
            pad(&image.path);
        }
        guest = guest.disk(Disk::File(image.path.clone()));
        script += &part(image, letter);
    }
    let report = guest
        .script(script)
        .run()
        .unwrap_or_else(|error| panic!("{error}"));
    let report = report.success().unwrap_or_else(|error| panic!("{error}"));
    let kernel = report.value("kernel").unwrap_or("?").to_string();
    Judged { report, kernel }
}

fn part(image: &Image, letter: char) -> String {
    let Image { name, .. } = image;
    let flash = image.format == "JFFS2";
    let mount = match image.format {
        "JFFS2" => format!(
            "dd if=/dev/vd{letter} of=/dev/mtd0 bs=64k 2>/dev/null && mount -t jffs2 mtd0 /mnt"
        ),
        "F2FS" => format!("mount -t f2fs /dev/vd{letter} /mnt"),
        "ext3" => format!("mount -t ext4 /dev/vd{letter} /mnt"),
        _ => format!("mount -t vfat -o tz=UTC /dev/vd{letter} /mnt"),
    };
    let usage = if image.used {
        format!("(cd /mnt && {}) && sync", USE.trim().replace('\n', " && "))
    } else {
        "true".into()
    };
    let attributes = if image.format == "FAT" {
        ":".into()
    } else {
        format!("/xattrs /mnt >/tmp/x && send {name}.x /tmp/x")
    };
    let back = if flash && image.used {
        format!("dd if=/dev/mtd0 of=/dev/vd{letter} bs=64k 2>/dev/null && sync")
    } else {
        "true".into()
    };
    format!(
        "{mount} && {usage} && manifest /mnt {name} && {attributes} && (cd /mnt && find . -type f -exec stat -c '%b %n' {{}} + >/tmp/b) && send {name}.b /tmp/b && umount /mnt && {back} || {{ echo {name} failed; exit 1; }}\n"
    )
}

/// As long as the guest's flash.
fn pad(image: &Path) {
    let mut bytes = std::fs::read(image).expect("an image");
    bytes.resize((FLASH << 20) as usize, 0xFF);
    std::fs::write(image, bytes).expect("space for an image");
}
