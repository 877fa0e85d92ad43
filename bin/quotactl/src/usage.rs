//! `history`, `report` and `top`: usage over time, what was consumed in a period, and the fullest limits.

use std::{cmp::Reverse, collections::BTreeSet};

use quota_client::{
    http::Address,
    wire::{
        Amounts, GroupUsageHistory, GroupUsagePoint, LimitPoint, NamespacePage, NamespaceUsage,
        Report, ReportFigures, Suggestion, Suggestions, Usage, UsageHistory, UsagePoint,
        UsageSummary,
    },
};
use quota_semantics::{Name, Period, Span, quantity::Quantity};
use serde_json::Value;

use crate::{
    args::{History, ReportArgs as Args, Top, TopOrder},
    failure::Outcome,
    figures::{Units, alone, fullest, limit_name, percent, units_of},
    output::{Format, Output, note},
    session::{Session, read},
    simulate::{days, full_in},
    table::{self, Table, Text},
};

/// The number of points of a line, if no step is requested.
const POINTS: u64 = 40;

/// The maximum number of points of a line with little room.
const FEW_POINTS: usize = 16;

/// The length of the period, if none is requested.
const HOUR: Period = Period::from_secs(3600);

/// The heights of a point.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Shows used and reserved amounts over time.
pub(crate) fn history(session: &Session, args: &History) -> Outcome {
    let (from, to) = args.period.resolve(table::now(), Some(HOUR))?;
    let length = to.since(from).nanoseconds() / 1_000_000_000;
    let length = u64::try_from(length).unwrap_or_default();
    // Rounded up: no more points than fit.
    let default = u32::try_from(length.div_ceil(POINTS)).unwrap_or(u32::MAX);
    let step = args.step.unwrap_or(Period::from_secs(default.max(1)));
    let address = match &args.group {
        Some(group) => Address::of(["v1", "groups", group, "usage", "history"]),
        None => {
            let namespace = session.scope.of_one("a history")?;
            Address::in_namespace(namespace, ["usage", "history"])
        }
    };
    let address = address.with("from", from).with("to", to).with("step", step);
    let (mut lines, lagging, json) = match args.group {
        Some(_) => {
            let answer = session.client.get::<GroupUsageHistory>(&address)?;
            let GroupUsageHistory { group, points, summary, lagging, .. } = answer.content;
            let points = points.iter().map(|point: &GroupUsagePoint| {
                let limits = point.resources.iter();
                limits.map(|limit| (group.clone(), limit)).collect()
            });
            (lines(points, &summary), lagging, answer.json)
        }
        None => {
            let answer = session.client.get::<UsageHistory>(&address)?;
            let UsageHistory { points, summary, lagging, .. } = answer.content;
            let points = points.iter().map(|point: &UsagePoint| {
                let quotas = point.quotas.iter();
                let limits = quotas.flat_map(|quota| {
                    let limits = quota.resources.iter();
                    limits.map(|limit| (quota.name.clone(), limit))
                });
                limits.collect()
            });
            (lines(points, &summary), lagging, answer.json)
        }
    };
    session.note_lag(lagging);
    if let Some(wanted) = &args.resource {
        lines.retain(|line| *line.resource == **wanted);
    }
    show_history(session, &lines, &json)
}

fn show_history(session: &Session, lines: &[Line], json: &Value) -> Outcome {
    if lines.is_empty() {
        session.note_empty();
    }
    session.output.answer(json, || lines.iter().map(Line::name).collect(), |_| history_table(lines))
}

/// A limit over time.
struct Line {
    quota: Name,
    resource: Name,
    /// The whole period: the least and the largest sum of used and reserved, its mean, and its 95th percentile.
    whole: [Quantity; 4],
    /// The latest sum of used and reserved, if the limit exists at the end.
    now: Option<Quantity>,
    /// The latest value of the limit.
    hard: Quantity,
    /// The largest used share of the limit in each point; none where the limit did not exist.
    shares: Vec<Option<f64>>,
    /// The used share of the limit at the end.
    last: Option<f64>,
}

impl Line {
    fn name(&self) -> String {
        format!("{}/{}", self.quota, self.resource)
    }
}

