//! The state in a snapshot.

use quota_core::state::State;

/// Reads the input as a state. A valid state is written again with the same meaning.
pub fn run(data: &[u8]) {
    let mut rest = data;
    let Ok(state) = State::read(&mut rest) else {
        return;
    };
    let mut written = Vec::new();
    state.image().write(&mut written).unwrap();
    let again = State::read(&mut written.as_slice()).unwrap();
    assert_eq!(again.digest(), state.digest());
}
