//! Figures of quotas: the available amount, and the taken share of a limit.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use quota_client::wire::{
    BoundBy, CheckedLimit, CheckedQuota, LimitKind, QuotaUsage, ResourceUsage, Room, Total, Usage,
};
use quota_semantics::{
    Name,
    quantity::{Format, Quantity},
};

use crate::table::Table;

/// The remaining amount of a limit; negative if usage exceeds the limit.
pub(crate) fn available(hard: &Quantity, used: &Quantity, reserved: &Quantity) -> Quantity {
    let mut available = hard.clone();
    available.sub_assign(used);
    available.sub_assign(reserved);
    available
}

/// The used share of a limit: infinite if the limit is zero and usage is not.
pub(crate) fn share(hard: &Quantity, used: &Quantity, reserved: &Quantity) -> f64 {
    let mut taken = used.clone();
    taken.add_assign(reserved);
    let (taken, hard) = (taken.to_f64(), hard.to_f64());
    match (hard > 0.0, taken > 0.0) {
        (true, _) => taken / hard,
        (false, true) => f64::INFINITY,
        (false, false) => 0.0,
    }
}

/// A share as a percentage, rounded down as on the page: only a full limit shows 100%. What is taken of nothing has none.
pub(crate) fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.0}%", (share * 100.0 + 1e-9).floor()),
        false => "over".to_owned(),
    }
}

/// The limits of a decision that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Those that failed; if none did, all.
    Failed,
    /// All, those that failed first.
    All,
}

/// The limits that a decision checked, as a table; none if there are none. `USED` is what Kubernetes' message calls so.
pub(crate) fn checked_quotas(quotas: &[CheckedQuota], rows: Rows) -> Option<Table> {
    let limits = quotas.iter().flat_map(|quota| {
        let resources = quota.resources.iter();
        resources.map(move |limit| (quota, limit))
    });
    let mut limits: Vec<_> = limits.collect();
    limits.sort_by_key(|(_, limit)| !limit.is_exceeded());
    let failed = limits.iter().filter(|(_, limit)| limit.is_exceeded()).count();
    if rows == Rows::Failed && failed > 0 {
        limits.truncate(failed);
    }
    let others = |limit: &CheckedLimit| limit.guaranteed_to_others.clone().unwrap_or_default();
    let reservations = limits.iter().any(|(_, limit)| !limit.reserved.is_zero());
    let guarantees = limits.iter().any(|(_, limit)| !others(limit).is_zero());
    let mut titles = vec!["QUOTA", "RESOURCE", ">REQUESTED", ">USED"];
    titles.extend(reservations.then_some("?>OF IT RESERVED"));
    titles.extend(guarantees.then_some("?>OF IT FOR OTHERS"));
    titles.extend([">HARD", ">AVAILABLE"]);
    let mut table = Table::new(&titles);
    let units = Units::of(limits.iter().map(|(_, limit)| (&*limit.resource, &limit.hard)));
    for (quota, limit) in limits {
        let [counted, left, others] = [limit.counted(), limit.left(), others(limit)];
        let show = |amount| units.show(&limit.resource, amount);
        let quota = limit_name(quota.kind, &quota.name);
        let mut row =
            vec![quota, limit.resource.to_string(), show(&limit.requested), show(&counted)];
        row.extend(reservations.then(|| show(&limit.reserved)));
        row.extend(guarantees.then(|| show(&others)));
        row.extend([show(&limit.hard), show(&left)]);
        table.row(row);
    }
    (!table.is_empty()).then_some(table)
}

/// A limit as it is named beside others: `group/NAME` for a group.
pub(crate) fn limit_name(kind: LimitKind, name: &str) -> String {
    match kind {
        LimitKind::ResourceQuota => name.to_owned(),
        LimitKind::ClusterResourceQuota => format!("group/{name}"),
    }
}

/// The usage of a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceFigures<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) totals: &'a [Total],
    pub(crate) quotas: &'a [QuotaUsage],
    pub(crate) room: &'a BTreeMap<Name, Room>,
}

impl<'a> From<&'a Usage> for NamespaceFigures<'a> {
    fn from(usage: &'a Usage) -> Self {
        Self {
            namespace: &usage.namespace,
            totals: &usage.resources,
            quotas: &usage.quotas,
            room: &usage.room,
        }
    }
}

