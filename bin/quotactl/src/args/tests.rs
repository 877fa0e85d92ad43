use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn requests_are_checked_before_they_are_sent() {
    let parsed = amounts("cpu=2,memory=1Gi").unwrap();
    assert_eq!(parsed.to_string(), "cpu=2,memory=1Gi");
    for wrong in ["", "cpu", "=1", "cpu=lots", "cpu=1,cpu=2", "cpu=1,"] {
        assert!(amounts(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_reservation_needs_a_file_or_a_request() {
    let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
    assert!(parse("quotactl reserve --uid a --request cpu=1 --ttl 30s").is_ok());
    assert!(parse("quotactl reserve -f -").is_ok());
    assert!(parse("quotactl reserve -f - --uid a").is_ok());
    assert!(parse("quotactl reserve --request cpu=1").is_ok());
    assert!(parse("quotactl reserve --uid a").is_err());
    assert!(parse("quotactl reserve -f x --request cpu=1").is_err());
    assert!(parse("quotactl extend a --ttl forever").is_err());
    assert!(parse("quotactl delete quota").is_err());
    assert!(parse("quotactl delete -f x").is_ok());
    assert!(parse("quotactl delete -n a quota x").is_ok());
    assert!(parse("quotactl delete --server http://a:1 group x").is_ok());
    assert!(parse("quotactl get quotas -n x -A -o name").is_ok());
}

#[test]
fn a_mistyped_command_is_answered_with_the_one_meant() {
    let error = Arguments::try_parse_from(["quotactl", "reseve"]).unwrap_err();
    assert!(error.to_string().contains("reserve"), "{error}");
}

#[test]
fn help_has_every_command_once_in_a_group_and_the_help_of_one_its_own_options_first() {
    let help = command().render_long_help().to_string();
    for it in Arguments::command().get_subcommands() {
        let line = format!("\n  {:<12} ", it.get_name());
        assert_eq!(help.matches(&line).count(), 1, "{line}: {help}");
    }
    assert!(!help.contains("More:"), "{help}");
    for title in ["Look:", "Change:", "Prove:", "Set up:", "Common options:"] {
        assert!(help.contains(title), "{title}: {help}");
    }
    let error = command().try_get_matches_from(["quotactl", "top", "--help"]);
    let help = error.unwrap_err().to_string();
    let own = help.find("--min").unwrap();
    assert!(own < help.find("Common options:").unwrap() && !help.contains("Look:"), "{help}");
}

#[test]
fn the_line_of_get_names_its_lists() {
    let mut command = Arguments::command();
    let get = command.find_subcommand_mut("get").unwrap();
    let line = get.get_about().unwrap().to_string();
    let names = get.get_subcommands().map(|it| it.get_name().trim_end_matches('s'));
    let missing: Vec<_> = names.filter(|name| !line.contains(name)).collect();
    // Few ask for these.
    assert_eq!(missing, ["dead-letter"]);
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_time_is_written_out_or_a_duration_before_now() {
    let time: Timestamp = "2026-11-29T10:00:00Z".parse().unwrap();
    assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Moment::At(time)));
    let ago = "90m".parse::<Moment>().unwrap().time();
    let minutes = table::now().since(ago).nanoseconds() / 60_000_000_000;
    assert!((90..=91).contains(&minutes), "{minutes}");
    for wrong in ["", "yesterday", "-1h", "12"] {
        assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
    }
    assert_eq!("12".parse(), Ok(Beginning::Sequence(12)));
    assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Beginning::Time(time)));
}

#[test]
fn a_month_is_a_period() {
    assert_eq!(month("2026-12"), Ok((time("2026-12-01T00:00:00Z"), time("2027-01-01T00:00:00Z"))));
    for wrong in ["2026-13", "2026-00", "26-1", "2026", "2026-1", "2300-01", "+026-01"] {
        assert!(month(wrong).is_err(), "{wrong}");
    }
}

fn count(command: &ClapCommand) -> usize {
    let own = command.get_arguments();
    let own = own.filter(|it| it.get::<ArgValueCandidates>().is_some());
    own.count() + command.get_subcommands().map(count).sum::<usize>()
}

#[test]
fn candidates_are_offered_for_arguments_that_exist() {
    let command = with_candidates(Arguments::command());
    // `get quota` and `describe quota` have the same argument.
    assert_eq!(count(&command), CANDIDATES.len() + 1);
}