/// A line for each limit that existed at any point.
fn lines<'p>(
    points: impl ExactSizeIterator<Item = Vec<(Name, &'p LimitPoint)>>,
    summary: &[UsageSummary],
) -> Vec<Line> {
    let count = points.len();
    let line = |whole: &UsageSummary| {
        let mut mean = whole.mean.taken.clone();
        // Smaller parts than thousandths are of no use to a reader; `-o json` has them.
        mean.round_up(quota_semantics::quantity::Scale::Milli);
        Some(Line {
            quota: whole.quota.clone()?,
            resource: whole.resource.clone(),
            whole: [
                whole.min.taken.clone(),
                whole.max.taken.clone(),
                mean.in_format(whole.max.taken.format()),
                whole.p95.taken.clone(),
            ],
            now: None,
            hard: whole.last.hard.clone()?,
            shares: vec![None; count],
            last: None,
        })
    };
    let mut lines: Vec<Line> = summary.iter().filter_map(line).collect();
    for (index, limits) in points.enumerate() {
        for (quota, limit) in limits {
            let found = lines
                .iter_mut()
                .find(|line| line.quota == quota && line.resource == limit.resource);
            let Some(line) = found else { continue };
            line.shares[index] = share(&limit.max, &limit.hard);
            if index + 1 == count {
                line.now = Some(limit.last.taken.clone());
                line.last = share(&limit.last, &limit.hard);
            }
        }
    }
    lines
}

fn share(amounts: &Amounts, hard: &Quantity) -> Option<f64> {
    Some(super::figures::share(hard, &amounts.taken, &Quantity::ZERO))
}

fn history_table(lines: &[Line]) -> Table {
    let mut table = Table::new(&[
        "QUOTA", "RESOURCE", "TAKEN", ">MIN", ">MAX", ">MEAN", ">P95", ">NOW", ">HARD", ">USE%",
    ]);
    let units = Units::of(lines.iter().map(|line| (&*line.resource, &line.hard)));
    for line in lines {
        let show = |amount| units.show(&line.resource, amount);
        let [min, max, mean, p95] = line.whole.each_ref().map(show);
        let now = line.now.as_ref().map_or_else(|| "-".to_owned(), show);
        table.row([
            line.quota.to_string().into(),
            line.resource.to_string().into(),
            Text::with_short(spark(&line.shares), Some(spark(&fewer(&line.shares)))),
            min.into(),
            max.into(),
            mean.into(),
            p95.into(),
            now.into(),
            show(&line.hard).into(),
            line.last.map_or_else(|| "-".to_owned(), percent).into(),
        ]);
    }
    table
}

/// Fewer points: the maximum of every few consecutive shares.
fn fewer(shares: &[Option<f64>]) -> Vec<Option<f64>> {
    let each = shares.len().div_ceil(FEW_POINTS).max(1);
    let most = |few: &[Option<f64>]| few.iter().flatten().copied().max_by(f64::total_cmp);
    shares.chunks(each).map(most).collect()
}

/// Shares as heights: the full height is the limit. A blank where there was no limit.
fn spark(shares: &[Option<f64>]) -> String {
    let of = |share: &Option<f64>| {
        let Some(share) = share else { return ' ' };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to 7"
        )]
        let height = (share.clamp(0.0, 1.0) * (HEIGHTS.len() - 1) as f64).ceil() as usize;
        HEIGHTS[height]
    };
    shares.iter().map(of).collect()
}

/// Reports what the daemon's ledger recorded.
pub(crate) fn report(session: &Session, args: &Args, selector: Option<&str>) -> Outcome {
    let (from, to) = args.period.resolve(table::now(), None)?;
    let resources = (!args.resource.is_empty()).then(|| args.resource.join(","));
    let address = Address::of(["v1", "report"])
        .with("from", from)
        .with("to", to)
        .with("by", &args.by)
        .with_some("namespace", session.scope.filter())
        .with_some("group", args.group.as_deref())
        .with_some("labelSelector", selector)
        .with_some("resource", resources);
    let answer = session.client.get::<Report>(&address)?;
    show_report(&answer.content, &answer.json, &session.output)
}

/// Prints a report. `whole` is all of it, as received.
pub(crate) fn show_report(
    report: &Report,
    whole: &impl serde::Serialize,
    output: &Output,
) -> Outcome {
    if matches!(output.format, Format::Csv) {
        return output.raw(&report.to_csv(|| ()));
    }
    if report.rows.is_empty() && report.total.is_empty() {
        note("Nothing was consumed in this period.");
    }
    let names = || report.rows.iter().map(|row| key_name(&row.key)).collect();
    output.answer(whole, names, |is_wide| report_table(report, is_wide))?;
    if output.is_table() {
        note(footer(report));
    }
    Ok(())
}

