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
