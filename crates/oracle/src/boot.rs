//! An unpacked kernel in place of a packed one. Most of an emulated boot went into unpacking: four
//! seconds of each guest, once for all here.
//!
//! A `bzImage` is a real-mode setup program, and a program at 1 MiB that unpacks an ELF image and
//! jumps to it. We keep the setup program, which QEMU talks to. In place of the second we put the
//! segments of the ELF image, where the kernel expects them, and at 1 MiB the few instructions that
//! the kernel demands: 64-bit mode, and memory mapped one to one. Linux's
//! `Documentation/arch/x86/boot.rst` describes the header, `arch/x86/kernel/head_64.S` the state at
//! the kernel's entry.

use lzma_rust2::{Read, XzReader};

/// Where the second program begins, in memory.
const LOAD: u32 = 0x10_0000;
/// Where its page tables lie: one page with the root, one with four entries, four of 2 MiB pages.
const TABLES: u32 = LOAD + 0x1000;
const PAGE: u32 = 0x1000;
/// Where its segment descriptors lie.
const DESCRIPTORS: u32 = LOAD + 0x100;
/// No kernel is longer.
const IMAGE_BYTES_MAX: usize = 256 << 20;

/// The image that boots at once, of a packed one; or what is wrong with that.
pub fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let sectors = match byte(packed, 0x1F1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let setup = (sectors + 1) * 512;
    let payload = setup + number(packed, 0x248, 4)? as usize;
    let length = number(packed, 0x24C, 4)? as usize;
    let payload = packed.get(payload..).and_then(|rest| rest.get(..length));
    let elf = decompressed(payload.ok_or("the packed kernel ends before its payload")?)?;
    let program = program(&elf)?;
    let mut image = packed.get(..setup).ok_or("no setup program")?.to_vec();
    let paragraphs = (program.len() as u32).div_ceil(16);
    image[0x1F4..0x1F8].copy_from_slice(&paragraphs.to_le_bytes());
    image.extend(program);
    Ok(image)
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, String> {
    let byte = bytes.get(at).copied();
    byte.ok_or_else(|| format!("the kernel ends before byte {at}"))
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> Result<u64, String> {
    (0..length).try_fold(0, |sum, n| {
        Ok(sum | u64::from(byte(bytes, at + n)?) << (8 * n))
    })
}

fn decompressed(payload: &[u8]) -> Result<Vec<u8>, String> {
    let mut reader = XzReader::new(payload, false);
    let mut image = Vec::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match reader.read(&mut part) {
            Ok(0) => return Ok(image),
            Ok(got) if image.len() + got <= IMAGE_BYTES_MAX => image.extend(&part[..got]),
            Ok(_) => return Err(format!("more than {IMAGE_BYTES_MAX} bytes in the payload")),
            Err(error) => return Err(format!("a payload that is not xz: {error:?}")),
        }
    }
}

/// The memory from [`LOAD`] on: our entry, then the segments of the kernel.
fn program(elf: &[u8]) -> Result<Vec<u8>, String> {
    if !elf.starts_with(b"\x7FELF\x02\x01") {
        return Err("a payload that is no 64-bit ELF image".into());
    }
    let entry = number(elf, 24, 8)? as u32;
    let headers = number(elf, 32, 8)? as usize;
    let count = number(elf, 56, 2)? as usize;
    let mut program = start(entry);
    for header in (0..count).map(|n| headers + 56 * n) {
        let is_loaded = number(elf, header, 4)? == 1;
        if is_loaded {
            load(elf, header, &mut program)?;
        }
    }
    Ok(program)
}

/// Puts the segment of a header where it belongs.
fn load(elf: &[u8], header: usize, program: &mut Vec<u8>) -> Result<(), String> {
    let from = number(elf, header + 8, 8)? as usize;
    let to = number(elf, header + 24, 8)? as usize;
    let length = number(elf, header + 32, 8)? as usize;
    let bytes = elf.get(from..).and_then(|rest| rest.get(..length));
    let place = to.checked_sub(LOAD as usize);
    let (Some(bytes), Some(place)) = (bytes, place.filter(|at| *at < IMAGE_BYTES_MAX)) else {
        return Err(format!(
            "a segment of {length} bytes from {from} at {to:#x}"
        ));
    };
    let end = program.len().max(place + length);
    program.resize(end, 0);
    program[place..place + length].copy_from_slice(bytes);
    Ok(())
}

/// Our entry with its tables, before all segments.
fn start(entry: u32) -> Vec<u8> {
    let mut program = vec![0; (TABLES - LOAD + 6 * PAGE) as usize];
    let mut put = |address: u32, bytes: &[u8]| {
        let at = (address - LOAD) as usize;
        program[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(LOAD, &instructions(entry));
    // Flat segments as Linux's boot protocol has them: code at 0x10, data at 0x18.
    let segments = [0, 0, 0x00AF_9A00_0000_FFFF_u64, 0x00CF_9200_0000_FFFF];
    for (n, segment) in (0..).zip(segments) {
        put(DESCRIPTORS + 8 * n, &segment.to_le_bytes());
    }
    put(DESCRIPTORS + 32, &31_u16.to_le_bytes());
    put(DESCRIPTORS + 34, &DESCRIPTORS.to_le_bytes());
    map(&mut program);
    program
}

/// Fills the page tables. An entry is present and writable; 0x80 is a page of 2 MiB.
fn map(program: &mut [u8]) {
    let mut map = |table: u32, n: u32, to: u64| {
        let at = (TABLES - LOAD + table * PAGE + 8 * n) as usize;
        program[at..at + 8].copy_from_slice(&(to | 3).to_le_bytes());
    };
    map(0, 0, u64::from(TABLES + PAGE));
    for n in 0..4 {
        map(1, n, u64::from(TABLES + (2 + n) * PAGE));
    }
    for n in 0..4 * 512 {
        map(2 + n / 512, n % 512, u64::from(n) << 21 | 0x80);
    }
}

/// From the setup program's 32-bit mode into 64-bit mode, and to the kernel. `esi` leads to the
/// boot parameters, and stays.
fn instructions(entry: u32) -> Vec<u8> {
    let mut code = Vec::new();
    let mut add = |bytes: &[u8], number: Option<u32>| {
        code.extend(bytes);
        code.extend(number.map(u32::to_le_bytes).into_iter().flatten());
        LOAD + code.len() as u32
    };
    add(&[0xFA], None); // cli
    add(&[0x0F, 0x01, 0x15], Some(DESCRIPTORS + 32)); // lgdt
    add(
        &[0x0F, 0x20, 0xE0, 0x83, 0xC8, 0x20, 0x0F, 0x22, 0xE0],
        None,
    ); // cr4 |= PAE
    add(&[0xB8], Some(TABLES)); // mov eax
    add(&[0x0F, 0x22, 0xD8], None); // mov cr3, eax
    add(&[0xB9], Some(0xC000_0080)); // mov ecx, EFER
    add(&[0x0F, 0x32, 0x0D], Some(0x100)); // rdmsr, or eax, long mode
    add(&[0x0F, 0x30], None); // wrmsr
    add(&[0x0F, 0x20, 0xC0, 0x0D], Some(0x8000_0001)); // cr0 |= paging
    let here = add(&[0x0F, 0x22, 0xC0], None); // mov cr0, eax
    add(&[0xEA], Some(here + 7)); // a far jump to the next instruction,
    add(&[0x10, 0x00], None); // in the 64-bit segment
    add(&[0x89, 0xF6], None); // mov esi, esi: the upper half becomes zero
    add(&[0xB8], Some(entry)); // mov eax
    add(&[0xFF, 0xE0], None); // jmp rax
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit ELF image with one segment of `text` at `place`.
    fn elf(text: &[u8], place: u64) -> Vec<u8> {
        let mut elf = vec![0; 120];
        elf[..6].copy_from_slice(b"\x7FELF\x02\x01");
        let fields = [
            (24, 0x100_0000_u64),
            (32, 64),
            (56, 1),
            (64, 1),
            (72, 120),
            (88, place),
            (96, text.len() as u64),
        ];
        for (at, value) in fields {
            elf[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        elf.extend(text);
        elf
    }

    #[test]
    fn segments_lie_where_the_kernel_expects_them() {
        let program = program(&elf(b"kernel", 0x100_0000)).unwrap();
        let place = 0x100_0000 - LOAD as usize;
        assert_eq!(&program[place..], b"kernel");
        assert_eq!(program[0], 0xFA);
        let far_jump = program.iter().position(|byte| *byte == 0xEA).unwrap();
        let target = number(&program, far_jump + 1, 4).unwrap();
        assert_eq!(target, u64::from(LOAD) + far_jump as u64 + 7);
    }

    #[test]
    fn every_page_below_4_gib_maps_to_itself() {
        let program = start(0x100_0000);
        let entry = |at: u32| number(&program, (at - LOAD) as usize, 8).unwrap();
        let below = |entry: u64| (entry & !0xFFF) as u32;
        for gib in 0..4 {
            let table = below(entry(below(entry(TABLES)) + 8 * gib));
            for n in [0, 1, 511] {
                let to = u64::from(gib) << 30 | u64::from(n) << 21;
                assert_eq!(entry(table + 8 * n), to | 0x83);
            }
        }
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        for bad in [vec![], vec![1; 600], vec![0; 10_000]] {
            unpack(&bad).unwrap_err();
        }
        program(b"\x7FELF\x01\x01").unwrap_err();
        program(&elf(b"kernel", 0x1000)).unwrap_err();
        program(&elf(b"kernel", u64::MAX)).unwrap_err();
    }
}
