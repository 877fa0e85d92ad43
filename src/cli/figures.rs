//! Figures of quotas: what is available, and how much of a limit is taken.

use quota_ledger::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

use super::table::Table;

/// A limit, and what counts against it.
#[derive(Clone, Debug, Deserialize)]
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
    /// What was asked for.
    #[serde(default)]
    pub(crate) requested: Quantity,
}

/// A quota and its figures.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Figures {
    /// The quota's name.
    pub(crate) name: String,
    /// One for each limit.
    pub(crate) resources: Vec<Figure>,
}

impl Figure {
    /// What is left; negative if more is taken than allowed.
    pub(crate) fn available(&self) -> Quantity {
        let mut available = self.hard.clone();
        available.sub_assign(&self.used);
        available.sub_assign(&self.reserved);
        available
    }

    /// Used and reserved as a share of the limit; more than 100% if more is taken than allowed.
    pub(crate) fn share(&self) -> String {
        let mut taken = self.used.clone();
        taken.add_assign(&self.reserved);
        let (taken, hard) = (taken.to_f64(), self.hard.to_f64());
        if hard > 0.0 {
            format!("{:.0}%", taken / hard * 100.0)
        } else if taken > 0.0 {
            "inf%".to_owned()
        } else {
            "0%".to_owned()
        }
    }
}

/// The quotas that a decision looked at, as a table; none if there are none.
pub(crate) fn looked_at(quotas: &Value) -> Option<Table> {
    let quotas = Vec::<Figures>::deserialize(quotas).ok()?;
    let mut table = Table::new(&[
        "QUOTA",
        "RESOURCE",
        ">REQUESTED",
        ">USED",
        ">RESERVED",
        ">HARD",
        ">AVAILABLE",
    ]);
    for quota in &quotas {
        for figure in &quota.resources {
            table.row([
                quota.name.clone(),
                figure.resource.clone(),
                figure.requested.to_string(),
                figure.used.to_string(),
                figure.reserved.to_string(),
                figure.hard.to_string(),
                figure.available().to_string(),
            ]);
        }
    }
    (!table.is_empty()).then_some(table)
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
            requested: Quantity::ZERO,
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
}
