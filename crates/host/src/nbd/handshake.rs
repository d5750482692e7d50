//! The fixed newstyle handshake: client and server agree on an export before the first request.
//!
//! Every option is answered, unknown ones with a polite refusal, so that newer clients fall back
//! (structured replies, TLS and metadata contexts are refused so). The data of an option is bounded
//! before it is read.

use super::{ClientError, Export, wire};
use std::io::{Read, Write};
use wire::{export_flags, handshake_flags, info, option, reply};

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake is over; requests follow.
    Transmission,
    /// The client wanted to know, no more.
    Left,
}

impl Export {
    fn flags(&self) -> u16 {
        use export_flags as f;
        let writing = f::SEND_FLUSH | f::SEND_FUA | f::SEND_TRIM | f::SEND_WRITE_ZEROES;
        f::HAS_FLAGS
            | f::CAN_MULTI_CONN
            | if self.read_only {
                f::READ_ONLY
            } else {
                writing
            }
    }

    /// The export's own name, or none for the default export.
    fn is_named(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }
}

/// Talks with a fresh client until it asks for transmission or leaves.
pub fn negotiate(
    input: &mut impl Read,
    output: &mut impl Write,
    export: &Export,
) -> Result<Outcome, ClientError> {
    let offered = handshake_flags::FIXED_NEWSTYLE | handshake_flags::NO_ZEROES;
    let mut greeting = [wire::GREETING.to_be_bytes(), wire::OPTION.to_be_bytes()].concat();
    greeting.extend(offered.to_be_bytes());
    output.write_all(&greeting)?;
    let accepted = wire::u32(input)?;
    wire::expect(
        "unknown handshake flags",
        u64::from(accepted & !u32::from(offered)),
        0,
    )?;

    let mut answers = Answers { output, option: 0 };
    let mut data = Vec::new();
    loop {
        answers.option = read_option(input, &mut data)?;
        match answers.option {
            option::EXPORT_NAME => {
                let padded = accepted & u32::from(handshake_flags::NO_ZEROES) == 0;
                return export_name(answers.output, export, &data, padded);
            }
            option::ABORT => {
                // The client may be gone already; it asked for nothing else.
                let _ = answers.send(reply::ACK, &[]);
                return Ok(Outcome::Left);
            }
            option::LIST => list(&mut answers, export, &data)?,
            option::INFO => describe(&mut answers, export, &data).map(|_| ())?,
            option::GO => {
                if describe(&mut answers, export, &data)? {
                    return Ok(Outcome::Transmission);
                }
            }
            _ => answers.send(reply::ERR_UNSUPPORTED, b"option not supported")?,
        }
    }
}

/// Reads one option: its number, its data into `data`.
fn read_option(input: &mut impl Read, data: &mut Vec<u8>) -> Result<u32, ClientError> {
    wire::expect("option magic", wire::u64(input)?, wire::OPTION)?;
    let number = wire::u32(input)?;
    let length = wire::u32(input)?;
    if length > wire::OPTION_DATA_MAX {
        return Err(ClientError::TooLong {
            what: "option data",
            found: length,
            limit: wire::OPTION_DATA_MAX,
        });
    }
    data.resize(length as usize, 0);
    input.read_exact(data)?;
    Ok(number)
}

/// The oldest way in: no answer but the export itself, or the door.
fn export_name(
    output: &mut impl Write,
    export: &Export,
    name: &[u8],
    padded: bool,
) -> Result<Outcome, ClientError> {
    if !export.is_named(name) {
        return Err(ClientError::UnknownExport(
            String::from_utf8_lossy(name).into_owned(),
        ));
    }
    let mut answer = export.bytes.to_be_bytes().to_vec();
    answer.extend(export.flags().to_be_bytes());
    answer.resize(answer.len() + if padded { 124 } else { 0 }, 0);
    output.write_all(&answer)?;
    Ok(Outcome::Transmission)
}

fn list(
    answers: &mut Answers<'_, impl Write>,
    export: &Export,
    data: &[u8],
) -> Result<(), ClientError> {
    if !data.is_empty() {
        return answers.send(reply::ERR_INVALID, b"LIST takes no data");
    }
    let mut entry = (export.name.len() as u32).to_be_bytes().to_vec();
    entry.extend(export.name.as_bytes());
    answers.send(reply::SERVER, &entry)?;
    answers.send(reply::ACK, &[])
}

/// Answers `INFO` and `GO` with size, abilities and block sizes, whichever the client named; false
/// after a refusal.
fn describe(
    answers: &mut Answers<'_, impl Write>,
    export: &Export,
    data: &[u8],
) -> Result<bool, ClientError> {
    let Some(name) = requested_name(data) else {
        answers.send(
            reply::ERR_INVALID,
            b"malformed: expected name length, name, count, 16-bit items",
        )?;
        return Ok(false);
    };
    if !export.is_named(name) {
        answers.send(reply::ERR_UNKNOWN, b"no such export")?;
        return Ok(false);
    }
    let mut about = info::EXPORT.to_be_bytes().to_vec();
    about.extend(export.bytes.to_be_bytes());
    about.extend(export.flags().to_be_bytes());
    answers.send(reply::INFO, &about)?;

    let mut sizes = info::BLOCK_SIZE.to_be_bytes().to_vec();
    sizes.extend(
        [1, export.preferred_block, wire::PAYLOAD_MAX]
            .into_iter()
            .flat_map(u32::to_be_bytes),
    );
    answers.send(reply::INFO, &sizes)?;
    answers.send(reply::ACK, &[])?;
    Ok(true)
}

