//! Amounts for people, by one rule for all views: CPU in cores, bytes with one binary suffix for all of a table, counts
//! plain. At most three decimals; `~` marks what is rounded. `-o json` has the exact amounts.

use std::sync::atomic::{AtomicBool, Ordering};

use quota_semantics::quantity::{Format, Quantity};

/// Suffixes of bytes from the largest to the smallest, each with its value in billionths.
const BYTES: [(&str, i128); 7] = [
    ("Ei", NANOS << 60),
    ("Pi", NANOS << 50),
    ("Ti", NANOS << 40),
    ("Gi", NANOS << 30),
    ("Mi", NANOS << 20),
    ("Ki", NANOS << 10),
    ("", NANOS),
];
const NANOS: i128 = 1_000_000_000;

/// The largest amount that is converted: Kubernetes parses larger ones with a binary suffix as this amount. Larger ones are
/// shown as they are written.
const CONVERTED_MAX: i128 = (i64::MAX as i128) * NANOS;

/// Whether amounts are shown exactly, in canonical form: set once, before anything is printed, for programs that read
/// tables.
static EXACT: AtomicBool = AtomicBool::new(false);

/// Shows all amounts of this process exactly.
pub(crate) fn show_exact() {
    EXACT.store(true, Ordering::Relaxed);
}

/// The units of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    bytes: (&'static str, i128),
}

impl Units {
    /// The units for these amounts, which are the limits of a table if it has any: the largest suffix of which the smallest
    /// of them is at least a quarter (`0.5Gi` and not `512Mi` beside `1Gi`), or the next one if only that shows it exactly
    /// (`2880Gi` and not `~2.813Ti`).
    pub(crate) fn of<'a>(amounts: impl IntoIterator<Item = (&'a str, &'a Quantity)>) -> Self {
        let bytes = amounts.into_iter().filter(|(resource, amount)| is_bytes(resource, amount));
        let least = bytes
            .filter_map(|(_, amount)| nanos(amount))
            .map(i128::abs)
            .filter(|amount| *amount > 0)
            .min();
        let fits = |(_, unit): &(&str, i128)| least.is_some_and(|least| least >= unit / 4);
        let is_exact = |(_, unit): &(&str, i128)| {
            least.is_some_and(|least| least.checked_mul(1000).is_some_and(|it| it % unit == 0))
        };
        let mut units = BYTES.into_iter().skip_while(|unit| !fits(unit));
        let largest = units.next().unwrap_or(("", NANOS));
        let next = units.next().filter(|next| !is_exact(&largest) && is_exact(next));
        Self { bytes: next.unwrap_or(largest) }
    }

    /// An amount of a resource.
    pub(crate) fn show(self, resource: &str, amount: &Quantity) -> String {
        if EXACT.load(Ordering::Relaxed) {
            return amount.exact().to_string();
        }
        let unit = match is_bytes(resource, amount) {
            true => self.bytes,
            false => ("", NANOS),
        };
        match nanos(amount).filter(|nanos| nanos.abs() <= CONVERTED_MAX) {
            Some(nanos) => decimal(nanos, unit),
            None => amount.exact().to_string(),
        }
    }

    /// Amounts of one resource.
    pub(crate) fn all<const N: usize>(
        self,
        resource: &str,
        amounts: [&Quantity; N],
    ) -> [String; N] {
        amounts.map(|amount| self.show(resource, amount))
    }
}

/// An amount of a resource that stands alone.
pub(crate) fn alone(resource: &str, amount: &Quantity) -> String {
    Units::of([(resource, amount)]).show(resource, amount)
}

/// An amount beside its limit, in the unit of the limit unless it is too small for that.
pub(crate) fn beside(resource: &str, amount: &Quantity, hard: &Quantity) -> String {
    let shown = Units::of([(resource, hard)]).show(resource, amount);
    match shown.starts_with("~0") && !shown.starts_with("~0.") {
        true => alone(resource, amount),
        false => shown,
    }
}

