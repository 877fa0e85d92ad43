//! Pieces of an image: records and slabs. Only one piece at a time is held in memory.

use std::io::{self, Read, Write};

use super::ImageError;
use crate::{
    codec::{DecodeError, Reader, Wire, Writer},
    state::slab::Slab,
};

/// A piece is closed when it reaches this length in bytes; this bounds the memory of writing.
const PIECE_BYTES: usize = 256 * 1024;

pub(super) fn write_piece(output: &mut impl Write, writer: Writer) -> io::Result<()> {
    let bytes = writer.finish();
    output.write_all(&(bytes.len() as u64).to_le_bytes())?;
    output.write_all(&bytes)
}

pub(super) fn read_piece(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    // The buffer grows with the input, not with the claimed length.
    if input.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn write_record(output: &mut impl Write, record: &impl Wire) -> io::Result<()> {
    let mut writer = Writer::default();
    record.put(&mut writer);
    write_piece(output, writer)
}

fn read_record<T: Wire>(input: &mut impl Read) -> Result<T, ImageError> {
    let bytes = read_piece(input)?;
    let mut reader = Reader::new(&bytes)?;
    let record = T::take(&mut reader)?;
    reader.finish()?;
    Ok(record)
}

/// Writes a slab: a head, then pieces of whole chunks.
pub(super) fn write_slab<T: Wire + Clone, const CHUNK: usize>(
    output: &mut impl Write,
    slab: &Slab<T, CHUNK>,
) -> io::Result<()> {
    let mut writer = Writer::default();
    slab.put_head(&mut writer);
    write_piece(output, writer)?;
    let mut writer = Writer::default();
    let mut chunks = 0_u64;
    let head = |output: &mut _, writer: &mut Writer, chunks: &mut u64| {
        write_record(output, &std::mem::take(chunks))?;
        write_piece(output, std::mem::take(writer))
    };
    for chunk in 0..slab.chunk_count() {
        slab.put_chunk(chunk, &mut writer);
        chunks += 1;
        if writer.body_len() >= PIECE_BYTES || chunk + 1 == slab.chunk_count() {
            head(output, &mut writer, &mut chunks)?;
        }
    }
    Ok(())
}

pub(super) fn read_slab<T: Wire + Clone, const CHUNK: usize>(
    input: &mut impl Read,
) -> Result<Slab<T, CHUNK>, ImageError> {
    let bytes = read_piece(input)?;
    let mut reader = Reader::new(&bytes)?;
    let (mut slab, mut left) = Slab::take_head(&mut reader)?;
    reader.finish()?;
    while left > 0 {
        let count: u64 = read_record(input)?;
        left = left
            .checked_sub(count)
            .filter(|_| count > 0)
            .ok_or_else(|| DecodeError("pieces that do not add up".into()))?;
        let bytes = read_piece(input)?;
        let mut reader = Reader::new(&bytes)?;
        for _ in 0..count {
            slab.take_chunk(&mut reader)?;
        }
        reader.finish()?;
    }
    slab.check()?;
    Ok(slab)
}
