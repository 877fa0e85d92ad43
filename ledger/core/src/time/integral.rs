//! Exact integrals.

use quota_semantics::quantity::{Format, Quantity};

/// A sum of amounts times nanoseconds: `high * 2^64 + low` billionths, and what is beyond that.
#[derive(Clone, Debug, Default)]
pub(super) struct Integral {
    high: i128,
    low: u64,
    beyond: Option<Box<Quantity>>,
}

impl Integral {
    /// An amount is held for some nanoseconds.
    pub(super) fn add(&mut self, amount: &Quantity, nanoseconds: u64) {
        match amount.nanos() {
            Some(amount) => self.add_nanos(amount, nanoseconds),
            None => self.beyond.get_or_insert_default().add_times(amount, nanoseconds),
        }
    }

    /// The same of an amount in billionths.
    #[inline]
    pub(super) fn add_nanos(&mut self, amount: i128, nanoseconds: u64) {
        match self.plus(amount, nanoseconds) {
            Some((high, low)) => (self.high, self.low) = (high, low),
            None => {
                let mut quantity = Quantity::ZERO;
                quantity.add_nanos(amount, Format::DecimalSI);
                self.beyond.get_or_insert_default().add_times(&quantity, nanoseconds);
            }
        }
    }

    #[inline]
    fn plus(&self, amount: i128, nanoseconds: u64) -> Option<(i128, u64)> {
        let times = u128::from(nanoseconds);
        let low = u128::from(amount as u64) * times;
        let high = (amount >> 64) * i128::from(nanoseconds) + (low >> 64) as i128;
        let (low, carry) = self.low.overflowing_add(low as u64);
        let high = self.high.checked_add(high)?.checked_add(carry.into())?;
        Some((high, low))
    }

    /// Adds all of another one.
    pub(super) fn add_all(&mut self, other: &Self) {
        let Self { high, low, beyond } = other.clone();
        let (sum, carry) = self.low.overflowing_add(low);
        match self.high.checked_add(high).and_then(|sum| sum.checked_add(carry.into())) {
            Some(high) => (self.high, self.low) = (high, sum),
            None => {
                let other = Self { high, low, beyond: None }.finish();
                self.beyond.get_or_insert_default().add_assign(&other);
            }
        }
        if let Some(beyond) = beyond {
            self.beyond.get_or_insert_default().add_assign(&beyond);
        }
    }

    /// The sum.
    pub(super) fn finish(self) -> Quantity {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        let mut sum = Quantity::from_nanos_bytes(&bytes, Format::DecimalSI);
        if let Some(beyond) = self.beyond {
            sum.add_assign(&beyond);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount() -> impl Strategy<Value = Quantity> {
        let bytes = prop::collection::vec(any::<u8>(), 0..20);
        bytes.prop_map(|bytes| Quantity::from_nanos_bytes(&bytes, Format::DecimalSI))
    }

    proptest! {
        #[test]
        fn an_integral_is_the_sum_of_products(
            parts in prop::collection::vec((amount(), any::<u64>()), 0..20),
        ) {
            let (mut integral, mut sum) = (Integral::default(), Quantity::ZERO);
            let mut all = Integral::default();
            for (amount, nanoseconds) in parts {
                integral.add(&amount, nanoseconds);
                all.add_all(&integral);
                sum.add_assign(&amount.times(nanoseconds));
            }
            prop_assert_eq!(integral.clone().finish(), sum.clone());
            all.add_all(&integral);
            integral.add_all(&all);
            sum.add_assign(&all.finish());
            prop_assert_eq!(integral.finish(), sum);
        }
    }
}
