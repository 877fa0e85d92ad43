//! The rows of `kubectl get` and `quotactl get`, and the ages in them.

use quota_semantics::{
    Name, Span, Timestamp,
    quantity::{Format, Quantity},
    resource::ResourceList,
};

use crate::wire::{Group, Quota};

/// The columns of [`quota_cells`]: those of `kubectl get resourcequota`, and the reserved amounts.
pub const QUOTA_COLUMNS: [&str; 5] = ["Name", "Request", "Limit", "Reserved", "Age"];

/// The columns of [`group_cells`].
pub const GROUP_COLUMNS: [&str; 7] =
    ["Name", "Parent", "Namespaces", "Used", "Reserved", "Guaranteed", "Age"];

/// A limit of a quota or a group, and the usage that counts against it. A missing amount is 0.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// The resource.
    pub resource: &'a str,
    /// The limit.
    pub hard: &'a Quantity,
    /// The amount of observed objects and commits.
    pub used: Option<&'a Quantity>,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Option<&'a Quantity>,
}

/// The place of a group in its tree, and its guarantees.
#[derive(Clone, Copy, Debug)]
pub struct GroupPosition<'a> {
    /// The parent group.
    pub parent: Option<&'a Name>,
    /// The number of member namespaces.
    pub members: usize,
    /// Whether the limits apply to each member alone. The usage is the sum over all members.
    pub each: bool,
    /// The amounts that are guaranteed to descendants, and not used or reserved by them.
    pub guaranteed_to_others: &'a ResourceList,
}

impl<'a> Limit<'a> {
    /// The limits of `hard`, each with its amounts in `used` and `reserved`.
    pub fn of(
        hard: &'a ResourceList,
        used: &'a ResourceList,
        reserved: &'a ResourceList,
    ) -> Vec<Self> {
        let limit = |(resource, hard): (&'a Name, &'a Quantity)| Self {
            resource,
            hard,
            used: used.get(resource),
            reserved: reserved.get(resource),
        };
        hard.iter().map(limit).collect()
    }

    /// `requests.cpu: 2/4`
    fn used_of_hard(&self) -> String {
        let used = beside(self.used, self.hard);
        format!("{}: {used}/{}", self.resource, exact(self.hard))
    }

    /// `pods: 50 (each 4)`
    fn used_with_each(&self) -> String {
        let used = beside(self.used, self.hard);
        format!("{}: {used} (each {})", self.resource, exact(self.hard))
    }
}

/// A quota as a row. Without `created` the age is `<unknown>`.
pub fn quota_cells(
    name: &str,
    limits: &[Limit<'_>],
    created: Option<Timestamp>,
    now: Timestamp,
) -> [String; 5] {
    let of_limits = |wanted: bool| {
        let is_wanted = |limit: &&Limit<'_>| limit.resource.starts_with("limits.") == wanted;
        joined(limits.iter().filter(is_wanted).map(Limit::used_of_hard))
    };
    [name.to_owned(), of_limits(false), of_limits(true), reserved(limits), age(created, now)]
}

/// A group as a row. Without `created` the age is `<unknown>`.
pub fn group_cells(
    name: &str,
    place: GroupPosition<'_>,
    limits: &[Limit<'_>],
    created: Option<Timestamp>,
    now: Timestamp,
) -> [String; 7] {
    let guaranteed = place.guaranteed_to_others.iter();
    let used = match place.each {
        true => Limit::used_with_each,
        false => Limit::used_of_hard,
    };
    [
        name.to_owned(),
        place.parent.map(Name::to_string).unwrap_or_default(),
        place.members.to_string(),
        joined(limits.iter().map(used)),
        reserved(limits),
        joined(guaranteed.map(|(name, amount)| {
            let limit = limits.iter().find(|limit| limit.resource == &**name);
            let hard = limit.map_or(amount, |limit| limit.hard);
            format!("{name}: {}", beside(Some(amount), hard))
        })),
        age(created, now),
    ]
}

impl Quota<'_> {
    /// The limits in force; those of the spec if the status has none yet.
    pub fn limits(&self) -> Vec<Limit<'_>> {
        let status = &self.status;
        let hard = match status.hard.is_empty() {
            true => &self.spec.hard,
            false => &*status.hard,
        };
        Limit::of(hard, &status.used, &status.reserved)
    }

    /// The row of a table.
    pub fn cells(&self, now: Timestamp) -> [String; 5] {
        let created = self.metadata.creation_timestamp;
        quota_cells(&self.metadata.name, &self.limits(), created, now)
    }
}

impl Group {
    /// The limits in force.
    pub fn limits(&self) -> Vec<Limit<'_>> {
        let status = &self.status;
        Limit::of(&status.hard, &status.used, &status.reserved)
    }

    /// The row of a table.
    pub fn cells(&self, now: Timestamp) -> [String; 7] {
        let place = GroupPosition {
            parent: self.parent.as_ref(),
            members: self.status.members,
            each: self.each,
            guaranteed_to_others: &self.status.guaranteed_to_others,
        };
        group_cells(&self.name, place, &self.limits(), self.created_time, now)
    }
}

