//! Figures of quotas: what is available, and how much of a limit is taken.

use quota_client::wire::{self, QuotaCheck, ResourceCheck};
use quota_semantics::quantity::Quantity;
use serde::{Deserialize, Serialize};

use super::{table::Table, unit::in_one_unit};

/// A limit, and what counts against it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figure {
    /// The resource.
    pub(crate) resource: String,
    /// The limit.
    pub(crate) hard: Quantity,
    /// What observed objects count for.
    #[serde(default)]
    pub(crate) used: Quantity,
    /// What pending reservations hold beside that.
    #[serde(default)]
    pub(crate) reserved: Quantity,
}

/// A quota and its figures.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Figures {
    /// The quota's name.
    pub(crate) name: String,
    /// One for each limit.
    pub(crate) resources: Vec<Figure>,
}

/// Usage of a namespace.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Usage {
    /// The namespace.
    pub(crate) namespace: String,
    /// Sums over the namespace, whatever its quotas.
    pub(crate) resources: Vec<Sum>,
    /// Its quotas.
    pub(crate) quotas: Vec<Figures>,
}

/// What there is of a resource in a namespace.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Sum {
    /// The resource.
    pub(crate) resource: String,
    /// What observed objects count for.
    #[serde(default)]
    pub(crate) used: Quantity,
    /// What pending reservations hold beside that.
    #[serde(default)]
    pub(crate) reserved: Quantity,
}

impl Figure {
    /// What is left; negative if more is taken than allowed.
    pub(crate) fn available(&self) -> Quantity {
        available(&self.hard, &self.used, &self.reserved)
    }

    /// Used and reserved as a share of the limit; more than 100% if more is taken than allowed.
    pub(crate) fn share(&self) -> String {
        percent(self.taken())
    }

    fn taken(&self) -> f64 {
        share(&self.hard, &self.used, &self.reserved)
    }
}

/// What is left of a limit; negative if more is taken than allowed.
pub(crate) fn available(hard: &Quantity, used: &Quantity, reserved: &Quantity) -> Quantity {
    let mut available = hard.clone();
    available.sub_assign(used);
    available.sub_assign(reserved);
    available
}

/// What is left of a limit that a decision looked at: what is guaranteed to others is not.
pub(crate) fn left_of(limit: &ResourceCheck) -> Quantity {
    let mut left = available(&limit.hard, &limit.used, &limit.reserved);
    if let Some(others) = &limit.guaranteed_to_others {
        left.sub_assign(others);
    }
    left
}

/// How much of a limit is taken: infinitely much of none at all.
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

/// A share as tables show it.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

impl From<wire::Usage> for Usage {
    fn from(usage: wire::Usage) -> Self {
        let sum = |total: wire::Total| Sum {
            resource: total.resource.to_string(),
            used: total.used,
            reserved: total.reserved,
        };
        let figure = |limit: wire::ResourceUsage| Figure {
            resource: limit.resource.to_string(),
            hard: limit.hard,
            used: limit.used.unwrap_or_default(),
            reserved: limit.reserved,
        };
        let figures = |quota: wire::QuotaUsage| Figures {
            name: quota.name.to_string(),
            resources: quota.resources.into_iter().map(figure).collect(),
        };
        Self {
            namespace: usage.namespace.to_string(),
            resources: usage.resources.into_iter().map(sum).collect(),
            quotas: usage.quotas.into_iter().map(figures).collect(),
        }
    }
}

/// The quotas that a decision looked at, as a table; none if there are none.
pub(crate) fn looked_at(quotas: &[QuotaCheck]) -> Option<Table> {
    let limits = || quotas.iter().flat_map(|quota| &quota.resources);
    let others = |limit: &ResourceCheck| limit.guaranteed_to_others.clone().unwrap_or_default();
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
            let mut row = vec![quota, resource, requested, used, reserved];
            row.extend(guarantees.then_some(others));
            row.extend([hard, left]);
            table.row(row);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// The figures of each quota of a namespace, the fullest limit first; then the sums of the namespace, of what no quota limits too, if they are wanted or there is
/// no quota.
pub(crate) fn usage_table(usages: &[Usage], all: bool, sums: bool) -> Table {
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
    for usage in usages {
        let mut add = |cells: [String; 7]| {
            let namespace = all.then(|| usage.namespace.clone());
            table.row(namespace.into_iter().chain(cells));
        };
        let quotas = usage.quotas.iter();
        let mut figures: Vec<_> = quotas
            .flat_map(|quota| quota.resources.iter().map(move |figure| (quota, figure)))
            .collect();
        figures.sort_by(|(_, a), (_, b)| b.taken().total_cmp(&a.taken()));
        for (quota, figure) in figures {
            let available = figure.available();
            let [hard, used, reserved, available] =
                in_one_unit([&figure.hard, &figure.used, &figure.reserved, &available]);
            let (name, resource) = (quota.name.clone(), figure.resource.clone());
            add([
                name,
                resource,
                hard,
                used,
                reserved,
                available,
                figure.share(),
            ]);
        }
        let sums = sums || usage.quotas.is_empty();
        for sum in usage.resources.iter().filter(|_| sums) {
            let (used, reserved) = (
                sum.used.exact().to_string(),
                sum.reserved.exact().to_string(),
            );
            let none = || "-".to_owned();
            add([
                none(),
                sum.resource.clone(),
                none(),
                used,
                reserved,
                none(),
                none(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(hard: &str, used: &str, reserved: &str) -> Figure {
        Figure {
            resource: "cpu".to_owned(),
            hard: hard.parse().unwrap(),
            used: used.parse().unwrap(),
            reserved: reserved.parse().unwrap(),
        }
    }

    #[test]
    fn what_is_over_is_shown_as_over() {
        let over = figure("2", "2500m", "500m");
        assert_eq!(
            (over.available().to_string(), over.share()),
            ("-1".into(), "150%".into())
        );
        let half = figure("1Gi", "256Mi", "256Mi");
        assert_eq!(
            (half.available().to_string(), half.share()),
            ("512Mi".into(), "50%".into())
        );
    }

    #[test]
    fn a_limit_of_zero_has_no_share() {
        assert_eq!(figure("0", "0", "0").share(), "0%");
        assert_eq!(figure("0", "1", "0").share(), "inf%");
    }

    #[test]
    fn usage_shows_quotas_and_totals() {
        let usage = Usage::deserialize(serde_json::json!({
            "namespace": "a",
            "resources": [{"resource": "pods", "used": "3", "reserved": "1"}],
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "2", "used": "3", "reserved": "1", "available": "-2"}]}]
        }))
        .unwrap();
        assert_eq!(
            usage_table(&[usage], true, true).render(true),
            "NAMESPACE   QUOTA   RESOURCE   HARD   USED   RESERVED   AVAILABLE   USE%\n\
             a           q       pods          2      3          1          -2   200%\n\
             a           -       pods          -      3          1           -      -"
        );
    }
}