/// The period, and the entries behind the numbers.
fn footer(report: &Report) -> String {
    let mut text = format!("from {} to {}", report.from, report.to);
    if let (Some(first), Some(last)) = (report.first_sequence, report.last_sequence) {
        text.push_str(&format!(", entries {first} to {last}"));
    }
    if let (Some(first), Some(last)) = (&report.first_hash, &report.last_hash) {
        text.push_str(&format!("\nchain hashes {first} and {last}"));
    }
    if let Some(since) = report.denials_since {
        text.push_str(&format!("\ndenials are recorded since {since}"));
    }
    text
}

fn key_name(key: &std::collections::BTreeMap<String, Name>) -> String {
    let parts: Vec<String> = key.iter().map(|(key, value)| format!("{key}/{value}")).collect();
    parts.join(" ")
}

fn report_table(report: &Report, is_wide: bool) -> Table {
    let keys: BTreeSet<&String> = report.rows.iter().flat_map(|row| row.key.keys()).collect();
    // A table of rows without any key has a column for the total.
    let keys: Vec<&str> = match keys.is_empty() {
        true => vec!["key"],
        false => keys.into_iter().map(String::as_str).collect(),
    };
    let has_denials = report.denials_since.is_some();
    let mut titles: Vec<String> = keys.iter().map(|key| key.to_uppercase()).collect();
    let columns = [
        (true, "RESOURCE"),
        (true, ">CONSUMED"),
        (is_wide, ">RESERVED"),
        (true, ">MEAN"),
        (true, ">PEAK"),
        (true, "PEAK TIME"),
        (is_wide, ">PEAK ENTRY"),
        (true, ">P95"),
        (true, ">HARD"),
        (is_wide, ">LIMIT"),
        (true, ">USE%"),
        (true, ">FULL"),
        (true, ">GRANTS"),
        (has_denials, ">DENIALS"),
    ];
    let shown = columns.iter().filter(|(is_shown, _)| *is_shown);
    titles.extend(shown.map(|(_, title)| (*title).to_owned()));
    let mut table = Table::with_titles(titles);
    let mut add = |key: Vec<String>, resource: &Name, it: &ReportFigures| {
        let dash = || Text::from("-");
        let amount = |amount: &Quantity| Text::from(alone(resource, amount));
        let cells = [
            resource.to_string().into(),
            hours(resource, &it.consumed).into(),
            hours(resource, &it.reserved_consumed).into(),
            mean(resource, it).into(),
            amount(&it.peak),
            it.peak_time.map_or_else(dash, |time| time.whole_seconds().to_string().into()),
            it.peak_sequence.map_or_else(dash, |sequence| sequence.to_string().into()),
            amount(&it.p95),
            it.hard.as_ref().map_or_else(dash, amount),
            it.limit_hours.as_ref().map_or_else(dash, |limit| hours(resource, limit).into()),
            used_share(it).map_or_else(dash, |share| percent(share).into()),
            it.time_full.as_ref().map_or_else(dash, |full| full_time(full).into()),
            it.grants.to_string().into(),
            it.denials.map_or_else(dash, |denials| denials.to_string().into()),
        ];
        let cells = columns.iter().zip(cells);
        let cells = cells.filter_map(|((is_shown, _), cell)| is_shown.then_some(cell));
        table.row(key.into_iter().map(Text::from).chain(cells));
    };
    for row in &report.rows {
        for (resource, figures) in &row.resources {
            let value = |key: &&str| match row.key.get(*key) {
                Some(value) if value.is_empty() => "<none>".to_owned(),
                Some(value) => value.to_string(),
                None => "-".to_owned(),
            };
            add(keys.iter().map(value).collect(), resource, figures);
        }
    }
    for (resource, figures) in &report.total {
        let mut key = vec![String::new(); keys.len()];
        key[0] = "TOTAL".to_owned();
        add(key, resource, figures);
    }
    table
}

fn decimal(text: &str) -> f64 {
    text.parse::<Quantity>().map_or(f64::NAN, |quantity| quantity.to_f64())
}

/// The unit in which amounts of a resource are consumed, and how many units of the resource it has.
fn unit_of(resource: &str) -> (&'static str, f64) {
    let is_in_bytes =
        ["memory", "storage", "hugepages-"].iter().any(|part| resource.contains(part));
    match (is_in_bytes && !resource.starts_with("count/"), resource) {
        (true, _) => ("GiB", f64::from(1 << 30)),
        (false, "cpu" | "requests.cpu" | "limits.cpu") => ("core", 1.0),
        (false, _) => ("", 1.0),
    }
}

/// Unit-hours, rounded to a thousandth.
fn hours(resource: &str, text: &str) -> String {
    let (unit, size) = unit_of(resource);
    let number = rounded(decimal(text) / size);
    match unit {
        "" => format!("{number} h"),
        unit => format!("{number} {unit}-h"),
    }
}

