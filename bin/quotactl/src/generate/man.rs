//! `generate man`: a manual page for each command, from its help.

use std::{fs, io, path::Path};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::{
    args::Arguments,
    failure::{Failure, Outcome},
    output::Output,
};

/// Writes the pages into a directory, which is created if it does not exist.
pub(super) fn run(directory: &Path, output: &Output) -> Outcome {
    let about = |error: io::Error| Failure::from(error).about(directory.display());
    fs::create_dir_all(directory).map_err(about)?;
    let pages = pages().map_err(about)?;
    for (name, page) in &pages {
        fs::write(directory.join(name), page).map_err(about)?;
    }
    let count = pages.len();
    output.line(format!("{count} pages in {}", directory.display()))
}

/// The file names and pages: `quotactl.1`, `quotactl-get.1`, `quotactl-get-quota.1`, …
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = Arguments::command().disable_help_subcommand(true);
    // Gives commands their whole names, and the options that all of them have.
    root.build();
    let mut pages = Vec::new();
    add(&root, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
    visible.into_iter().try_for_each(|it| add(it, pages))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_command_has_a_page_of_its_own() {
        let all = pages().unwrap();
        let count = all.len();
        let pages: BTreeMap<_, _> =
            all.into_iter().map(|(name, text)| (name, String::from_utf8(text).unwrap())).collect();
        assert_eq!(pages.len(), count, "two pages have one name");
        for name in ["quotactl", "quotactl-get-quota", "quotactl-ledger-verify"] {
            let page = &pages[&format!("{name}.1")];
            assert!(page.contains(&format!(".TH {name} 1")), "{page}");
            let escaped = name.replace('-', "\\-");
            assert!(page.contains(&escaped), "{page}");
        }
        let reserve = &pages["quotactl-reserve.1"];
        assert!(reserve.contains("\\-\\-ttl") && reserve.contains("How long it is held"));
        assert!(pages["quotactl.1"].contains("10 denied, does not fit"));
    }
}