/// Name length (4 bytes), name, number of information requests (2 bytes), each of 2 bytes.
fn requested_name(data: &[u8]) -> Option<&[u8]> {
    let (length, rest) = data.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let (count, items) = rest.split_first_chunk()?;
    (items.len() == 2 * usize::from(u16::from_be_bytes(*count))).then_some(name)
}

/// Answers to the current option.
struct Answers<'a, W> {
    output: &'a mut W,
    option: u32,
}

impl<W: Write> Answers<'_, W> {
    fn send(&mut self, kind: u32, data: &[u8]) -> Result<(), ClientError> {
        let mut answer = wire::OPTION_REPLY.to_be_bytes().to_vec();
        answer.extend(
            [self.option, kind, data.len() as u32]
                .into_iter()
                .flat_map(u32::to_be_bytes),
        );
        answer.extend(data);
        Ok(self.output.write_all(&answer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export() -> Export {
        Export {
            name: "disk".into(),
            bytes: 1 << 20,
            preferred_block: 4096,
            read_only: false,
        }
    }

    fn option(number: u32, data: &[u8]) -> Vec<u8> {
        let mut raw = wire::OPTION.to_be_bytes().to_vec();
        raw.extend(
            [number, data.len() as u32]
                .into_iter()
                .flat_map(u32::to_be_bytes),
        );
        raw.extend(data);
        raw
    }

    /// Sends client flags and options; gives the outcome and the server's answers behind the
    /// greeting.
    fn talk(flags: u32, options: &[Vec<u8>]) -> (Result<Outcome, ClientError>, Vec<u8>) {
        let input = [&flags.to_be_bytes()[..], &options.concat()].concat();
        let mut output = Vec::new();
        let outcome = negotiate(&mut input.as_slice(), &mut output, &export());
        (outcome, output.split_off(18))
    }

    fn answer(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let mut raw = Vec::new();
        Answers {
            output: &mut raw,
            option: number,
        }
        .send(kind, data)
        .unwrap();
        raw
    }

    #[test]
    fn an_unknown_option_is_refused_and_the_talk_goes_on() {
        let structured_reply = 8;
        let (outcome, answers) = talk(
            3,
            &[
                option(structured_reply, &[]),
                option(99, b"junk"),
                option(option::ABORT, &[]),
            ],
        );
        assert_eq!(outcome.unwrap(), Outcome::Left);
        let refusal = |number| answer(number, reply::ERR_UNSUPPORTED, b"option not supported");
        assert_eq!(
            answers,
            [
                refusal(structured_reply),
                refusal(99),
                answer(option::ABORT, reply::ACK, &[])
            ]
            .concat()
        );
    }

    #[test]
    fn go_leads_to_transmission_only_with_a_known_name_and_sound_data() {
        let go = |name: &[u8], tail: &[u8]| {
            option(
                option::GO,
                &[&(name.len() as u32).to_be_bytes(), name, tail].concat(),
            )
        };
        for name in [&b""[..], b"disk"] {
            assert_eq!(
                talk(3, &[go(name, &[0, 1, 0, 3])]).0.unwrap(),
                Outcome::Transmission
            );
        }
        let bad = [
            go(b"other", &[0, 0]),
            go(b"disk", &[0, 2, 0, 3]),
            go(b"disk", &[]),
            option(option::GO, &[0xff; 4]),
        ];
        for option_bytes in bad {
            let (outcome, answers) = talk(3, &[option_bytes, option(option::ABORT, &[])]);
            assert_eq!(outcome.unwrap(), Outcome::Left);
            assert_eq!(answers[12] & 0x80, 0x80, "an error answer");
        }
    }

    #[test]
    fn the_oldest_clients_get_their_124_zeros_unless_they_decline() {
        for (flags, length) in [(1, 134), (3, 10), (0, 134)] {
            let (outcome, answers) = talk(flags, &[option(option::EXPORT_NAME, b"disk")]);
            assert_eq!(
                (outcome.unwrap(), answers.len()),
                (Outcome::Transmission, length)
            );
        }
        let (outcome, answers) = talk(3, &[option(option::EXPORT_NAME, b"other")]);
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "no export is named \"other\""
        );
        assert!(answers.is_empty());
    }

    #[test]
    fn garbage_ends_the_talk() {
        let (outcome, _) = talk(1 << 7, &[]);
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "unknown handshake flags: found 0x80, expected 0x0"
        );
        let (outcome, _) = talk(3, &[vec![0x55; 16]]);
        assert!(
            outcome
                .unwrap_err()
                .to_string()
                .starts_with("option magic: found 0x5555555555555555")
        );
        let mut huge = option(option::LIST, &[]);
        huge[12..].fill(0xff);
        let (outcome, _) = talk(3, &[huge]);
        assert_eq!(
            outcome.unwrap_err().to_string(),
            "option data of 4294967295 bytes, at most 65536 are taken"
        );
    }
}
