//! Volumes whose features only some inodes use. The real kernel fills and compresses; the mark of
//! encryption is set afterwards, since the guest has no ciphers.

use crate::common::{assert_clean, bytes, made_by_mkfs, mkdir, mount, put, read_only};
use nandlab_block::{BlockDevice, Lba, Ram};
use nandlab_f2fs::{F2fsError, Options};
use nandlab_testkit::disk::poke;
use nandlab_testkit::kernel::Volumes;
use nandlab_vfs::{Errno, FileSystem, Ino, Rename, Time, path, tree};

/// What the guest has under `/file`.
fn contents() -> Vec<u8> {
    bytes(7, 300_000)
}

/// The kernel fills a volume: `plain`, a compressed file, and what gets the mark of encryption.
fn life(device: &str) -> String {
    format!(
        "mp f2fs
        mount -t f2fs -o compress_algorithm=lz4,compress_extension=comp {device} /mnt || exit 1
        mkdir /mnt/plain && cp /file /mnt/plain/file && ln -s file /mnt/plain/link || exit 1
        yes compressible | head -c 200000 > /mnt/text.comp || exit 1
        mkdir /mnt/vault && cp /file /mnt/vault/inner && cp /file /mnt/secret || exit 1
        ln -s secret /mnt/sealed && umount /mnt || exit 1
        "
    )
}

/// Byte and bit of an inode that say that it is encrypted (`FADVISE_ENCRYPT_BIT`).
const ENCRYPTED: (u64, u8) = (2, 0x04);
/// Those of a directory whose names have no case (`F2FS_CASEFOLD_FL`).
const FOLDED: (u64, u8) = (83, 0x40);

/// Sets a bit in the inodes of these names.
fn mark(disk: &mut Ram, names: &[&str], (byte, bit): (u64, u8)) {
    for block in 0..disk.geometry().bytes() / 4096 {
        let mut bytes = [0; 4096];
        disk.read(Lba(block * 8), &mut bytes).unwrap();
        let is_inode = bytes[4072..4076] == bytes[4076..4080] && bytes[4072..4076] != [0; 4];
        let is_named = |name: &&str| {
            let len = u32::from_le_bytes([bytes[88], bytes[89], bytes[90], bytes[91]]);
            len as usize == name.len() && bytes[92..].starts_with(name.as_bytes())
        };
        if is_inode && names.iter().any(is_named) {
            poke(disk, block * 4096 + byte, &[bytes[byte as usize] | bit]);
        }
    }
}

/// Everything that a file holds, or why that cannot be read.
fn read(fs: &mut dyn FileSystem, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let attr = path::resolve(fs, name).unwrap();
    tree::contents(fs, attr.ino)
}

#[test]
fn of_volumes_with_encrypted_and_compressed_files_the_others_are_read_and_written() {
    let features = "extra_attr,encrypt,verity,compression";
    let quotas = "extra_attr,encrypt,verity,compression,quota,project_quota,casefold";
    let mut volumes = Volumes::new("");
    volumes.file("/file", contents());
    volumes.add("all", &mut made_by_mkfs(100, &["-O", features]), life);
    let mut with_quotas = made_by_mkfs(100, &["-C", "utf8", "-O", quotas]);
    volumes.add("quotas", &mut with_quotas, life);
    volumes.boot();
    let [mut all, mut disk] = ["all", "quotas"].map(|name| {
        let mut disk = volumes.load(name);
        mark(&mut disk, &["vault", "secret", "sealed"], ENCRYPTED);
        sealed_and_open(&mut disk);
        disk
    });
    // Hashes of folded names are not known here: names are compared.
    mark(&mut disk, &["plain"], FOLDED);
    sealed_and_open(&mut disk);
    let refused = nandlab_f2fs::F2fs::mount(&mut disk, Options::default()).unwrap_err();
    let only_read = F2fsError::OnlyRead {
        bit: 0x10,
        name: "project_quota",
    };
    assert_eq!(refused, only_read);

    edit(&mut all);
    volumes.file("/file", contents());
    assert_clean(&mut all, "edited");
    let look = |device: &str| {
        format!(
            "mp f2fs
            mount -t f2fs {device} /mnt || exit 1
            cmp /mnt/plain/new /file && cmp /mnt/plain/file /file || exit 1
            cmp /mnt/text.comp /text || exit 1
            umount /mnt
            "
        )
    };
    volumes.file(
        "/text",
        b"compressible\n"
            .iter()
            .copied()
            .cycle()
            .take(200_000)
            .collect(),
    );
    volumes.add("edited", &mut all, look);
    volumes.boot();
}

/// Reads a volume of the kernel.
fn sealed_and_open(disk: &mut Ram) {
    let mut f2fs = read_only(disk);
    assert!(read(&mut f2fs, b"plain/file").unwrap() == contents());
    let link = path::resolve(&mut f2fs, b"plain/link").unwrap();
    assert_eq!(f2fs.readlink(link.ino).unwrap(), b"file");
    for (name, how) in [("secret", "encrypted"), ("text.comp", "compressed")] {
        assert_eq!(read(&mut f2fs, name.as_bytes()), Err(Errno::NotSupported));
        let cause = f2fs.cause().unwrap().what();
        assert!(
            cause.contains(&format!("is {how}, which is not supported")),
            "{cause}"
        );
    }
    let vault = path::resolve(&mut f2fs, b"vault").unwrap();
    assert_eq!(tree::names(&mut f2fs, vault.ino), Err(Errno::NotSupported));
    let sealed = path::resolve(&mut f2fs, b"sealed").unwrap();
    assert_eq!(f2fs.readlink(sealed.ino), Err(Errno::NotSupported));
    let report = f2fs.check().unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

/// Changes files without a seal, and tries to change sealed ones.
fn edit(disk: &mut Ram) {
    let mut f2fs = mount(disk);
    let now = Time::new(1_500_000_000);
    let plain = path::resolve(&mut f2fs, b"plain").unwrap().ino;
    put(&mut f2fs, plain, "new", &contents());
    mkdir(&mut f2fs, Ino::ROOT, "made");
    let vault = path::resolve(&mut f2fs, b"vault").unwrap().ino;
    let secret = path::resolve(&mut f2fs, b"secret").unwrap().ino;
    let refusals = [
        f2fs.link(secret, plain, b"known", now).map(drop),
        f2fs.write(secret, 0, b"x", now).map(drop),
        f2fs.unlink(Ino::ROOT, b"text.comp", now),
        f2fs.rmdir(Ino::ROOT, b"vault", now),
        f2fs.rename((plain, b"new"), (vault, b"new"), Rename::Replace, now),
    ];
    assert_eq!(refusals, [Err(Errno::NotSupported); 5]);
    f2fs.unmount().unwrap();
}