/// A limit of a namespace: of a quota, or of a group that leaves less than the quotas do.
#[derive(Clone, Debug)]
pub(crate) struct LimitFigures<'a> {
    /// The quota or group.
    pub(crate) limit: String,
    pub(crate) resource: &'a Name,
    pub(crate) hard: &'a Quantity,
    /// None: the amounts of other namespaces, which the caller may not see, count as well.
    pub(crate) taken: Option<[&'a Quantity; 2]>,
    /// The amount that can be reserved.
    pub(crate) available: &'a Quantity,
    /// The taken share of the limit.
    pub(crate) share: f64,
    /// Another quota or group that leaves less.
    pub(crate) bound_by: Option<String>,
}

impl LimitFigures<'_> {
    /// The amounts for a table: hard, used, reserved, available.
    pub(crate) fn amounts(&self, units: Units) -> [String; 4] {
        let show = |amount| units.show(self.resource, amount);
        let [used, reserved] = match self.taken {
            Some(taken) => taken.map(show),
            None => ["-", "-"].map(str::to_owned),
        };
        [show(self.hard), used, reserved, show(self.available)]
    }
}

/// The units for a table of limits.
pub(crate) fn units_of<'a, 'b: 'a>(
    limits: impl IntoIterator<Item = &'a LimitFigures<'b>>,
) -> Units {
    let limits = limits.into_iter();
    Units::of(limits.map(|limit| (&**limit.resource, limit.hard)))
}

/// The limits of a namespace, the fullest first.
pub(crate) fn fullest<'a>(
    quotas: &'a [QuotaUsage],
    room: &'a BTreeMap<Name, Room>,
) -> Vec<LimitFigures<'a>> {
    let of_quotas = quotas.iter().flat_map(|quota| {
        let resources = quota.resources.iter();
        resources.map(move |limit| of_quota(quota, limit, room))
    });
    let of_groups = room.iter().filter(|(_, room)| {
        let BoundBy { kind, .. } = room.bound_by;
        kind == LimitKind::ClusterResourceQuota
    });
    let of_groups = of_groups.map(|(resource, room)| of_group(resource, room));
    let mut limits: Vec<_> = of_quotas.chain(of_groups).collect();
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    limits
}

fn of_quota<'a>(
    quota: &QuotaUsage,
    limit: &'a ResourceUsage,
    room: &'a BTreeMap<Name, Room>,
) -> LimitFigures<'a> {
    let used = limit.used.as_ref().unwrap_or(&Quantity::ZERO);
    let least = room.get(&limit.resource);
    let least = least.filter(|room| room.available < limit.available);
    LimitFigures {
        limit: quota.name.to_string(),
        resource: &limit.resource,
        hard: &limit.hard,
        taken: Some([used, &limit.reserved]),
        available: least.map_or(&limit.available, |room| &room.available),
        share: share(&limit.hard, used, &limit.reserved),
        bound_by: least.map(|room| limit_name(room.bound_by.kind, &room.bound_by.name)),
    }
}

fn of_group<'a>(resource: &'a Name, room: &'a Room) -> LimitFigures<'a> {
    let BoundBy { kind, name, hard, used, reserved, .. } = &room.bound_by;
    let mut taken = hard.clone();
    taken.sub_assign(&room.available);
    let seen = used.as_ref().zip(reserved.as_ref());
    LimitFigures {
        limit: limit_name(*kind, name),
        resource,
        hard,
        taken: seen.map(|(used, reserved)| [used, reserved]),
        available: &room.available,
        share: share(hard, &taken, &Quantity::ZERO),
        bound_by: None,
    }
}

