//! The hashes of many beginnings of the same bytes, each behind a head of its own, without reading all of the bytes for
//! each: the hash is the root of a tree, of which they share the most.

use blake3::{
    CHUNK_LEN, Hasher,
    hazmat::{
        ChainingValue, HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root,
        merge_subtrees_root,
    },
};

/// Bytes behind a head, and the parts of their tree that do not depend on the head.
pub(super) struct Beginnings<'a> {
    head_bytes: usize,
    body: &'a [u8],
    /// The nodes over 1, 2, 4, … whole chunks, in order. Those over the first chunk, which holds the head, are not used.
    levels: Vec<Vec<ChainingValue>>,
}

impl<'a> Beginnings<'a> {
    /// For heads of this length, shorter than a chunk.
    pub(super) fn new(head_bytes: usize, body: &'a [u8]) -> Self {
        debug_assert!(head_bytes < CHUNK_LEN);
        let behind_first = body.get(CHUNK_LEN - head_bytes..).unwrap_or_default();
        let mut level = vec![ChainingValue::default()];
        level.extend(
            (1u64..)
                .zip(behind_first.chunks_exact(CHUNK_LEN))
                .map(|(number, chunk)| chunk_value(number * CHUNK_LEN as u64, &[chunk])),
        );
        let mut levels = Vec::new();
        while level.len() > 1 {
            let pairs = level.chunks_exact(2);
            let above = pairs.map(|pair| merge_subtrees_non_root(&pair[0], &pair[1], Mode::Hash));
            let above = above.collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        Self { head_bytes, body, levels }
    }

    /// The hash of the head and this many bytes of the body; none if there are fewer.
    pub(super) fn hash(&self, head: &[u8], body_bytes: usize) -> Option<blake3::Hash> {
        debug_assert_eq!(head.len(), self.head_bytes);
        let body = self.body.get(..body_bytes)?;
        let whole = head.len().saturating_add(body.len()) as u64;
        if whole <= CHUNK_LEN as u64 {
            return Some(Hasher::new().update(head).update(body).finalize());
        }
        let left = left_subtree_len(whole);
        let (first, second) = (self.node(head, 0, left)?, self.node(head, left, whole - left)?);
        Some(merge_subtrees_root(&first, &second, Mode::Hash))
    }

    /// The node over a part of the input.
    fn node(&self, head: &[u8], start: u64, bytes: u64) -> Option<ChainingValue> {
        if start > 0
            && let Some(value) = self.precomputed(start, bytes)
        {
            return Some(value);
        }
        if bytes > CHUNK_LEN as u64 {
            let left = left_subtree_len(bytes);
            let first = self.node(head, start, left)?;
            let second = self.node(head, start + left, bytes - left)?;
            return Some(merge_subtrees_non_root(&first, &second, Mode::Hash));
        }
        let from = usize::try_from(start).ok()?.saturating_sub(self.head_bytes);
        let to = usize::try_from(start + bytes).ok()?.checked_sub(self.head_bytes)?;
        let body = self.body.get(from..to)?;
        Some(match start {
            0 => chunk_value(0, &[head, body]),
            _ => chunk_value(start, &[body]),
        })
    }

    /// The node over whole chunks, if it does not depend on the head.
    fn precomputed(&self, start: u64, bytes: u64) -> Option<ChainingValue> {
        let chunks = bytes / CHUNK_LEN as u64;
        if !bytes.is_multiple_of(CHUNK_LEN as u64) || !chunks.is_power_of_two() {
            return None;
        }
        let level = self.levels.get(chunks.trailing_zeros() as usize)?;
        level.get(usize::try_from(start / bytes).ok()?).copied()
    }
}

fn chunk_value(start: u64, parts: &[&[u8]]) -> ChainingValue {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(start);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize_non_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_the_hashes_of_the_bytes() {
        let body: Vec<u8> = (0..70_000u32).map(|at| (at * 7 / 3) as u8).collect();
        let heads = [[1; 54], [2; 54]];
        let beginnings = Beginnings::new(54, &body);
        let chunk = CHUNK_LEN - 54;
        let ends = (0..body.len()).step_by(97);
        let edges = (0..68).flat_map(|n| (n * CHUNK_LEN + chunk - 1)..=(n * CHUNK_LEN + chunk + 1));
        for end in ends.chain(edges).chain([body.len()]) {
            for head in heads {
                let whole = [&head[..], &body[..end]].concat();
                let hash = beginnings.hash(&head, end);
                assert_eq!(hash, Some(blake3::hash(&whole)), "{end}");
            }
        }
        assert_eq!(beginnings.hash(&heads[0], body.len() + 1), None);
    }
}
