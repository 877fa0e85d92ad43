//! The codec of entries.

use quota_core::{codec, state::State};

/// Decodes the input behind its first byte, which is the number of entries. Decoded entries have one canonical form,
/// and can be folded.
pub fn run(data: &[u8]) {
    let Some((count, payload)) = data.split_first() else {
        return;
    };
    let Ok(entries) = codec::decode_entries(1, u32::from(*count), payload) else {
        return;
    };
    let canonical = codec::encode_entries(&entries);
    let again = codec::decode_entries(1, u32::from(*count), &canonical).unwrap();
    assert_eq!(again, entries);
    assert_eq!(codec::encode_entries(&again), canonical);
    let mut state = State::default();
    for entry in &entries {
        state.apply(entry);
    }
}
