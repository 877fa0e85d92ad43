//! Pieces of requests.

/// Random uids, and choices: a different row for each seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The row of a connection, in the run with this seed.
    #[must_use]
    pub fn new(seed: u64, connection: usize) -> Self {
        Self(seed ^ (connection as u64).wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    /// The next number: SplitMix64.
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below another.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % (end.max(1) as u64)).unwrap_or(0)
    }
}

/// A uid as Kubernetes writes it.
pub type UidText = [u8; 36];

/// A random UUID of version 4.
#[must_use]
pub fn uid(random: &mut Random) -> UidText {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = (u128::from(random.number()) << 64 | u128::from(random.number())).to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}

/// Appends pieces.
pub fn append(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Appends a number.
pub fn append_number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn uids_are_uuids_and_differ() {
        let mut seen = BTreeSet::new();
        for connection in 0..4 {
            let mut random = Random::new(7, connection);
            for _ in 0..1000 {
                let text = String::from_utf8(uid(&mut random).to_vec()).unwrap();
                assert_eq!(uuid::Uuid::parse_str(&text).unwrap().get_version_num(), 4);
                assert!(seen.insert(text));
            }
        }
    }

    #[test]
    fn numbers_are_written() {
        for number in [0, 9, 10, 1234567, usize::MAX] {
            let mut out = Vec::new();
            append_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