/// Usage as a table: for each namespace the figures of each limit, the fullest first; then the sums, including resources
/// without a limit, if they are requested or the namespace has no limit. What leaves less than a limit is named.
pub(crate) fn usage_table(usages: &[NamespaceFigures<'_>], all: bool, sums: bool) -> Table {
    let limits: Vec<_> = usages.iter().map(|usage| fullest(usage.quotas, usage.room)).collect();
    let is_bound = limits.iter().flatten().any(|limit| limit.bound_by.is_some());
    let mut titles =
        vec!["QUOTA", "RESOURCE", "?>HARD", ">USED", "?>RESERVED", ">AVAILABLE", ">USE%"];
    titles.extend(is_bound.then_some("BOUND BY"));
    if all {
        titles.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&titles);
    let units = units_of(limits.iter().flatten());
    for (usage, limits) in usages.iter().zip(limits) {
        let mut add = |cells: [String; 7], bound_by: Option<String>| {
            let namespace = all.then(|| usage.namespace.to_owned());
            let bound_by = is_bound.then(|| bound_by.unwrap_or_else(|| "-".to_owned()));
            table.row(namespace.into_iter().chain(cells).chain(bound_by));
        };
        let sums = sums || limits.is_empty();
        for limit in limits {
            let [hard, used, reserved, available] = limit.amounts(units);
            let cells = [
                limit.limit,
                limit.resource.to_string(),
                hard,
                used,
                reserved,
                available,
                percent(limit.share),
            ];
            add(cells, limit.bound_by);
        }
        for sum in usage.totals.iter().filter(|_| sums) {
            let none = || "-".to_owned();
            let cells = [
                none(),
                sum.resource.to_string(),
                none(),
                alone(&sum.resource, &sum.used),
                alone(&sum.resource, &sum.reserved),
                none(),
                none(),
            ];
            add(cells, None);
        }
    }
    table
}

// Amounts for people, by one rule for all views: CPU in cores, bytes with one binary suffix for all of a table, counts
// plain. At most three decimals; `~` marks what is rounded. `-o json` has the exact amounts.

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

    fn amounts(texts: [&str; 3]) -> [Quantity; 3] {
        texts.map(|text| text.parse().unwrap())
    }

    #[test]
    fn only_a_full_limit_shows_a_hundred_percent() {
        let shown = [0.0, 0.0977, 0.996, 1.0, 1.3].map(percent);
        assert_eq!(shown, ["0%", "9%", "99%", "100%", "130%"]);
    }

    #[test]
    fn what_is_over_is_shown_as_over() {
        for (figures, left, taken) in [
            (["2", "2500m", "500m"], "-1", "150%"),
            (["1Gi", "256Mi", "256Mi"], "512Mi", "50%"),
            (["0", "0", "0"], "0", "0%"),
            (["0", "1", "0"], "-1", "over"),
        ] {
            let [hard, used, reserved] = amounts(figures);
            assert_eq!(available(&hard, &used, &reserved).to_string(), left);
            assert_eq!(percent(share(&hard, &used, &reserved)), taken);
        }
    }

    #[test]
    fn usage_shows_quotas_and_totals() {
        let usage: Usage = serde_json::from_value(serde_json::json!({
            "namespace": "a",
            "resources": [{"resource": "pods", "used": "3", "reserved": "1"}],
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "2", "used": "3", "reserved": "1", "available": "-2"}]}],
            "asOf": {"sequence": 1, "time": "2026-11-20T10:00:00Z"}
        }))
        .unwrap();
        let usages = [NamespaceFigures::from(&usage)];
        assert_eq!(
            usage_table(&usages, true, true).render(true),
            "NAMESPACE   QUOTA   RESOURCE   HARD   USED   RESERVED   AVAILABLE   USE%\n\
             a           q       pods          2      3          1          -2   200%\n\
             a           -       pods          -      3          1           -      -"
        );
    }

    #[test]
    fn a_limit_says_what_leaves_less() {
        let usage: Usage = serde_json::from_value(serde_json::json!({
            "namespace": "a", "resources": [],
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "20", "used": "5", "reserved": "0", "available": "15"},
                {"resource": "services", "hard": "2", "used": "1", "reserved": "0", "available": "1"}]}],
            "room": {
                "pods": {"available": "0", "boundBy": {"kind": "ClusterResourceQuota", "name": "all", "hard": "5",
                    "used": "4", "reserved": "1"}},
                "secrets": {"available": "1", "boundBy": {"kind": "ClusterResourceQuota", "name": "g", "hard": "4"}},
                "services": {"available": "1", "boundBy": {"kind": "ResourceQuota", "name": "q", "hard": "2",
                    "used": "1", "reserved": "0"}}},
            "asOf": {"sequence": 1, "time": "2026-11-20T10:00:00Z"}
        }))
        .unwrap();
        assert_eq!(
            usage_table(&[NamespaceFigures::from(&usage)], false, false).render(true),
            "QUOTA       RESOURCE   HARD   USED   RESERVED   AVAILABLE   USE%   BOUND BY\n\
             group/all   pods          5      4          1           0   100%   -\n\
             group/g     secrets       4      -          -           1    75%   -\n\
             q           services      2      1          0           1    50%   -\n\
             q           pods         20      5          0           0    25%   group/all"
        );
    }

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
