//! The decompressor.

type Result<T> = core::result::Result<T, &'static str>;

const CUT: &str = "the lzo stream is cut short";
const FULL: &str = "it holds more than a block may";

/// Bytes that a processor copies at a time.
const WORD: usize = 8;
const WORDS: usize = 16;

/// Input and output, with what the last instruction left.
struct Stream<'a> {
    from: &'a [u8],
    at: usize,
    to: &'a mut [u8],
    len: usize,
    /// Literals that the last instruction copied: up to 3, or 4 for all longer runs.
    literals: usize,
}

impl Stream<'_> {
    fn byte(&mut self) -> Result<usize> {
        let byte = self.from.get(self.at).ok_or(CUT)?;
        self.at += 1;
        Ok(usize::from(*byte))
    }

    /// Two bytes: 14 bits of a distance, and the literals that follow.
    fn pair(&mut self) -> Result<(usize, usize)> {
        let low = self.byte()?;
        let word = low | self.byte()? << 8;
        Ok((word >> 2, word & 3))
    }

    /// A length that does not fit its bits goes on in bytes.
    fn length(&mut self, bits: usize, mask: usize) -> Result<usize> {
        if bits & mask != 0 {
            return Ok(bits & mask);
        }
        let mut length = mask;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Ok(length + last),
            }
        }
    }

    /// Copies what the stream holds as it is.
    fn copy_literals(&mut self, count: usize) -> Result<()> {
        let ahead = self
            .from
            .get(self.at..)
            .and_then(|from| from.first_chunk::<WORDS>());
        let room = self
            .to
            .get_mut(self.len..)
            .and_then(|to| to.first_chunk_mut::<WORDS>());
        match (ahead, room) {
            // A short run is quicker with what lies behind it, which is overwritten later.
            (Some(ahead), Some(room)) if count <= WORDS => *room = *ahead,
            _ => {
                let from = self.from.get(self.at..self.at + count).ok_or(CUT)?;
                let to = self.to.get_mut(self.len..self.len + count).ok_or(FULL)?;
                to.copy_from_slice(from);
            }
        }
        self.at += count;
        self.len += count;
        Ok(())
    }

    /// Copies what was written before, which may overlap what is written now.
    fn copy_back(&mut self, distance: usize, count: usize, literals: usize) -> Result<()> {
        let Some(start) = self.len.checked_sub(distance) else {
            return Err("the lzo stream refers to what is before its beginning");
        };
        let room = self.to.len() - self.len;
        if count > room {
            return Err(FULL);
        }
        match distance {
            WORDS.. if count.next_multiple_of(WORDS) <= room => {
                self.copy_in::<WORDS>(start, count);
            }
            WORD.. if count.next_multiple_of(WORD) <= room => self.copy_in::<WORD>(start, count),
            1 => {
                let byte = self.to[start];
                self.to[self.len..self.len + count].fill(byte);
            }
            _ => self.copy_in::<1>(start, count),
        }
        self.len += count;
        self.literals = literals;
        self.copy_literals(literals)
    }

    /// Copies so many bytes at a time, and overwrites later what that is too much.
    fn copy_in<const BYTES: usize>(&mut self, start: usize, count: usize) {
        for at in (0..count).step_by(BYTES) {
            let from = start + at;
            self.to.copy_within(from..from + BYTES, self.len + at);
        }
    }

    /// The first byte may be a run of literals.
    fn first(&mut self) -> Result<()> {
        match self.from.first() {
            Some(first @ 18..) => {
                let count = usize::from(*first) - 17;
                self.at = 1;
                self.literals = count.min(4);
                self.copy_literals(count)
            }
            Some(17) if self.from.len() >= 5 => Err("a version of lzo streams that is not known"),
            _ => Ok(()),
        }
    }

    /// Below 16: literals, or a short copy, depending on the last instruction.
    fn short(&mut self, code: usize) -> Result<()> {
        if self.literals == 0 {
            let count = 3 + self.length(code, 15)?;
            self.literals = 4;
            return self.copy_literals(count);
        }
        let near = self.byte()? << 2 | code >> 2;
        match self.literals {
            4 => self.copy_back(near + 2049, 3, code & 3),
            _ => self.copy_back(near + 1, 2, code & 3),
        }
    }

    /// Runs one instruction; false at the end of the stream.
    fn step(&mut self) -> Result<bool> {
        let code = self.byte()?;
        match code {
            0..16 => self.short(code)?,
            16..32 => {
                let count = 2 + self.length(code, 7)?;
                let (near, literals) = self.pair()?;
                let distance = 16_384 + ((code & 8) << 11) + near;
                if distance == 16_384 {
                    return Ok(false);
                }
                self.copy_back(distance, count, literals)?;
            }
            32..64 => {
                let count = 2 + self.length(code, 31)?;
                let (near, literals) = self.pair()?;
                self.copy_back(near + 1, count, literals)?;
            }
            _ => {
                let near = self.byte()? << 3 | code >> 2 & 7;
                self.copy_back(near + 1, 1 + (code >> 5), code & 3)?;
            }
        }
        Ok(true)
    }
}

