//! Repetitions of what followed the same byte the last time: the format's first compressor.
//!
//! A byte, then how many bytes are to be repeated from behind its last occurrence. Places are
//! counted in 16 bits, also in nodes that are longer, since Linux does. Source:
//! fs/jffs2/compr_rtime.c.

use alloc::vec::Vec;

/// Appends to `out` at most `room` bytes; gives how many source bytes are in them, or nothing where
/// they are not shorter.
pub(super) fn compress(source: &[u8], room: usize, out: &mut Vec<u8>) -> Option<usize> {
    let mut last = [0u16; 256];
    let mut at = 0usize;
    if room <= 3 {
        return None;
    }
    while at < source.len() && out.len() <= room - 2 {
        let value = source[at];
        at += 1;
        let mut from = usize::from(core::mem::replace(&mut last[usize::from(value)], at as u16));
        let mut run = 0;
        while at < source.len() && from < at && run < 255 && source[at] == source[from] {
            (at, from, run) = (at + 1, from + 1, run + 1);
        }
        out.extend([value, run]);
    }
    (out.len() < at).then_some(at)
}

/// Fills `out`; nothing where the data end early or refer to what is not there.
pub(super) fn decompress(data: &[u8], out: &mut [u8]) -> Option<()> {
    let mut last = [0u16; 256];
    let mut at = 0usize;
    let mut pairs = data.chunks_exact(2);
    while at < out.len() {
        let pair = pairs.next()?;
        let value = pair[0];
        let run = usize::from(pair[1]);
        out[at] = value;
        at += 1;
        let from = usize::from(core::mem::replace(&mut last[usize::from(value)], at as u16));
        if run > out.len() - at {
            return None;
        }
        for step in 0..run {
            out[at + step] = out[from + step];
        }
        at += run;
    }
    Some(())
}