fn reserved(limits: &[Limit<'_>]) -> String {
    let cell = |limit: &Limit<'_>| {
        let amount = limit.reserved.filter(|amount| !amount.is_zero())?;
        Some(format!("{}: {}", limit.resource, beside(Some(amount), limit.hard)))
    };
    joined(limits.iter().filter_map(cell))
}

fn exact(amount: &Quantity) -> String {
    amount.exact().to_string()
}

/// An amount in the family of suffixes of its limit, where it can be written in it. A missing amount is 0.
pub fn beside(amount: Option<&Quantity>, limit: &Quantity) -> String {
    amount.map_or_else(|| "0".to_owned(), |amount| in_family_of(amount, limit).exact().to_string())
}

/// The same amount in the family of suffixes of its limit: binary (`Ki`) or decimal (`k`).
fn in_family_of(amount: &Quantity, limit: &Quantity) -> Quantity {
    /// Kubernetes parses larger amounts with a binary suffix as this one.
    const BINARY_MAX: f64 = i64::MAX as f64;
    let family = match (amount.format(), limit.format()) {
        (from, to) if from == to => None,
        (_, Format::BinarySI) => {
            Some(Format::BinarySI).filter(|_| amount.to_f64().abs() < BINARY_MAX)
        }
        (Format::BinarySI, _) | (_, Format::DecimalSI) => Some(Format::DecimalSI),
        _ => None,
    };
    match family {
        Some(family) => amount.clone().in_format(family),
        None => amount.clone(),
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(", ")
}

/// The time since `created`, as in [`span`].
fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(|| "<unknown>".to_owned(), |created| span(now.since(created)))
}

/// A duration as kubectl prints it (`k8s.io/apimachinery/pkg/util/duration`): at most two units, coarser for longer
/// durations.
pub fn span(span: Span) -> String {
    let seconds = span.nanoseconds() / 1_000_000_000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let both = |more: i64, unit: &str, less: i64, smaller: &str| match less {
        0 => format!("{more}{unit}"),
        _ => format!("{more}{unit}{less}{smaller}"),
    };
    // Clocks differ a little between machines; a second in the future is now.
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => both(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => both(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => both(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => both(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_in_the_family_of_its_limit() {
        for (amount, limit, shown) in [
            ("800225Ki", "2G", "819430400"),
            ("1500M", "2Gi", "1500000000"),
            ("2048", "2Gi", "2Ki"),
            ("1Gi", "0", "1073741824"),
            ("1e3", "4k", "1k"),
            ("1Ki", "1e6", "1024"),
            ("500m", "4", "500m"),
            ("10000000002G", "1Ki", "10000000002G"),
        ] {
            let [amount, limit] = [amount, limit].map(|text| text.parse::<Quantity>().unwrap());
            assert_eq!(beside(Some(&amount), &limit), shown);
            let list =
                |amount: &Quantity| [("memory".into(), amount.clone())].into_iter().collect();
            let (hard, used): (ResourceList, ResourceList) = (list(&limit), list(&amount));
            let [_, request, _, reserved, _] =
                quota_cells("q", &Limit::of(&hard, &used, &used), None, Timestamp::EPOCH);
            assert_eq!(request, format!("memory: {shown}/{}", exact(&limit)));
            assert_eq!(reserved, format!("memory: {shown}"));
        }
    }

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR + DAY, "8y"),
        ] {
            assert_eq!(span(Span::from_seconds(seconds)), shown, "{seconds}");
        }
    }

    #[test]
    fn a_row_sums_up_each_limit() {
        let list = |amounts: &[(&str, &str)]| -> ResourceList {
            let read = |(name, amount): &(&str, &str)| ((*name).into(), amount.parse().unwrap());
            amounts.iter().map(read).collect()
        };
        let hard = list(&[("limits.cpu", "8"), ("pods", "10"), ("requests.cpu", "4")]);
        let used = list(&[("pods", "3"), ("requests.cpu", "500m")]);
        let reserved = list(&[("pods", "1"), ("requests.cpu", "0")]);
        let limits = Limit::of(&hard, &used, &reserved);
        let now = Timestamp::EPOCH.plus(Span::from_seconds(90));
        assert_eq!(
            quota_cells("q", &limits, Some(Timestamp::EPOCH), now),
            ["q", "pods: 3/10, requests.cpu: 500m/4", "limits.cpu: 0/8", "pods: 1", "90s"]
        );
        let parent = Name::from("company");
        let place = GroupPosition {
            parent: Some(&parent),
            members: 2,
            each: false,
            guaranteed_to_others: &list(&[("pods", "4")]),
        };
        assert_eq!(
            group_cells("g", place, &limits, None, now),
            [
                "g",
                "company",
                "2",
                "limits.cpu: 0/8, pods: 3/10, requests.cpu: 500m/4",
                "pods: 1",
                "pods: 4",
                "<unknown>"
            ]
        );
        let each = GroupPosition { each: true, ..place };
        assert_eq!(
            group_cells("g", each, &limits, None, now)[3],
            "limits.cpu: 0 (each 8), pods: 3 (each 10), requests.cpu: 500m (each 4)"
        );
    }
}