fn mean(resource: &str, figures: &ReportFigures) -> String {
    let (unit, size) = unit_of(resource);
    let suffix = if unit == "GiB" { "Gi" } else { "" };
    format!("{}{suffix}", rounded(decimal(&figures.mean) / size))
}

fn rounded(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The share of what was set aside that was used.
fn used_share(figures: &ReportFigures) -> Option<f64> {
    let limit = decimal(figures.limit_hours.as_deref()?);
    (limit > 0.0).then(|| decimal(&figures.consumed) / limit)
}

/// A number of seconds, such as `12843s`, as durations are shown.
pub(crate) fn full_time(text: &str) -> String {
    let seconds = decimal(text.trim_end_matches('s'));
    #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
    let span = Span::from_nanoseconds((seconds * 1e9) as i64);
    match seconds {
        0.0 => "0".to_owned(),
        seconds if seconds < 10.0 => format!("{}s", rounded(seconds)),
        _ => table::span(span),
    }
}

/// The width of a bar, in characters.
const BAR: usize = 10;

/// Shows the fullest namespaces, or the fullest limits of one.
pub(crate) fn top(session: &Session, args: &Top) -> Outcome {
    match session.scope.filter() {
        None => namespaces(session, args),
        Some(namespace) => limits(session, namespace, args),
    }
}

/// Whether a share is at least the minimum.
fn is_enough(share: f64, args: &Top) -> bool {
    args.min.is_none_or(|min| share * 100.0 >= min)
}

fn share_of(usage: &NamespaceUsage) -> Option<f64> {
    let fullest = usage.fullest.as_ref()?;
    Some(fullest.share.unwrap_or(f64::INFINITY))
}

fn namespaces(session: &Session, args: &Top) -> Outcome {
    let address = Address::of(["v1", "usage"]);
    let address = args.when.added_to(address.with_some("labelSelector", args.selector.as_ref()));
    // The daemon sorts by fullness.
    let limit = (args.sort == TopOrder::Use).then_some(args.limit);
    let mut json = session.client.list_json(&address, limit)?;
    let page: NamespacePage = read(&json)?;
    let total = page.total;
    session.note_lag(page.lagging);
    let is_wanted = |usage: &NamespaceUsage| match share_of(usage) {
        Some(share) => is_enough(share, args),
        None => args.all && args.min.is_none(),
    };
    let mut found: Vec<_> = page.items.into_iter().zip(items_of(&json)).collect();
    found.retain(|(usage, _)| is_wanted(usage));
    match args.sort {
        TopOrder::Use => {}
        TopOrder::Name => found.sort_by(|(a, _), (b, _)| a.namespace.cmp(&b.namespace)),
        TopOrder::Pending => found.sort_by_key(|(usage, _)| Reverse(usage.reservations)),
    }
    found.truncate(args.limit);
    let (found, items): (Vec<NamespaceUsage>, Vec<Value>) = found.into_iter().unzip();
    json["items"] = items.into();
    if found.is_empty() {
        note("No resources found");
    } else if found.len() < total && !session.output.is_structured() {
        note(format!("{} of {total} namespaces", found.len()));
    }
    let name = |usage: &NamespaceUsage| format!("namespace/{}", usage.namespace);
    session.output.answer(
        &json,
        || found.iter().map(name).collect(),
        |_| {
            let mut table = Table::new(&[
                "NAMESPACE",
                ">USE%",
                "?",
                "FULLEST",
                ">USED",
                "?>RESERVED",
                ">HARD",
                ">AVAILABLE",
                "?>PENDING",
            ]);
            let limits = found.iter().filter_map(|usage| usage.fullest.as_ref());
            let units = Units::of(limits.map(|limit| (&*limit.resource, &limit.hard)));
            for usage in &found {
                table.row(namespace_row(usage, units));
            }
            table
        },
    )
}

fn namespace_row(usage: &NamespaceUsage, units: Units) -> [String; 9] {
    let pending = usage.reservations.to_string();
    let namespace = usage.namespace.to_string();
    let none = || "-".to_owned();
    let Some(fullest) = &usage.fullest else {
        let [a, b, c, d, e, f, g] = [(); 7].map(|()| none());
        return [namespace, a, b, c, d, e, f, g, pending];
    };
    let share = fullest.share.unwrap_or(f64::INFINITY);
    let show = |amount| units.show(&fullest.resource, amount);
    let limit = limit_name(fullest.kind, &fullest.quota);
    [
        namespace,
        percent(share),
        bar(share),
        format!("{limit}/{}", fullest.resource),
        fullest.used.as_ref().map_or_else(none, show),
        fullest.reserved.as_ref().map_or_else(none, show),
        show(&fullest.hard),
        show(&fullest.available),
        pending,
    ]
}

/// The items of a list as received.
fn items_of(json: &Value) -> Vec<Value> {
    let items = json["items"].as_array();
    items.cloned().unwrap_or_default()
}

fn limits(session: &Session, namespace: &str, args: &Top) -> Outcome {
    let address = args.when.added_to(Address::in_namespace(namespace, ["usage"]));
    let answer = session.client.get::<Usage>(&address)?;
    let usage = answer.content;
    session.note_lag(usage.lagging);
    let mut limits = fullest(&usage.quotas, &usage.room);
    if limits.is_empty() {
        session.note_empty();
    }
    let all = limits.len();
    limits.retain(|limit| is_enough(limit.share, args));
    if args.sort == TopOrder::Name {
        limits.sort_by(|a, b| (&a.limit, a.resource).cmp(&(&b.limit, b.resource)));
    }
    limits.truncate(args.limit);
    if limits.len() < all && !session.output.is_structured() {
        note(format!("{} of {all} limits", limits.len()));
    }
    let trends = match session.output.is_table() && args.when.is_now() {
        false => Vec::new(),
        true => trends(session, namespace),
    };
    session.output.answer(
        &answer.json,
        || {
            let limits = limits.iter();
            let names = limits.map(|limit| format!("{}/{}", limit.limit, limit.resource));
            names.collect()
        },
        |_| {
            let mut table = Table::new(&[
                "QUOTA",
                "RESOURCE",
                ">USE%",
                "?",
                ">USED",
                "?>RESERVED",
                ">HARD",
                ">AVAILABLE",
                ">FULL IN",
                "BOUND BY",
            ]);
            let units = units_of(&limits);
            for limit in &limits {
                let trend = trends.iter().find(|it| {
                    limit_name(it.kind, &it.name) == limit.limit && it.resource == *limit.resource
                });
                let left = trend.and_then(|it| it.full_in_seconds).map(full_in);
                let [hard, used, reserved, available] = limit.amounts(units);
                let bound_by = limit.bound_by.as_deref().unwrap_or("-");
                table.row([
                    limit.limit.clone(),
                    limit.resource.to_string(),
                    percent(limit.share),
                    bar(limit.share),
                    used,
                    reserved,
                    hard,
                    available,
                    left.unwrap_or_default(),
                    bound_by.to_owned(),
                ]);
            }
            table
        },
    )
}

/// The trends of the limits of a namespace, over a month or, if that is not kept, a week; none if the daemon cannot tell.
fn trends(session: &Session, namespace: &str) -> Vec<Suggestion> {
    let over = |count: u32| {
        let period = days(count);
        let address = Address::of(["v1", "suggestions"])
            .with("from", table::now().minus(period.span()))
            .with("namespace", namespace);
        session.client.get::<Suggestions>(&address).ok()
    };
    let answer = over(30).or_else(|| over(7));
    answer.map(|answer| answer.content.items).unwrap_or_default()
}

/// A share as a bar, which is full for shares above 1.
fn bar(share: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to the length of the bar"
    )]
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_height_is_the_limit() {
        let shares = [None, Some(0.0), Some(0.01), Some(0.5), Some(1.0), Some(7.0)];
        assert_eq!(spark(&shares), " ▁▂▅██");
        let many = [[None, Some(0.2), Some(1.0)]; 16].concat();
        assert_eq!(fewer(&many), [Some(1.0); 16]);
        assert_eq!(fewer(&shares), shares);
    }

    #[test]
    fn amounts_of_time_have_the_unit_of_their_resource() {
        for (resource, text, shown) in [
            ("requests.cpu", "12.5", "12.5 core-h"),
            ("limits.memory", "1610612736", "1.5 GiB-h"),
            ("pods", "3.0004", "3 h"),
            ("count/secrets", "0", "0 h"),
        ] {
            assert_eq!(hours(resource, text), shown);
        }
        assert_eq!(full_time("0s"), "0");
        assert_eq!(full_time("1.5s"), "1.5s");
        assert_eq!(full_time("7200s"), "120m");
    }

    #[test]
    fn bars_stay_in_their_place() {
        assert_eq!(bar(0.0), "..........");
        assert_eq!(bar(0.44), "####......");
        assert_eq!(bar(1.7), "##########");
        assert_eq!(bar(f64::INFINITY), "##########");
    }
}
