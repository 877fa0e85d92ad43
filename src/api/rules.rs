//! The rules that all routes of this API share. They are checked before a handler sees the request.

use http::Method;
use percent_encoding::percent_decode_str;

use super::{
    App, openapi,
    problem::{Problem, Reason},
};
use crate::{foreign_page::refuse_foreign_page, routes::Route};

/// The route under the rules: a query has only the parameters that the route declares, so that a mistyped one is not
/// silently ignored; and a web page of another origin cannot change anything.
///
/// In a cluster, the rules are checked on the node that answers, after `min_sequence` was taken out of the query of a read.
pub(super) fn enforced(route: Route<App>) -> Route<App> {
    let spec = route.spec();
    let changes = spec.method != Method::GET;
    let parameters = spec.operation.query.iter();
    let declared: Vec<&str> = parameters.map(|name| openapi::parameter_name(name)).collect();
    route.checked(move |request| {
        if changes {
            refuse_foreign_page(request)?;
        }
        match request.uri().query() {
            None => Ok(()),
            Some(query) => refuse_unknown(query, &declared),
        }
    })
}

fn refuse_unknown(query: &str, declared: &[&str]) -> Result<(), Problem> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let names = pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let mut names = names.map(|name| percent_decode_str(name).decode_utf8_lossy());
    let Some(unknown) = names.find(|name| !declared.contains(&&**name)) else {
        return Ok(());
    };
    let known = match declared {
        [] => "none is known here".to_owned(),
        names => format!("known: {}", names.join(", ")),
    };
    let detail = format!("unknown query parameter {unknown:?}; {known}");
    Err(Problem::new(Reason::Malformed, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_declared_parameters_are_known() {
        let known = ["limit", "labelSelector"];
        for query in ["", "&", "limit=1", "limit", "&labelSelector=a%3Db&limit=", "l%69mit=1"] {
            assert!(refuse_unknown(query, &known).is_ok(), "{query}");
        }
        for (query, unknown) in [
            ("limits=1", "limits"),
            ("limit=1&dryRun=All", "dryRun"),
            ("=1", ""),
            ("Limit=1", "Limit"),
            ("min%5Fsequence=1", "min_sequence"),
            ("%ff", "\u{fffd}"),
        ] {
            let problem = refuse_unknown(query, &known).unwrap_err();
            let detail =
                format!("unknown query parameter {unknown:?}; known: limit, labelSelector");
            assert_eq!(problem.detail(), detail);
        }
        let problem = refuse_unknown("ttl=5m", &[]).unwrap_err();
        let detail = "unknown query parameter \"ttl\"; none is known here";
        assert_eq!(problem.detail(), detail);
    }
}
