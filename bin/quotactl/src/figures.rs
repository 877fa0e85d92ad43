//! Figures of quotas: the available amount, and the used share of a limit.

use quota_client::wire::{CheckedLimit, CheckedQuota, QuotaUsage, ResourceUsage, Total};
use quota_semantics::quantity::Quantity;

use super::{
    table::{Table, Text},
    unit::{alone, in_one_unit},
};

/// The remaining amount of a limit; negative if usage exceeds the limit.
pub(crate) fn available(hard: &Quantity, used: &Quantity, reserved: &Quantity) -> Quantity {
    let mut available = hard.clone();
    available.sub_assign(used);
    available.sub_assign(reserved);
    available
}

/// The remaining amount of a limit in a decision: amounts guaranteed to others are not available.
pub(crate) fn left_of(limit: &CheckedLimit) -> Quantity {
    let mut left = available(&limit.hard, &limit.used, &limit.reserved);
    if let Some(others) = &limit.guaranteed_to_others {
        left.sub_assign(others);
    }
    left
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

/// A share as a percentage, for tables: only a full limit shows 100%.
pub(crate) fn percent(share: f64) -> String {
    let rounded = (share * 100.0).round();
    let shown = if share < 1.0 {
        rounded.min(99.0)
    } else {
        rounded
    };
    format!("{shown:.0}%")
}

/// The quotas that a decision checked, as a table; none if there are none.
pub(crate) fn checked_quotas(quotas: &[CheckedQuota]) -> Option<Table> {
    let limits = || quotas.iter().flat_map(|quota| &quota.resources);
    let others = |limit: &CheckedLimit| limit.guaranteed_to_others.clone().unwrap_or_default();
    let guarantees = limits().any(|limit| !others(limit).is_zero());
    let mut titles = vec!["QUOTA", "RESOURCE", ">REQUESTED", ">USED", ">RESERVED"];
    titles.extend(guarantees.then_some(">FOR OTHERS"));
    titles.extend([">HARD", ">AVAILABLE"]);
    let mut table = Table::new(&titles);
    for quota in quotas {
        for limit in &quota.resources {
            let (left, others) = (left_of(limit), others(limit));
            let [hard, requested, used, reserved, others, left] = in_one_unit([
                &limit.hard,
                &limit.requested,
                &limit.used,
                &limit.reserved,
                &others,
                &left,
            ]);
            let (quota, resource) = (quota.name.to_string(), limit.resource.to_string());
            let (quota, resource) = (quota.into(), resource.into());
            let mut row: Vec<Text> = vec![quota, resource, requested, used, reserved];
            row.extend(guarantees.then_some(others));
            row.extend([hard, left]);
            table.row(row);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// The limits of quotas, each with its used amount and its used share: the fullest first.
pub(crate) fn fullest(quotas: &[QuotaUsage]) -> Vec<(&QuotaUsage, &ResourceUsage, Quantity, f64)> {
    let limits = quotas
        .iter()
        .flat_map(|quota| quota.resources.iter().map(move |limit| (quota, limit)));
    let figures = limits.map(|(quota, limit)| {
        let used = limit.used.clone().unwrap_or_default();
        let share = share(&limit.hard, &used, &limit.reserved);
        (quota, limit, used, share)
    });
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(|(.., a), (.., b)| b.total_cmp(a));
    figures
}

/// Usage as a table: for each namespace the figures of each quota, the fullest limit first; then the sums, including
/// resources without a limit, if they are requested or the namespace has no quota.
pub(crate) fn usage_table<'a>(
    usages: impl IntoIterator<Item = (&'a str, &'a [Total], &'a [QuotaUsage])>,
    all: bool,
    sums: bool,
) -> Table {
    let mut titles = vec![
        "QUOTA",
        "RESOURCE",
        ">HARD",
        ">USED",
        ">RESERVED",
        ">AVAILABLE",
        ">USE%",
    ];
    if all {
        titles.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&titles);
    for (namespace, totals, quotas) in usages {
        let mut add = |cells: [Text; 7]| {
            let namespace = all.then(|| namespace.into());
            table.row(namespace.into_iter().chain(cells));
        };
        for (quota, limit, used, share) in fullest(quotas) {
            let available = available(&limit.hard, &used, &limit.reserved);
            let [hard, used, reserved, available] =
                in_one_unit([&limit.hard, &used, &limit.reserved, &available]);
            add([
                quota.name.to_string().into(),
                limit.resource.to_string().into(),
                hard,
                used,
                reserved,
                available,
                percent(share).into(),
            ]);
        }
        let sums = sums || quotas.is_empty();
        for sum in totals.iter().filter(|_| sums) {
            let none = || "-".into();
            add([
                none(),
                sum.resource.to_string().into(),
                none(),
                alone(&sum.used),
                alone(&sum.reserved),
                none(),
                none(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use quota_client::wire::Usage;

    use super::*;

    fn amounts(texts: [&str; 3]) -> [Quantity; 3] {
        texts.map(|text| text.parse().unwrap())
    }

    #[test]
    fn only_a_full_limit_shows_a_hundred_percent() {
        let shown = [0.0, 0.0977, 0.996, 1.0, 1.3].map(percent);
        assert_eq!(shown, ["0%", "10%", "99%", "100%", "130%"]);
    }

    #[test]
    fn what_is_over_is_shown_as_over() {
        for (figures, left, taken) in [
            (["2", "2500m", "500m"], "-1", "150%"),
            (["1Gi", "256Mi", "256Mi"], "512Mi", "50%"),
            (["0", "0", "0"], "0", "0%"),
            (["0", "1", "0"], "-1", "inf%"),
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
        let usages = [(&*usage.namespace, &*usage.resources, &*usage.quotas)];
        assert_eq!(
            usage_table(usages, true, true).render(true),
            "NAMESPACE   QUOTA   RESOURCE   HARD   USED   RESERVED   AVAILABLE   USE%\n\
             a           q       pods          2      3          1          -2   200%\n\
             a           -       pods          -      3          1           -      -"
        );
    }
}