/// Whether amounts of a resource are bytes. Of an unknown resource, if they are written with a binary suffix.
fn is_bytes(resource: &str, amount: &Quantity) -> bool {
    let name = resource.rsplit(['/', '.']).next().unwrap_or(resource);
    matches!(name, "memory" | "storage" | "ephemeral-storage")
        || resource.contains("hugepages-")
        || (!is_cpu(resource) && amount.format() == Format::BinarySI)
}

fn is_cpu(resource: &str) -> bool {
    matches!(resource, "cpu" | "requests.cpu" | "limits.cpu")
}

/// An amount in a unit, with at most three decimals.
fn decimal(nanos: i128, (suffix, unit): (&str, i128)) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    // In thousandths: the amounts fit into 93 bits.
    let scaled = nanos.abs() * 1000;
    let (exact, thousandths) = (scaled % unit == 0, (scaled + unit / 2) / unit);
    if thousandths == 0 {
        return format!("~{sign}0{suffix}");
    }
    let mark = if exact { "" } else { "~" };
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    match rest {
        0 => format!("{mark}{sign}{whole}{suffix}"),
        rest => {
            let rest = format!("{rest:03}");
            format!("{mark}{sign}{whole}.{}{suffix}", rest.trim_end_matches('0'))
        }
    }
}

/// The amount in billionths; none if it exceeds the type.
fn nanos(amount: &Quantity) -> Option<i128> {
    let (digits, power) = amount.scaled()?;
    let exponent = u32::try_from(i32::from(power) + 9).ok()?;
    10_i128.checked_pow(exponent)?.checked_mul(digits.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(amount: &str) -> Quantity {
        amount.parse().unwrap()
    }

    #[test]
    fn each_resource_has_its_unit() {
        for (resource, amount, expected) in [
            ("requests.cpu", "3500m", "3.5"),
            ("limits.cpu", "1", "1"),
            ("cpu", "100u", "~0"),
            ("cpu", "1500u", "~0.002"),
            ("requests.memory", "32212254720", "30Gi"),
            ("requests.memory", "3147483648", "~2.931Gi"),
            ("memory", "-512Mi", "-0.5Gi"),
            ("hugepages-2Mi", "4194304", "4Mi"),
            ("requests.memory", "2880Gi", "2880Gi"),
            ("requests.memory", "128Gi", "128Gi"),
            ("requests.memory", "65530Mi", "65530Mi"),
            ("gold.storageclass.storage.k8s.io/requests.storage", "1536Gi", "1.5Ti"),
            ("pods", "1k", "1000"),
            ("example.com/units", "1500m", "1.5"),
            ("example.com/cache", "1Gi", "1Gi"),
            ("requests.cpu", "1Ki", "1024"),
            ("pods", "0", "0"),
            ("pods", "1000E", "1000E"),
        ] {
            assert_eq!(alone(resource, &read(amount)), expected, "{resource} {amount}");
        }
    }

    #[test]
    fn all_bytes_of_a_table_have_one_suffix() {
        let [one, half, more, few] = ["1Gi", "512Mi", "2Ti", "100Ki"].map(read);
        let memory = "requests.memory";
        let units = Units::of([(memory, &one), (memory, &half), ("pods", &Quantity::ZERO)]);
        assert_eq!(
            units.all(memory, [&one, &half, &more, &few]),
            ["1Gi", "0.5Gi", "2048Gi", "~0Gi"]
        );
        assert_eq!(beside(memory, &half, &more), "0.5Gi");
        let nothing = Units::of([]);
        assert_eq!(nothing.show(memory, &Quantity::ZERO), "0");
    }

    proptest! {
        #[test]
        fn what_is_not_marked_is_exact(amount in "[1-9][0-9]{0,12}(m|k|M|G|Ki|Mi|Gi|e3)?", resource in "(requests\\.)?(cpu|memory)|pods") {
            let amount = read(&amount);
            let shown = alone(&resource, &amount);
            match shown.strip_prefix('~') {
                None => prop_assert_eq!(read(&shown), amount),
                Some(rounded) => {
                    let (rounded, exact) = (read(rounded).to_f64(), amount.to_f64());
                    prop_assert!((rounded - exact).abs() <= exact * 0.006 + 0.0005, "{} for {}", rounded, exact);
                }
            }
        }
    }
}
