//! `drift`: compares the objects of the ledger with a listing.

mod compare;
mod correct;
mod listing;
mod report;

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::Path,
    time::Duration,
};

use quota_client::{
    http::Address,
    wire::{Compared, CorrectionOutcome, Object, Page},
};

use self::compare::{Comparing, Scope, ScopeArguments, add_gone};
use super::{
    args::Drift,
    failure::{Exit, Failure, Outcome},
    output::note,
    progress::Progress,
    session::Session,
};

/// The maximum age of a listing without a resourceVersion that is used for corrections.
const LISTING_MAX_AGE: Duration = Duration::from_secs(600);

/// The number of objects that may be ended whatever their share of the scope.
const FEW: usize = 10;

/// A difference, and the data for its correction.
#[derive(Clone, Debug)]
enum Drifted {
    /// A listed object that differs, and its listed JSON text, if the difference is to be corrected.
    Listed { compared: Box<Compared<'static>>, text: Box<str> },
    /// An object of the ledger that is not listed.
    Gone(Box<Object<'static>>),
}

/// The objects of a listing, each as JSON text. An incomplete listing is refused as a whole.
///
/// # Errors
/// If the listing cannot be read, or is incomplete.
pub fn objects_of(input: impl Read) -> Result<Vec<Box<str>>, String> {
    let mut objects = Vec::new();
    let read = listing::read(input, |item| {
        objects.push(item.text);
        Ok(())
    });
    match read {
        Ok(_) => Ok(objects),
        Err(failure) => Err(failure.message),
    }
}

/// Compares the ledger with a listing; fails with [`Exit::Conflict`] if they differ.
pub(crate) fn run(session: &Session, args: &Drift) -> Outcome {
    if args.correct != session.reason.is_some() {
        return Err(Failure::usage(
            "--correct and --reason go together: each entry holds the reason",
        ));
    }
    let requested = ScopeArguments {
        resources: args.resources.iter().cloned().collect(),
        namespace: session.scope.given.clone(),
        all: session.scope.all,
        allow_empty: args.allow_empty,
    };
    let place = place(&args.listing);
    // What comes into the ledger from now on may not be in the listing yet.
    let head = head(session)?;
    let progress = Progress::over_file("comparing", &args.listing);
    let input = progress.read(open(&args.listing)?);
    let mut comparing = Comparing::new(session, &requested, args.correct);
    let listed_as_of = listing::read(BufReader::new(input), |item| comparing.take(item))
        .and_then(|version| comparing.finish().map(|compared| (version, compared)))
        .map_err(|failure| failure.about(&place));
    drop(progress);
    let (version, mut compared) = listed_as_of?;
    let version = args.resource_version.or(version);
    let listed = std::mem::take(&mut compared.listed);
    let scope = Scope::new(&requested, listed).map_err(|failure| failure.about(&place))?;
    // The new object of a name is set before the old one is ended, so that a quota's limits hold without a gap.
    let gone = add_gone(session, &scope, &mut compared, head, version)?;
    let Some(reason) = session.reason.as_deref().filter(|_| args.correct) else {
        compared.show(session, None)?;
        return found(compared.differences.is_empty());
    };
    if let Err(failure) = may_correct(args, version, gone, compared.counts.believed) {
        compared.show(session, None)?;
        return Err(failure);
    }
    let outcomes = correct::correct(session, &compared.differences, reason)?;
    let all_right = outcomes
        .iter()
        .all(|it| matches!(it, CorrectionOutcome::Corrected | CorrectionOutcome::Right));
    compared.show(session, Some(&outcomes))?;
    found(all_right)
}

fn found(none: bool) -> Outcome {
    match none {
        true => Ok(()),
        false => Err(Failure::silent(Exit::Conflict)),
    }
}

fn place(listing: &Path) -> String {
    match listing == Path::new("-") {
        true => "standard input".to_owned(),
        false => listing.display().to_string(),
    }
}

fn open(listing: &Path) -> Outcome<Box<dyn Read>> {
    if listing == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let about = |error| Failure::from(error).about(listing.display());
    Ok(Box::new(File::open(listing).map_err(about)?))
}

/// The last entry of the ledger.
fn head(session: &Session) -> Outcome<u64> {
    let address = Address::of(["v1", "objects"]).with("limit", 1);
    let page = session.client.get::<Page<Object<'static>>>(&address)?.content;
    session.note_lag(page.lagging);
    Ok(page.as_of.sequence)
}

/// Refuses corrections if it is not certain enough that unlisted objects are gone.
fn may_correct(args: &Drift, version: Option<u64>, gone: usize, believed: usize) -> Outcome {
    if gone > FEW && gone > believed / 2 && !args.allow_ending_most {
        let wrong = format!("{gone} of {believed} objects would be ended; nothing was corrected");
        let hint = "if the listing is complete, use --allow-ending-most";
        return Err(Failure::general(wrong).hint(hint));
    }
    if gone > 0 && version.is_none() && is_old(&args.listing) {
        let wrong = "the listing is old and has no resourceVersion; nothing was corrected";
        let hint = "newer objects would count as gone: list again, or give --resource-version";
        return Err(Failure::general(wrong).hint(hint));
    }
    Ok(())
}

/// Whether a listing is a file that was written some time ago.
fn is_old(listing: &Path) -> bool {
    let modified = fs::metadata(listing).and_then(|file| file.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    listing != Path::new("-") && age.is_some_and(|age| age > LISTING_MAX_AGE)
}

/// Reports a count on standard error, unless it is 0.
fn note_some(count: usize, what: &str) {
    if count > 0 {
        note(format!("{count} {what}"));
    }
}
