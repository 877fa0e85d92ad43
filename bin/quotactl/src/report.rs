//! `report`: what was consumed in a period.

use std::collections::BTreeSet;

use quota_client::{
    http::Address,
    wire::{Report, ReportFigures},
};
use quota_semantics::{Name, Span, quantity::Quantity};

use super::{
    age,
    args::ReportArgs as Args,
    failure::Outcome,
    figures::percent,
    output::{Format, Output, note},
    session::Session,
    table::{Table, Text},
    unit::alone,
};

/// Reports what the daemon's ledger recorded.
pub(crate) fn run(session: &Session, args: &Args, selector: Option<&str>) -> Outcome {
    let (from, to) = args.period.resolve(age::now(), None)?;
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
    show(&answer.content, &answer.json, &session.output)
}

/// Prints a report. `whole` is all of it, as received.
pub(crate) fn show(report: &Report, whole: &impl serde::Serialize, output: &Output) -> Outcome {
    if matches!(output.format, Format::Csv) {
        return output.raw(&report.to_csv(|| ()));
    }
    if report.rows.is_empty() && report.total.is_empty() {
        note("Nothing was consumed in this period.");
    }
    let names = || report.rows.iter().map(|row| name(&row.key)).collect();
    output.answer(whole, names, |is_wide| table(report, is_wide))?;
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

fn name(key: &std::collections::BTreeMap<String, Name>) -> String {
    let parts: Vec<String> = key.iter().map(|(key, value)| format!("{key}/{value}")).collect();
    parts.join(" ")
}

fn table(report: &Report, is_wide: bool) -> Table {
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
        _ => age::span(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