/// Unpacks a stream. Returns the length of what it holds, or what is wrong with it. Bytes of `to`
/// behind that length have any value.
pub fn unpack(from: &[u8], to: &mut [u8]) -> Result<usize> {
    let mut stream = Stream {
        from,
        at: 0,
        to,
        len: 0,
        literals: 0,
    };
    stream.first()?;
    while stream.step()? {}
    Ok(stream.len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies_of_each_length_are_unpacked() {
        // Four literals; a copy of 6 bytes from 4 before, one literal; the end.
        let packed = [21, b'a', b'b', b'c', b'd', 0xAD, 0, b'e', 17, 0, 0];
        let mut to = [0; 64];
        let len = unpack(&packed, &mut to).unwrap();
        assert_eq!(&to[..len], b"abcdabcdabe");
        assert_eq!(unpack(&packed, &mut to[..10]), Err(FULL));
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut], &mut to).is_err(), "{cut}");
        }
        assert!(unpack(&[21, b'a', b'b', b'c', b'd', 0xAD, 9, 17, 0, 0], &mut to).is_err());
    }

    #[test]
    fn each_instruction_of_the_description_is_understood() {
        // Two literals; copy 2 from 1 back, one literal; a copy of 3 far back is refused.
        let mut out = [0; 5];
        let short = [19, b'a', b'b', 1, 0, b'c', 0x11, 0, 0];
        assert_eq!(unpack(&short, &mut out), Ok(5));
        assert_eq!(&out, b"abbbc");
        assert!(unpack(&[21, 1, 2, 3, 4, 0, 0], &mut [0; 7]).is_err());
        // A run of zeros: one literal, then a copy of 33 + 255 + 11 bytes from distance 1.
        let mut out = [7; 300];
        let data = [18, 0, 0x20, 0, 11, 0, 0, 0x11, 0, 0];
        assert_eq!(unpack(&data, &mut out), Ok(300));
        assert_eq!(out, [0; 300]);
        assert_eq!(unpack(&data, &mut [0; 299]), Err(FULL));
        assert_eq!(unpack(&data, &mut [0; 301]), Ok(300));
        assert!(unpack(&data[..8], &mut [0; 300]).is_err());
    }

    #[test]
    fn copies_from_each_distance_end_where_the_block_ends() {
        let mut lzo = crate::Lzo::default();
        for period in 1..40 {
            for length in 60..140 {
                let source: alloc::vec::Vec<u8> = (0..length).map(|at| at % period).collect();
                let mut packed = alloc::vec::Vec::new();
                assert!(lzo.compress(&source, 1000, &mut packed));
                let mut to = [0xFF; 256];
                let length = usize::from(length);
                for room in length..length + 20 {
                    assert_eq!(unpack(&packed, &mut to[..room]), Ok(length));
                    assert_eq!(to[..length], source, "period {period}");
                    assert_eq!(to[room], 0xFF);
                }
                assert_eq!(unpack(&packed, &mut to[..length - 1]), Err(FULL));
            }
        }
    }
}
