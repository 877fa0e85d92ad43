//! Configuration: a file and the environment.

use std::io::{Seek as _, Write as _};

use quotad::config::{Sources, load};
use tempfile::NamedTempFile;

/// Reads the input as a file; behind a NUL follow variables, each with its value on a line. An effective configuration
/// can be printed and read again; an invalid one has errors.
pub fn run(data: &[u8]) {
    let (file, environment) = match data.iter().position(|byte| *byte == 0) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[][..]),
    };
    let environment = String::from_utf8_lossy(environment);
    let environment = environment.lines().filter_map(|line| line.split_once('='));
    let effective = match read(file, environment) {
        Ok(effective) => effective,
        Err(problems) => {
            assert!(!problems.0.is_empty());
            for problem in problems.0 {
                assert!(!problem.to_string().is_empty() && !problem.message.is_empty());
            }
            return;
        }
    };
    let printed = effective.to_toml();
    // Passwords are not printed.
    if printed.contains('@') {
        return;
    }
    let again = read(printed.as_bytes(), std::iter::empty());
    let again = again.unwrap_or_else(|problems| panic!("{problems:?}\n{printed}"));
    assert_eq!(again.config, effective.config, "{printed}");
}

fn read<'a>(
    file: &[u8],
    environment: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<quotad::config::Effective<quotad::config::Config>, quotad::config::Problems> {
    thread_local! {
        static FILE: NamedTempFile = NamedTempFile::new().unwrap();
    }
    FILE.with(|place| {
        let mut opened = place.as_file();
        opened.set_len(0).unwrap();
        opened.rewind().unwrap();
        opened.write_all(file).unwrap();
        load(&Sources {
            file: Some(place.path().to_owned()),
            environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
            flags: Vec::new(),
        })
    })
}
