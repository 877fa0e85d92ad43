//! The state as a snapshot holds it.

use quota_core::state::State;

/// Reads the input as a state. What can be read is written again and means the same.
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
